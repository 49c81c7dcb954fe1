package history_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/perdure/perdure/history"
)

// script makes a history of "kind position" events.
type line struct {
	kind history.Kind
	pos  history.Position
	f    *history.Failure
	n    []string
}

func numbered(lines ...line) []history.Event {
	es := []history.Event{{Seq: 1, Kind: history.RunStarted}}
	for _, l := range lines {
		es = append(es, history.Event{Seq: uint64(len(es) + 1), Kind: l.kind, Position: l.pos, Failure: l.f, Names: l.n})
	}
	return es
}

func kept(es []history.Event) []uint64 {
	var out []uint64
	for _, e := range es {
		out = append(out, e.Seq)
	}
	return out
}

func TestCutForRetry(t *testing.T) {
	down := &history.Failure{Kind: history.FailureApplication, Message: "down", Step: "pay#0", Attempts: 3}
	inB := &history.Failure{Kind: history.FailureApplication, Message: "down", Step: "each#0[b]/do#0", Attempts: 1}
	wrapped := &history.Failure{Kind: history.FailureApplication, Message: "order: down", Cause: down}
	nested := &history.Failure{Kind: history.FailureApplication, Message: "each: down", Cause: inB}
	canceled := &history.Failure{Kind: history.FailureCanceled}
	for _, tc := range []struct {
		name    string
		events  []history.Event
		want    []uint64
		again   history.Position
		cleanUp []history.Position
	}{
		{
			"a step: its attempts go, what was before stays",
			numbered(line{kind: history.StepCompleted, pos: "a#0"}, line{kind: history.StepRetried, pos: "pay#0"}, line{kind: history.StepProgressed, pos: "pay#0"},
				line{kind: history.StepFailed, pos: "pay#0", f: down}, line{kind: history.RunFailed, f: wrapped}),
			[]uint64{1, 2},
			"pay#0", nil,
		},
		{
			"compensations are told",
			numbered(line{kind: history.StepCompleted, pos: "a#0"}, line{kind: history.StepFailed, pos: "pay#0", f: down},
				line{kind: history.StepCompleted, pos: "undo#0"}, line{kind: history.RunFailed, f: wrapped}),
			[]uint64{1, 2},
			"pay#0",
			[]history.Position{"undo#0"},
		},
		{
			"a failure that was handled stays",
			numbered(line{kind: history.StepFailed, pos: "try#0", f: &history.Failure{Kind: history.FailureApplication, Message: "x", Step: "try#0"}},
				line{kind: history.StepFailed, pos: "pay#0", f: down}, line{kind: history.RunFailed, f: wrapped}),
			[]uint64{1, 2},
			"pay#0", nil,
		},
		{
			"an error of the workflow's own: all stays",
			numbered(line{kind: history.StepCompleted, pos: "a#0"}, line{kind: history.RunFailed, f: &history.Failure{Kind: history.FailureApplication, Message: "own"}}),
			[]uint64{1, 2},
			"", nil,
		},
		{
			"a cancel request",
			numbered(line{kind: history.StepCompleted, pos: "a#0"}, line{kind: history.TimerSet, pos: "s#0"}, line{kind: history.CancelRequested},
				line{kind: history.OperationCanceled, pos: "s#0", f: canceled}, line{kind: history.StepCompleted, pos: "undo#0"}, line{kind: history.RunCanceled, f: canceled}),
			[]uint64{1, 2, 3},
			"",
			[]history.Position{"undo#0"},
		},
		{
			"a branch: its siblings that had begun go on, until the construct is over",
			numbered(line{kind: history.BranchesOpened, pos: "each#0", n: []string{"a", "b", "c", "d"}},
				line{kind: history.TimerSet, pos: "each#0[c]/s#0"},
				line{kind: history.StepFailed, pos: "each#0[b]/do#0", f: inB},
				line{kind: history.StepCompleted, pos: "each#0[a]/do#0"},
				line{kind: history.TimerFired, pos: "each#0[c]/s#0"},
				line{kind: history.StepCompleted, pos: "each#0[d]/do#0"}, // may have begun in b's place
				line{kind: history.BranchesClosed, pos: "each#0"},
				line{kind: history.RunFailed, f: nested}),
			[]uint64{1, 2, 3, 5, 6},
			"each#0[b]/do#0", nil,
		},
		{
			"a branch: a decision ends what the siblings did by themselves",
			numbered(line{kind: history.BranchesOpened, pos: "each#0", n: []string{"a", "b"}},
				line{kind: history.TimerSet, pos: "each#0[a]/s#0"},
				line{kind: history.StepFailed, pos: "each#0[b]/do#0", f: inB},
				line{kind: history.BranchesDecided, pos: "each#0"},
				line{kind: history.OperationCanceled, pos: "each#0[a]/s#0", f: canceled},
				line{kind: history.BranchesClosed, pos: "each#0"},
				line{kind: history.RunFailed, f: nested}),
			[]uint64{1, 2, 3},
			"each#0[b]/do#0", nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cut, err := history.CutForRetry(tc.events)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(kept(cut.Events), tc.want) || cut.Again != tc.again || !slices.Equal(cut.CleanUp, tc.cleanUp) {
				t.Errorf("keeps %v, again %q, clean-up %q; want %v, %q, %q", kept(cut.Events), cut.Again, cut.CleanUp, tc.want, tc.again, tc.cleanUp)
			}
		})
	}
	for name, es := range map[string][]history.Event{
		"empty":     nil,
		"not over":  numbered(line{kind: history.StepCompleted, pos: "a#0"}),
		"completed": numbered(line{kind: history.RunCompleted}),
	} {
		if _, err := history.CutForRetry(es); !errors.Is(err, history.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCutForForkRefusesEditsThatWouldChangeNothing(t *testing.T) {
	es := numbered(
		line{kind: history.BranchesOpened, pos: "each#0", n: []string{"a"}},
		line{kind: history.StepCompleted, pos: "each#0[a]/do#0"},
		line{kind: history.BranchesClosed, pos: "each#0"},
	)
	edit := map[history.Position]json.RawMessage{"each#0[a]/do#0": []byte(`2`)}
	if _, err := history.CutForFork(es, 4, edit); !errors.Is(err, history.ErrInvalid) {
		t.Errorf("inside a closed construct: %v", err)
	}
	got, err := history.CutForFork(es, 3, edit)
	if err != nil || string(got[2].Payload) != `2` || es[2].Payload != nil {
		t.Errorf("%s, %v; the original has %s", got[2].Payload, err, es[2].Payload)
	}
}
