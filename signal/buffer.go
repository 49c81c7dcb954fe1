package signal

import (
	"slices"

	"github.com/perdure/perdure/history"
)

// Buffer holds the signals of a run that no receive has taken. The zero value is empty and ready for use; it is
// not safe for concurrent use.
//
// Invariant: the items of each name are in the order of acceptance, which is the order of their sequences.
type Buffer struct {
	byName map[string][]history.InboxItem
}

// Add buffers a signal. Items are added in the order of their sequences.
func (b *Buffer) Add(item history.InboxItem) {
	if b.byName == nil {
		b.byName = make(map[string][]history.InboxItem)
	}
	b.byName[item.Name] = append(b.byName[item.Name], item)
}

// Take removes and returns the oldest item of one of the names that was accepted in time for the deadline (zero:
// there is none).
func (b *Buffer) Take(names []string, deadline history.Time) (item history.InboxItem, ok bool) {
	for _, name := range names {
		q := b.byName[name]
		if len(q) == 0 || !InTime(q[0].AcceptedAt, deadline) {
			continue
		}
		if !ok || q[0].Seq < item.Seq {
			item, ok = q[0], true
		}
	}
	if ok {
		b.Remove(item)
	}
	return item, ok
}

// Remove removes the item and reports whether it was there.
func (b *Buffer) Remove(item history.InboxItem) bool {
	q := b.byName[item.Name]
	i := slices.IndexFunc(q, func(o history.InboxItem) bool { return o.Seq == item.Seq })
	if i < 0 {
		return false
	}
	if i == 0 {
		q[0] = history.InboxItem{} // not kept by what is left
		q = q[1:]                  // most often the oldest: the others, which may be thousands, stay where they are
	} else {
		q = slices.Delete(q, i, i+1)
	}
	if len(q) == 0 {
		delete(b.byName, item.Name)
	} else {
		b.byName[item.Name] = q
	}
	return true
}

// Len counts the buffered signals.
func (b *Buffer) Len() int {
	n := 0
	for _, q := range b.byName {
		n += len(q)
	}
	return n
}

// InTime reports whether a fact accepted at that instant beats the deadline (zero: there is none).
func InTime(accepted, deadline history.Time) bool { return deadline.IsZero() || accepted < deadline }
