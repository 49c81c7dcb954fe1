package failpoint

import (
	"slices"
	"testing"
)

func TestArmedPointEndsAtItsTurn(t *testing.T) {
	var died []string
	p, err := New("answer/written:2", func(point string) { died = append(died, point) })
	if err != nil {
		t.Fatal(err)
	}
	commit := func(paths ...string) {
		for _, path := range paths {
			p.Enter(path)
		}
		p.Moment("staged")
		p.Moment("written")
		p.Leave()
	}
	commit("start", "answer", "answer")
	commit("start")
	if died != nil {
		t.Fatalf("died at %q before the second time", died)
	}
	commit("start", "answer")
	commit("answer")
	p.Hit("answer/written")
	if !slices.Equal(died, []string{"answer/written"}) {
		t.Errorf("died at %q, want once, the second time", died)
	}
}

func TestSpecsThatNameNoPointAreRefused(t *testing.T) {
	for _, spec := range []string{"answer/written", "answer/written:0", "answer:1", "answer/written:x"} {
		if _, err := New(spec, nil); err == nil {
			t.Errorf("%q is taken", spec)
		}
	}
}

// A process without the variable passes all points.
func TestNothingIsArmedByItself(t *testing.T) {
	t.Setenv(Env, "")
	stage := Op("start", func(int) error { return nil })
	if err := stage(1); err != nil {
		t.Error(err)
	}
	Enter("open")
	Moment("written")
	Hit("open/placed")
	Leave()
}
