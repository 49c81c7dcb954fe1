package kernel

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/perdure/perdure/history"
)

// Policy says when a construct of branches is decided.
type Policy uint8

const (
	// FailFast is decided by the first failure: the other branches are canceled.
	FailFast Policy = iota
	// CollectAll is never decided: every branch runs to its end.
	CollectAll
	// FirstWins is decided by the first branch that returns, however it returns.
	FirstWins
)

// ForkSpec describes a construct of branches.
type ForkSpec struct {
	Op, Name string
	Branches []BranchSpec
	// Parallel bounds how many branches are under way at once; 0 means all.
	Parallel int
	Policy   Policy
}

// BranchSpec is one branch of a construct.
type BranchSpec struct {
	ID  string
	Run func(*Branch) ([]byte, *history.Failure)
}

// Outcome is what a branch returned. A branch that was never begun, because another decided, has FailureCanceled.
type Outcome struct {
	ID      string           `json:"id"`
	Payload json.RawMessage  `json:"payload,omitempty"`
	Failure *history.Failure `json:"failure,omitempty"`
}

// Outcomes are a construct's result: the branches in order, and the one that decided ("" for none).
type Outcomes struct {
	Decider  string    `json:"decider,omitempty"`
	Branches []Outcome `json:"branches"`
}

// fork is an open construct.
//
// Invariant: once decider is set, no branch is begun, and every branch but the decider is lost.
type fork struct {
	spec     ForkSpec
	op       *operation
	children []*Branch // in order; nil where not begun
	outcomes []*Outcome
	begun    int
	live     int
	decider  string
	first    string // the first branch that met the policy, before the decision is recorded
}

// Fork runs branches and returns when all of them have returned.
func (b *Branch) Fork(spec ForkSpec) (Outcomes, *history.Failure) {
	if f := checkBranches(spec); f != nil {
		return Outcomes{}, f
	}
	o, f := b.enter(spec.Op, spec.Name)
	if f != nil {
		return Outcomes{}, f
	}
	o.fork = &fork{
		spec: spec, op: o,
		children: make([]*Branch, len(spec.Branches)), outcomes: make([]*Outcome, len(spec.Branches)),
	}
	if f := b.openFork(o); f != nil {
		b.x.leave(o)
		return Outcomes{}, f
	}
	payload, f := b.wait(o)
	if f != nil {
		return Outcomes{}, f
	}
	var out Outcomes
	if err := json.Unmarshal(payload, &out); err != nil {
		return Outcomes{}, &history.Failure{Kind: history.FailureEncoding, Message: fmt.Sprintf("outcomes of %s: %v", describe(o.op, o.pos), err)}
	}
	return out, nil
}

func checkBranches(spec ForkSpec) *history.Failure {
	seen := make(map[string]bool, len(spec.Branches))
	for _, br := range spec.Branches {
		if err := history.CheckName("branch", br.ID); err != nil {
			return &history.Failure{Kind: history.FailureMisuse, Message: err.Error()}
		}
		if seen[br.ID] {
			return &history.Failure{Kind: history.FailureMisuse, Message: fmt.Sprintf("%s %q has two branches %q: ids must differ", spec.Op, spec.Name, br.ID)}
		}
		seen[br.ID] = true
	}
	return nil
}

// openFork records the construct, or compares it with its record, and begins its branches.
func (b *Branch) openFork(o *operation) *history.Failure {
	x, f := b.x, o.fork
	ids := make([]string, len(f.spec.Branches))
	for i := range f.spec.Branches {
		ids[i] = f.spec.Branches[i].ID
	}
	switch {
	case o.recorded.closing() != nil && o.recorded.closing().Kind == history.BranchesClosed:
		return nil // its branches do not run again: the closing event settles it
	case o.recorded != nil:
		if want := o.recorded.events[0]; !slices.Equal(want.Names, ids) {
			b.diverge(&Divergence{
				Seq: want.Seq, Branch: b.path,
				Expected: fmt.Sprintf("%s with branches %q", describe(o.op, o.pos), want.Names),
				Found:    fmt.Sprintf("branches %q", ids),
			})
		}
	default:
		x.emit(history.Event{Kind: history.BranchesOpened, Position: o.pos, Op: o.op, Names: ids})
	}
	x.beginBranches(f)
	x.evaluate(f) // a construct without branches is closed at once
	return nil
}

