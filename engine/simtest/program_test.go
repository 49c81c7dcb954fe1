package simtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/workflow"
)

// A node is a piece of a random program, which is the input of the workflow that executes it.
type node struct {
	Kind  string        `json:"k"`
	Name  string        `json:"n"`
	D     time.Duration `json:"d,omitempty"`
	Times int           `json:"t,omitempty"`
	Kids  []node        `json:"c,omitempty"`
}

// task is the input of a run: a program, and how many generations it goes through.
type task struct {
	Node   node   `json:"node"`
	Rounds int    `json:"rounds"`
	Sofar  string `json:"sofar"`
}

// generator makes random programs.
type generator struct {
	r *rand.Rand
	n int
}

func (g *generator) task() task {
	t := task{Node: node{Kind: "seq", Name: "root", Kids: g.nodes(1+g.r.IntN(4), 2)}}
	if g.r.IntN(4) == 0 {
		t.Rounds = 1 + g.r.IntN(2)
	}
	return t
}

var (
	leaves = []string{"step", "step", "step", "retry", "sleep", "sleep", "receive", "receive", "try", "fail", "ask", "person", "once", "operator", "comp"}
	inner  = []string{"seq", "all", "each", "race", "scope", "shield", "child", "child", "again"}
)

func (g *generator) node(depth int) node {
	kinds := leaves
	if depth > 0 {
		kinds = slices.Concat(inner, leaves)
	}
	g.n++
	n := node{Kind: kinds[g.r.IntN(len(kinds))], Name: "n" + strconv.Itoa(g.n)}
	if n.Kind == "fail" && g.r.IntN(3) > 0 || n.Kind == "person" && g.r.IntN(2) > 0 {
		n.Kind = "step"
	}
	switch n.Kind {
	case "sleep", "receive", "ask":
		n.D = time.Duration(1+g.r.IntN(40)) * time.Second
	case "retry", "again":
		n.Times = 1 + g.r.IntN(2)
	}
	switch n.Kind {
	case "seq", "scope", "shield", "child", "again":
		n.Kids = g.nodes(1+g.r.IntN(3), depth-1)
	case "all", "each", "race":
		n.Kids = g.nodes(2+g.r.IntN(2), depth-1)
	}
	return n
}

func (g *generator) nodes(n, depth int) []node {
	out := make([]node, n)
	for i := range out {
		out[i] = g.node(depth)
	}
	return out
}

// has reports whether the program has a node of one of the kinds.
func (n node) has(kinds ...string) bool {
	return slices.Contains(kinds, n.Kind) || slices.ContainsFunc(n.Kids, func(k node) bool { return k.has(kinds...) })
}

// fixed reports whether the program's outcome is the same whatever time things take: nothing races, nothing comes from
// outside, and no branch fails while others go on.
func (n node) fixed() bool {
	return !n.has("race", "receive", "try", "ask", "person", "once", "operator") && !(n.has("fail") && n.has("each"))
}

// errFails is the error of a program that fails by itself.
var errFails = errors.New("fails")

// expect computes the outcome of a fixed program without executing it.
func (n node) expect() (string, error) {
	switch n.Kind {
	case "fail":
		return "", errFails
	case "sleep":
		return "slept", nil
	case "comp":
		return "comp", nil
	case "step", "retry":
		return n.Name, nil
	case "child":
		return expectAll(n.Kids)
	case "again":
		return task{Node: n, Rounds: n.Times}.expect()
	case "all", "each":
		var rs []string
		failed := false
		for _, kid := range n.Kids {
			s, err := kid.expect()
			failed = failed || err != nil
			rs = append(rs, s)
		}
		return fmt.Sprint(rs, failed), nil
	}
	return expectAll(n.Kids)
}

func expectAll(ns []node) (string, error) {
	out := make([]string, len(ns))
	for i, n := range ns {
		s, err := n.expect()
		if err != nil {
			return "", err
		}
		out[i] = s
	}
	return strings.Join(out, ","), nil
}

func (t task) expect() (string, error) {
	out := t.Sofar
	for {
		s, err := expectAll(t.Node.Kids)
		if err != nil {
			return "", err
		}
		if t.Rounds == 0 || t.compensates() {
			return out + s, nil
		}
		out += s + ";"
		t.Rounds--
	}
}

// compensates reports whether the workflow function itself registers a compensation: it cannot continue as new then.
func (t task) compensates() bool { return compensates(t.Node.Kids) }

func compensates(ns []node) bool {
	return slices.ContainsFunc(ns, func(n node) bool {
		return n.Kind == "comp" || (n.Kind == "seq" || n.Kind == "shield") && compensates(n.Kids)
	})
}

// effect is told each time a step is entered.
type effect func(ctx context.Context, atMostOnce bool)

// program is the workflow that executes tasks.
type program struct {
	effect effect
	flow   *workflow.Workflow[task, string]
}

func newProgram(e effect) *program {
	p := &program{effect: e}
	p.flow = workflow.Define("program", 1, p.run)
	return p
}

