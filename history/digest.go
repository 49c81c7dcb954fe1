package history

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Digest is a SHA-256 sum: of a payload, of an input, or of a history up to an event.
type Digest [sha256.Size]byte

// Sum returns the digest of b.
func Sum(b []byte) Digest { return sha256.Sum256(b) }

// IsZero reports whether d is "none", the digest before the first event.
func (d Digest) IsZero() bool { return d == Digest{} }

// String formats d as lower-case hex.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(b []byte) error {
	if hex.DecodedLen(len(b)) != len(d) {
		return fmt.Errorf("digest %q: want %d hex digits", b, hex.EncodedLen(len(d)))
	}
	_, err := hex.Decode(d[:], b)
	return err
}

// next returns the digest of a history that had digest d and is extended by an encoded header.
func (d Digest) next(header []byte) Digest {
	var room [len(Digest{}) + usualHeader]byte
	b := append(room[:0], d[:]...)
	b = append(b, header...)
	return Sum(b)
}
