package signal_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/signal"
)

func item(seq uint64, name string) history.InboxItem {
	return history.InboxItem{Seq: seq, Kind: history.InboxSignal, Name: name, AcceptedAt: history.Time(seq * 10)}
}

func TestBufferTakesTheOldestOfTheNames(t *testing.T) {
	var b signal.Buffer
	for i, name := range []string{"b", "a", "c", "a"} {
		b.Add(item(uint64(i+1), name))
	}
	for _, want := range []uint64{2, 3, 4} {
		got, ok := b.Take([]string{"c", "a"}, 0)
		if !ok || got.Seq != want {
			t.Errorf("took %d, %v; want %d", got.Seq, ok, want)
		}
	}
	if _, ok := b.Take([]string{"a", "c", "none"}, 0); ok || b.Len() != 1 {
		t.Errorf("took one of names that are not there; %d left", b.Len())
	}
}

func TestBufferTakesNothingAtOrAfterTheDeadline(t *testing.T) {
	var b signal.Buffer
	b.Add(item(5, "a")) // accepted at 50
	for _, deadline := range []history.Time{10, 50} {
		if _, ok := b.Take([]string{"a"}, deadline); ok {
			t.Errorf("took an item of 50 with deadline %d", deadline)
		}
	}
	if _, ok := b.Take([]string{"a"}, 51); !ok {
		t.Error("refused an item of 50 with deadline 51")
	}
}

func TestInTime(t *testing.T) {
	for _, tc := range []struct {
		accepted, deadline history.Time
		want               bool
	}{{9, 10, true}, {10, 10, false}, {11, 10, false}, {11, 0, true}} {
		if got := signal.InTime(tc.accepted, tc.deadline); got != tc.want {
			t.Errorf("accepted at %d, deadline %d: %v", tc.accepted, tc.deadline, got)
		}
	}
}

// TestBufferAgainstAModel holds the buffer against a plain list, FuzzBuffer with operations that the fuzzer finds.
func TestBufferAgainstAModel(t *testing.T) { rapid.Check(t, againstModel) }

func FuzzBuffer(f *testing.F) { f.Fuzz(rapid.MakeFuzz(againstModel)) }

func againstModel(t *rapid.T) {
	var b signal.Buffer
	var model []history.InboxItem
	seq := uint64(0)
	names := rapid.SampledFrom([]string{"a", "b", "c"})
	t.Repeat(map[string]func(*rapid.T){
		"add": func(t *rapid.T) {
			seq++
			i := item(seq, names.Draw(t, "name"))
			b.Add(i)
			model = append(model, i)
		},
		"take": func(t *rapid.T) {
			wanted := rapid.SliceOfNDistinct(names, 1, 3, rapid.ID[string]).Draw(t, "names")
			at := slices.IndexFunc(model, func(i history.InboxItem) bool { return slices.Contains(wanted, i.Name) })
			got, ok := b.Take(wanted, 0)
			if ok != (at >= 0) || ok && got.Seq != model[at].Seq {
				t.Fatalf("took %+v, %v from %+v", got, ok, model)
			}
			if ok {
				model = slices.Delete(model, at, at+1)
			}
		},
		"remove": func(t *rapid.T) {
			i := item(uint64(rapid.IntRange(1, 20).Draw(t, "seq")), names.Draw(t, "name"))
			at := slices.IndexFunc(model, func(o history.InboxItem) bool { return o.Seq == i.Seq && o.Name == i.Name })
			if removed := b.Remove(i); removed != (at >= 0) {
				t.Fatalf("removed %+v: %v", i, removed)
			}
			if at >= 0 {
				model = slices.Delete(model, at, at+1)
			}
		},
		"": func(t *rapid.T) {
			if b.Len() != len(model) {
				t.Fatalf("%d items, want %d", b.Len(), len(model))
			}
		},
	})
}
