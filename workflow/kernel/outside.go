package kernel

import (
	"slices"

	"github.com/perdure/perdure/history"
)

// withoutOutside leaves out what operators did: it is recorded for people, and no operation follows from it. A pause may
// stand anywhere between two activations, also before the first, where the code has not come to wait for anything yet.
func withoutOutside(events []history.Event) []history.Event {
	acted := func(e history.Event) bool { return e.Kind == history.OperatorActed }
	if !slices.ContainsFunc(events, acted) {
		return events
	}
	return slices.DeleteFunc(slices.Clone(events), acted)
}
