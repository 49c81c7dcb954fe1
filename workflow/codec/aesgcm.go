package codec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// AESGCM encrypts with AES-256-GCM. The data is a random nonce of 96 bits, the ciphertext and a tag of 128 bits.
//
// Each run has an encryption key of its own, derived by HKDF-SHA-256 from the key that was given, so that the bound on random
// nonces (2^32 payloads under one key, NIST SP 800-38D, 8.3) is one of a run and not of the store. The additional data is
// the payload's place and the key's id: what is moved to another run, event or question does not open. Digests are
// HMAC-SHA-256 under a third derived key.
type AESGCM struct {
	keys   map[string]*aesKey
	newest *aesKey
	order  []*aesKey // the newest first
}

type aesKey struct {
	id     string
	root   []byte // HKDF's pseudo-random key
	digest []byte
}

// NewAESGCM returns a codec that encrypts with the last of the keys and decrypts with all. No keys, an id twice, an empty or
// over-long id and a key that is all zeros match history.ErrInvalid.
func NewAESGCM(keys ...Key) (*AESGCM, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("aes-gcm: no keys: %w", history.ErrInvalid)
	}
	a := &AESGCM{keys: make(map[string]*aesKey, len(keys))}
	for i := range keys {
		k, err := newAESKey(&keys[i])
		if err != nil {
			return nil, fmt.Errorf("aes-gcm: %w", err)
		}
		if a.keys[k.id] != nil {
			return nil, fmt.Errorf("aes-gcm: key %q is there twice: %w", k.id, history.ErrInvalid)
		}
		a.keys[k.id], a.newest = k, k
		a.order = append([]*aesKey{k}, a.order...)
	}
	return a, nil
}

func newAESKey(k *Key) (*aesKey, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	root, err := hkdf.Extract(sha256.New, k.Secret[:], nil)
	if err != nil {
		return nil, fmt.Errorf("derive from key %q: %w", k.ID, err)
	}
	digest, err := hkdf.Expand(sha256.New, root, "perdure digest v1", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive from key %q: %w", k.ID, err)
	}
	return &aesKey{id: k.ID, root: root, digest: digest}, nil
}

var _ workflow.Digester = (*AESGCM)(nil)

// Name implements workflow.Codec.
func (*AESGCM) Name() string { return "aes-gcm" }

// Encode implements workflow.Codec.
func (a *AESGCM) Encode(at workflow.Place, b []byte) ([]byte, string, error) {
	gcm, err := a.newest.of(at.Run)
	if err != nil {
		return nil, "", err
	}
	out := make([]byte, 0, len(b)+gcm.Overhead())
	return gcm.Seal(out, nil, b, a.newest.bind(at)), a.newest.id, nil
}

// Decode implements workflow.Codec. A key that is not there matches workflow.ErrNoKey.
func (a *AESGCM) Decode(at workflow.Place, key string, data []byte) ([]byte, error) {
	k := a.keys[key]
	if k == nil {
		return nil, fmt.Errorf("key %q: %w", key, workflow.ErrNoKey)
	}
	gcm, err := k.of(at.Run)
	if err != nil {
		return nil, err
	}
	b, err := gcm.Open(nil, nil, data, k.bind(at))
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", key, errNotOpened)
	}
	return b, nil
}

// errNotOpened is all that authentication can tell.
var errNotOpened = errors.New("it does not open: the key is another one of that id, the bytes were changed, or they were written for another place")

// Digests implements workflow.Digester.
func (a *AESGCM) Digests(b []byte) []history.Digest {
	out := make([]history.Digest, len(a.order))
	for i, k := range a.order {
		mac := hmac.New(sha256.New, k.digest)
		mac.Write(b)
		mac.Sum(out[i][:0])
	}
	return out
}

// of returns the cipher of a run.
func (k *aesKey) of(run history.RunID) (cipher.AEAD, error) {
	key, err := hkdf.Expand(sha256.New, k.root, "perdure payload v1"+string(run[:]), 32)
	if err != nil {
		return nil, fmt.Errorf("derive from key %q: %w", k.id, err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", k.id, err)
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", k.id, err)
	}
	return gcm, nil
}

// bind is the additional data.
func (k *aesKey) bind(at workflow.Place) []byte {
	b := append([]byte("perdure v1\x00"), byte(len(k.id)))
	return append(append(b, k.id...), at.Bytes()...)
}