// beginBranches begins branches in order, up to the bound.
func (x *Execution) beginBranches(f *fork) {
	for f.decider == "" && f.begun < len(f.children) && (f.spec.Parallel <= 0 || f.live < f.spec.Parallel) {
		spec := f.spec.Branches[f.begun]
		child := newBranch(x, f.op.branch, f, f.op.pos.Branch(spec.ID), f.begun, spec.Run)
		f.children[f.begun] = child
		f.begun++
		f.live++
		x.runnable = append(x.runnable, child)
	}
}

// branchReturned takes the outcome of a branch.
func (x *Execution) branchReturned(b *Branch) {
	f := b.fork
	for i, child := range f.children {
		if child == b {
			out := &Outcome{ID: f.spec.Branches[i].ID, Payload: b.payload, Failure: refuseContinue(b.failure)}
			f.outcomes[i] = out
			if f.first == "" && f.spec.Policy.decides(out) {
				f.first = out.ID
			}
			f.children[i] = nil
			break
		}
	}
	f.live--
	x.evaluate(f)
}

func (p Policy) decides(out *Outcome) bool {
	return p == FirstWins || p == FailFast && out.Failure != nil
}

// evaluate records a construct's decision and its end when they have come. While the history is replayed both come
// from there.
func (x *Execution) evaluate(f *fork) {
	if x.quiet() {
		if f.decider == "" && f.first != "" && f.op.recorded.decider() == f.first {
			x.decided(f, f.first) // here it was decided: what was lost is lost from here on
		}
		x.beginBranches(f)
		return
	}
	if f.decider == "" && f.first != "" {
		x.emit(history.Event{Kind: history.BranchesDecided, Position: f.op.pos, Op: f.op.op, Name: f.first})
		x.decided(f, f.first)
		x.cancelOpen()
	}
	x.beginBranches(f)
	if f.live > 0 || f.begun < len(f.children) && f.decider == "" {
		return
	}
	payload, err := json.Marshal(f.result())
	if err != nil {
		x.closeFork(f, nil, &history.Failure{Kind: history.FailureEncoding, Message: err.Error()})
		return
	}
	if large := x.tooLarge("the branches' results together", payload); large != nil {
		x.closeFork(f, nil, large)
		return
	}
	x.closeFork(f, payload, nil)
}

func (x *Execution) closeFork(f *fork, payload []byte, fail *history.Failure) {
	x.emit(history.Event{Kind: history.BranchesClosed, Position: f.op.pos, Op: f.op.op, Payload: payload, Failure: fail})
	x.settle(f.op, payload, fail)
}

// decided marks every branch but the decider as lost.
func (x *Execution) decided(f *fork, id string) {
	f.decider = id
	for i, child := range f.children {
		if child != nil && f.spec.Branches[i].ID != id {
			child.lost = true
		}
	}
}

// result lists the outcomes in order.
func (f *fork) result() Outcomes {
	out := Outcomes{Decider: f.decider, Branches: make([]Outcome, len(f.outcomes))}
	for i, o := range f.outcomes {
		if o == nil {
			o = &Outcome{ID: f.spec.Branches[i].ID, Failure: &history.Failure{Kind: history.FailureCanceled, Message: "never begun: another branch decided"}}
		}
		out.Branches[i] = *o
	}
	return out
}

// evaluateAll settles the constructs whose decision or end was due when the history ended.
func (x *Execution) evaluateAll() {
	for _, o := range x.openOps() {
		if o.fork != nil {
			x.evaluate(o.fork)
		}
	}
}