func (p *program) run(ctx workflow.Context, t task) (string, error) {
	out, err := p.sequence(ctx, t.Node.Kids)
	if err == nil && t.Rounds > 0 && !t.compensates() {
		return "", workflow.ContinueAsNew(task{Node: t.Node, Rounds: t.Rounds - 1, Sofar: t.Sofar + out + ";"})
	}
	return t.Sofar + out, err
}

func (p *program) sequence(ctx workflow.Context, ns []node) (string, error) {
	out := make([]string, len(ns))
	for i, n := range ns {
		s, err := p.node(ctx, n)
		if err != nil {
			return "", fmt.Errorf("%s: %w", n.Name, err)
		}
		out[i] = s
	}
	return strings.Join(out, ","), nil
}

func (p *program) step(name string, atMostOnce bool) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		p.effect(ctx, atMostOnce)
		return name, nil
	}
}

// text is the form of all questions.
type text struct {
	A string `json:"a"`
}

// node executes the node and returns a text that says what happened.
func (p *program) node(ctx workflow.Context, n node) (string, error) {
	switch n.Kind {
	case "step":
		return workflow.Step(ctx, n.Name, p.step(n.Name, false))
	case "once":
		return ambiguous(workflow.Step(ctx, n.Name, p.step(n.Name, true), workflow.AtMostOnce()))
	case "operator":
		return ambiguous(workflow.Step(ctx, n.Name, p.step(n.Name, true), workflow.AtMostOnceOrOperator()))
	case "fail":
		return workflow.Step(ctx, n.Name, func(context.Context) (string, error) { return "", errFails }, workflow.Retry{Max: 2, First: time.Second})
	case "retry":
		return workflow.Step(ctx, n.Name, func(ctx context.Context) (string, error) {
			p.effect(ctx, false)
			if a := workflow.StepInfo(ctx).Attempt; int(a) <= n.Times {
				return "", fmt.Errorf("attempt %d", a)
			}
			return n.Name, nil
		}, workflow.Retry{Max: 5, First: time.Second})
	case "sleep":
		return "slept", workflow.Sleep(ctx, n.D)
	case "receive":
		v, err := workflow.Receive[string](ctx, "sig", workflow.Within(n.D))
		return timedOut(v, err)
	case "try":
		v, ok, err := workflow.TryReceive[string](ctx, "sig")
		return fmt.Sprint(v, ok), err
	case "ask":
		v, err := workflow.Ask[text](ctx, n.Name, workflow.Question{Message: "?"}, workflow.Within(n.D))
		return timedOut(v.A, err)
	case "person":
		v, err := workflow.Ask[text](ctx, n.Name, workflow.Question{Message: "?"})
		return v.A, err
	case "comp":
		workflow.OnFail(ctx, n.Name, func(ctx context.Context) error { p.effect(ctx, false); return nil })
		return "comp", nil
	case "scope":
		return workflow.Scope(ctx, n.Name, func(ctx workflow.Context) (string, error) { return p.sequence(ctx, n.Kids) })
	case "shield":
		var out string
		err := workflow.Uncanceled(ctx, func(ctx workflow.Context) (err error) {
			out, err = p.sequence(ctx, n.Kids)
			return err
		})
		return out, err
	case "all", "each", "race":
		return p.fork(ctx, n)
	case "child":
		return workflow.Child(ctx, n.Name, p.flow, task{Node: n})
	case "again":
		return workflow.Child(ctx, n.Name, p.flow, task{Node: n, Rounds: n.Times})
	}
	return p.sequence(ctx, n.Kids)
}

func timedOut(v string, err error) (string, error) {
	if errors.Is(err, workflow.ErrTimeout) {
		return "timeout", nil
	}
	return v, err
}

func ambiguous(v string, err error) (string, error) {
	if errors.Is(err, workflow.ErrAmbiguous) {
		return "ambiguous", nil
	}
	return v, err
}

func (p *program) fork(ctx workflow.Context, n node) (string, error) {
	branches := make([]workflow.Branch[string], len(n.Kids))
	for i, kid := range n.Kids {
		branches[i] = workflow.Branch[string]{ID: strconv.Itoa(i), Run: func(ctx workflow.Context) (string, error) { return p.node(ctx, kid) }}
	}
	switch n.Kind {
	case "race":
		id, s, err := workflow.Race(ctx, n.Name, branches)
		return id + "=" + s, err
	case "each":
		rs, err := workflow.Each(ctx, n.Name, branches, func(b workflow.Branch[string]) string { return b.ID },
			func(ctx workflow.Context, b workflow.Branch[string]) (string, error) { return b.Run(ctx) }, workflow.Parallel(2))
		if err != nil {
			return "", err
		}
		return fmt.Sprint(rs, false), nil
	}
	rs, err := workflow.All(ctx, n.Name, branches, workflow.CollectAll())
	var failed *workflow.BranchesError
	if err != nil && !errors.As(err, &failed) {
		return "", err
	}
	return fmt.Sprint(rs, err != nil), nil
}

// encode is the input of a task.
func (t task) encode() []byte {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // a struct of texts and numbers
	}
	return b
}
