package history

import (
	"cmp"
	"fmt"
)

// Token is a fencing token: the proof that its bearer is the newest holder of a run.
//
// Invariant: a store mints tokens in strictly growing order, also over restarts and after a backup was restored,
// because Epoch is raised durably at every open to at least the wall clock in milliseconds (Gray and Cheriton,
// "Leases", 1989, give the lease; the token makes a late writer harmless).
type Token struct {
	// Epoch is one opening of the store.
	Epoch uint64 `cbor:"1,keyasint,omitempty" json:"epoch"`
	// Counter numbers the claims within an epoch from 1.
	Counter uint64 `cbor:"2,keyasint,omitempty" json:"counter"`
}

// Compare orders tokens by age: it is negative where t is older than u.
func (t Token) Compare(u Token) int {
	if c := cmp.Compare(t.Epoch, u.Epoch); c != 0 {
		return c
	}
	return cmp.Compare(t.Counter, u.Counter)
}

// IsZero reports whether t is no token at all.
func (t Token) IsZero() bool { return t == Token{} }

// String formats t so that newer tokens sort after older ones.
func (t Token) String() string { return fmt.Sprintf("%012x-%08x", t.Epoch, t.Counter) }
