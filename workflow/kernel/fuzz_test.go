package kernel_test

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/kernel"
)

// FuzzReplay replays golden histories that were tampered with: the code fits what is left, or a divergence says what does
// not. It never panics, and says the same each time.
func FuzzReplay(f *testing.F) {
	f.Add(uint8(0), []byte{})
	f.Add(uint8(1), []byte{0, 2, 3})
	f.Add(uint8(2), []byte{1, 1, 0, 2, 3, 4})
	f.Add(uint8(3), []byte{3, 1, 2, 4, 2, 1, 5, 3, 0})
	histories := make([][]byte, len(recordings))
	for i, r := range recordings {
		b, err := os.ReadFile(golden(r.name))
		if err != nil {
			f.Fatal(err)
		}
		histories[i] = b
	}
	f.Fuzz(func(t *testing.T, which uint8, edits []byte) {
		n := int(which) % len(recordings)
		var x history.Export
		if err := json.Unmarshal(histories[n], &x); err != nil {
			t.Fatal(err)
		}
		for edit := range slices.Chunk(edits[:min(len(edits), 24)], 3) {
			if len(edit) == 3 && len(x.Events) > 0 {
				tamper(&x, edit[0], int(edit[1])%len(x.Events), int(edit[2])%len(x.Events))
			}
		}
		first := workflow.Replay(recordings[n].main, &x)
		var differs *kernel.Divergence
		if first != nil && !errors.As(first, &differs) && !errors.Is(first, history.ErrInvalid) {
			t.Fatalf("%s: %v is neither a divergence nor invalid", recordings[n].name, first)
		}
		if second := workflow.Replay(recordings[n].main, &x); (first == nil) != (second == nil) || first != nil && first.Error() != second.Error() {
			t.Fatalf("%s: %v, then %v", recordings[n].name, first, second)
		}
	})
}

// tamper changes event i, with the help of event j.
func tamper(x *history.Export, how byte, i, j int) {
	a, b := &x.Events[i], &x.Events[j]
	switch how % 9 {
	case 0:
		x.Events = slices.Delete(x.Events, i, i+1)
	case 1:
		*a, *b = *b, *a
	case 2:
		x.Events = slices.Insert(x.Events, i, *b)
	case 3:
		a.Kind = b.Kind
	case 4:
		a.Position = b.Position
	case 5:
		a.Payload = b.Payload
	case 6:
		a.Op = b.Op
	case 7:
		a.Name, a.Names, a.Key = b.Name, b.Names, b.Key
	case 8:
		x.Events = x.Events[:i+1]
	}
	for k := range x.Events {
		x.Events[k].Seq = uint64(k + 1)
	}
}
