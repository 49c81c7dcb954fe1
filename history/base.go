package history

import (
	"fmt"
	"maps"
	"slices"
)

// Base is what a run's history begins with once the events of closed generations were pruned: everything that they add up to.
// The first event after it ends the newest pruned generation; its digest covers State.Head, so the chain goes on from here,
// and a head that is kept elsewhere still proves the whole history.
type Base struct {
	// State is the projection after the newest pruned event: its Seq, Head and Bytes are of all pruned events.
	State State `cbor:"1,keyasint" json:"state"`
	// Token is the newest fence that a pruned event has.
	Token Token `cbor:"2,keyasint,omitzero" json:"token,omitzero"`
	// Consumed are the inbox items that pruned events consumed, as rising spans: first, last, first, last.
	Consumed []uint64 `cbor:"3,keyasint,omitempty" json:"consumed,omitempty"`
	// Questions are the keys of those that were open then.
	Questions []string `cbor:"4,keyasint,omitempty" json:"questions,omitempty"`
	// Canceled and Deadline say that a pruned event took note of a cancel request, or of the run's deadline.
	Canceled bool `cbor:"5,keyasint,omitempty" json:"canceled,omitempty"`
	Deadline bool `cbor:"6,keyasint,omitempty" json:"deadline,omitempty"`
	// At is when the events were pruned last.
	At Time `cbor:"7,keyasint" json:"at"`
}

// consumed reports whether a pruned event consumed the inbox item.
func (b *Base) consumed(item uint64) bool {
	i, _ := slices.BinarySearch(b.Consumed, item)
	return i < len(b.Consumed) && (b.Consumed[i] == item || i%2 == 1)
}

// NewReplayFrom returns a replay of the events after a base.
func NewReplayFrom(c *Codec, b *Base) *Replay {
	r := NewReplay(c)
	r.base = *b
	r.chain = Chain{Seq: b.State.Seq, Head: b.State.Head, Bytes: b.State.Bytes}
	r.state, r.token, r.canceled, r.deadline = b.State, b.Token, b.Canceled, b.Deadline
	for _, key := range b.Questions {
		r.questions[key] = true
	}
	return r
}

// Base returns what the events so far add up to, to be the base of those that follow: the next one must end the generation.
// A history with findings has none: the error matches ErrCorrupt.
func (r *Replay) Base(now Time) (Base, error) {
	if len(r.found) > 0 {
		return Base{}, fmt.Errorf("%s: %s: %w", r.found[0].Rule, r.found[0].Detail, ErrCorrupt)
	}
	items := slices.Sorted(maps.Keys(r.consumed))
	return Base{
		State: r.state, Token: r.token, Consumed: addItems(r.base.Consumed, items), Questions: slices.Sorted(maps.Keys(r.questions)),
		Canceled: r.canceled, Deadline: r.deadline, At: now,
	}, nil
}

// addItems adds rising items to spans.
func addItems(spans, items []uint64) []uint64 {
	type span struct{ first, last uint64 }
	var all []span
	for i := 0; i+1 < len(spans); i += 2 {
		all = append(all, span{spans[i], spans[i+1]})
	}
	for _, n := range items {
		all = append(all, span{n, n})
	}
	slices.SortFunc(all, func(a, b span) int {
		if a.first < b.first {
			return -1
		}
		return 1
	})
	var out []uint64
	for _, s := range all {
		if n := len(out); n > 0 && s.first <= out[n-1]+1 {
			out[n-1] = max(out[n-1], s.last)
			continue
		}
		out = append(out, s.first, s.last)
	}
	return out
}

// Extends refuses a base that is not what the record of the next event goes on from. Its error matches ErrCorrupt.
func (b *Base) Extends(c *Codec, next []byte) error {
	ch := Chain{Seq: b.State.Seq, Head: b.State.Head}
	e, err := ch.Verify(c, next)
	if err != nil {
		return err
	}
	if e.Kind != RunContinued {
		return fmt.Errorf("event %d (%s) ends no generation: %w", e.Seq, e.Kind, ErrCorrupt)
	}
	return nil
}
