package history

import (
	"fmt"
	"iter"
)

// Chain is how far a history is verified. The zero Chain is the beginning.
type Chain struct {
	Seq   uint64 // of the newest event
	Head  Digest // of the history up to it
	Bytes uint64 // of its records
}

// Verify checks that rec is the next record of the chain: that it decodes, has the next sequence, and that its digest
// covers its header and everything before. It returns the event and moves the chain on. On error, which matches
// ErrCorrupt or ErrFormat, the chain is unchanged.
func (ch *Chain) Verify(c *Codec, rec []byte) (Event, error) {
	e, stored, err := c.DecodeEvent(rec)
	if err != nil {
		return Event{}, err
	}
	if e.Seq != ch.Seq+1 {
		return Event{}, fmt.Errorf("event %d follows event %d: %w", e.Seq, ch.Seq, ErrCorrupt)
	}
	p, err := splitEvent(rec)
	if err != nil {
		return Event{}, err
	}
	if want := ch.Head.next(p.header); stored != want {
		return Event{}, fmt.Errorf("event %d (%s) has digest %s, its bytes and those before give %s: %w", e.Seq, e.Kind, stored, want, ErrCorrupt)
	}
	ch.Seq, ch.Head, ch.Bytes = e.Seq, stored, ch.Bytes+uint64(len(rec))
	return e, nil
}

// Verify checks a whole history, from its first record on, and returns how far it is good: up to the record before the
// error. A history that ends too early verifies; compare the chain with a head that was kept elsewhere.
func Verify(c *Codec, recs iter.Seq[[]byte]) (Chain, error) {
	var ch Chain
	for rec := range recs {
		if _, err := ch.Verify(c, rec); err != nil {
			return ch, err
		}
	}
	return ch, nil
}
