package codec

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/perdure/perdure/history"
)

// Key is a secret and the id under which what it encrypted names it.
type Key struct {
	// ID is 1 to 64 letters, digits, dots, dashes and underscores. It names one secret for ever, and is stored in plain.
	ID     string
	Secret [32]byte
}

// NewKey makes a key of crypto/rand's entropy.
func NewKey(id string) (Key, error) {
	k := Key{ID: id}
	rand.Read(k.Secret[:]) // does not fail: see its documentation
	return k, k.check()
}

var keyID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (k *Key) check() error {
	switch {
	case !keyID.MatchString(k.ID):
		return fmt.Errorf("key id %.80q: want 1 to 64 letters, digits, dots, dashes and underscores: %w", k.ID, history.ErrInvalid)
	case k.Secret == [32]byte{}:
		return fmt.Errorf("key %q is all zeros: %w", k.ID, history.ErrInvalid)
	}
	return nil
}

// Line is the key as a line of a key file. It holds the secret.
func (k *Key) Line() string {
	return k.ID + " " + base64.StdEncoding.EncodeToString(k.Secret[:]) + "\n"
}

// String and GoString keep the secret out of logs.
func (k Key) String() string   { return fmt.Sprintf("key %q", k.ID) }
func (k Key) GoString() string { return k.String() }

// ParseKeys reads keys, the newest last: a line each, the id and 32 bytes in base64. Empty lines and those that begin with #
// are skipped. Its errors match history.ErrInvalid, name the line and do not repeat it.
func ParseKeys(r io.Reader) ([]Key, error) {
	var keys []Key
	lines := bufio.NewScanner(r)
	n := 1
	for ; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		k, err := parseKey(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		keys = append(keys, k)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d: is longer than an id and a key: %w", n, history.ErrInvalid)
	case err != nil:
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("no keys: %w", history.ErrInvalid)
	}
	return keys, nil
}

func parseKey(line string) (Key, error) {
	fields := strings.Fields(line)
	if len(fields) != 2 {
		return Key{}, fmt.Errorf("has %d fields, want an id and a key: %w", len(fields), history.ErrInvalid)
	}
	secret, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil || len(secret) != len(Key{}.Secret) {
		return Key{}, fmt.Errorf("the key is not 32 bytes in base64: %w", history.ErrInvalid)
	}
	k := Key{ID: fields[0], Secret: [32]byte(secret)}
	if !keyID.MatchString(k.ID) { // it may be a key, so it is not repeated
		return Key{}, fmt.Errorf("the id is not 1 to 64 letters, digits, dots, dashes and underscores: %w", history.ErrInvalid)
	}
	return k, k.check()
}
