package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Digest names a token in a file.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a token.
func DigestOf(token string) Digest { return sha256.Sum256([]byte(token)) }

const digestPrefix = "sha256:"

func (d Digest) String() string { return digestPrefix + hex.EncodeToString(d[:]) }

// parseDigest reads what String writes.
func parseDigest(text string) (d Digest, ok bool) {
	hexadecimal, ok := strings.CutPrefix(text, digestPrefix)
	if !ok || len(hexadecimal) != hex.EncodedLen(len(d)) {
		return d, false
	}
	_, err := hex.Decode(d[:], []byte(hexadecimal))
	return d, err == nil
}

// tokenPrefix lets scanners for leaked secrets know a token.
const tokenPrefix = "perdure_"

// New makes a token.
func New() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(b)
}

// Bearer is who a token speaks for.
type Bearer struct{ Tenant, Principal string }

// maxName bounds a principal and a tenant, in bytes.
const maxName = 128

// Check refuses a bearer that a line cannot hold.
func (b Bearer) Check() error {
	if b.Principal == "" {
		return fmt.Errorf("a token needs a principal: who its bearer is")
	}
	for what, name := range map[string]string{"principal": b.Principal, "tenant": b.Tenant} {
		if len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
			return fmt.Errorf("%s %.40q: want up to %d bytes of text without spaces", what, name, maxName)
		}
	}
	return nil
}

// Line is the line of a file that gives the token with this digest to the bearer.
func Line(d Digest, b Bearer) string {
	return strings.TrimSuffix(d.String()+" "+b.Principal+" "+b.Tenant, " ") + "\n"
}
