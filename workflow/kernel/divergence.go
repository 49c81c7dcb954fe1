package kernel

import (
	"fmt"
	"strings"

	"github.com/perdure/perdure/history"
)

// Divergence says where the code stopped fitting the history. It blocks the run until code that fits is deployed.
type Divergence struct {
	// Seq is the event that does not fit; 0 where the code did more than the history has.
	Seq    uint64
	Branch history.Branch
	// Expected is what the history has, Found what the code did; either may be "nothing".
	Expected, Found string
}

// Error is the readable difference.
func (d *Divergence) Error() string {
	var b strings.Builder
	b.WriteString("the code does not fit the history")
	if d.Branch != "" {
		fmt.Fprintf(&b, " in branch %s", d.Branch)
	}
	if d.Seq != 0 {
		fmt.Fprintf(&b, " at event %d", d.Seq)
	}
	fmt.Fprintf(&b, "\n- history: %s\n+ code:    %s", d.Expected, d.Found)
	return b.String()
}

func describe(op string, pos history.Position) string { return op + " " + string(pos) }

func describeEvent(e *history.Event) string {
	if e.Position == "" {
		return e.Kind.String()
	}
	if e.Op == "" {
		return e.Kind.String() + " " + string(e.Position)
	}
	return fmt.Sprintf("%s %s (%s)", e.Op, e.Position, e.Kind)
}
