package history

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Spans of consumed items say of each item what a set would say, however they were put together.
func TestConsumedSpansAreASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SliceOfDistinct(rapid.Uint64Range(1, 40), rapid.ID[uint64]), 1, 4).Draw(t, "parts")
		var b Base
		set := map[uint64]bool{}
		for _, items := range parts {
			slices.Sort(items)
			b.Consumed = addItems(b.Consumed, items)
			for _, n := range items {
				set[n] = true
			}
		}
		for n := uint64(0); n < 45; n++ {
			if got := b.consumed(n); got != set[n] {
				t.Fatalf("item %d of spans %v is consumed: %t, want %t", n, b.Consumed, got, set[n])
			}
		}
	})
}
