package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/testbackend"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// A node is a piece of a random workflow. Its outcome is a function of the program alone: branches that race or fail
// fast start with sleeps of different lengths, so that time decides between them and not the scheduler.
type node struct {
	Kind  string // see program.node
	Name  string
	D     time.Duration
	Times int
	Kids  []node
}

// program generates a random workflow.
type program struct {
	r *rand.Rand
	n int
}

func (p *program) node(depth int) node {
	leaves := []string{"step", "step", "step", "retry", "sleep", "receive", "try", "value", "fail", "ask", "comp"}
	inner := []string{"seq", "all", "each", "race", "scope", "shield", "child", "again"}
	kinds := leaves
	if depth > 0 {
		kinds = append(inner, leaves...)
	}
	p.n++
	n := node{Kind: kinds[p.r.IntN(len(kinds))], Name: fmt.Sprintf("n%d", p.n), Times: 1 + p.r.IntN(2)}
	n.D = time.Duration(1+p.r.IntN(9)) * time.Second
	if n.Kind == "fail" && p.r.IntN(3) > 0 {
		n.Kind = "step"
	}
	switch n.Kind {
	case "seq", "scope", "shield", "child", "again":
		n.Kids = p.nodes(1+p.r.IntN(4), depth-1)
	case "all", "each", "race":
		n.Kids = p.nodes(1+p.r.IntN(3), depth-1)
	}
	return n
}

func (p *program) nodes(n, depth int) []node {
	out := make([]node, n)
	for i := range out {
		out[i] = p.node(depth)
	}
	return out
}

// run executes the node and returns a text that says what happened.
func (n node) run(ctx workflow.Context) (string, error) {
	switch n.Kind {
	case "step":
		return workflow.Step(ctx, n.Name, func(context.Context) (string, error) { return n.Name, nil })
	case "fail":
		return workflow.Step(ctx, n.Name, func(context.Context) (string, error) { return "", errors.New(n.Name + " fails") })
	case "retry":
		return workflow.Step(ctx, n.Name, func(ctx context.Context) (string, error) {
			if a := workflow.StepInfo(ctx).Attempt; int(a) <= n.Times {
				return "", fmt.Errorf("attempt %d", a)
			}
			return n.Name, nil
		}, workflow.Retry{Max: 5, First: time.Second, Jitter: -1})
	case "sleep":
		return "slept", workflow.Sleep(ctx, n.D)
	case "receive":
		v, err := workflow.Receive[string](ctx, "sig", workflow.Within(n.D))
		if errors.Is(err, workflow.ErrTimeout) {
			return "timeout", nil
		}
		return v, err
	case "try":
		v, ok, err := workflow.TryReceive[string](ctx, "sig")
		return fmt.Sprint(v, ok), err
	case "ask":
		_, err := workflow.Ask[struct {
			A string `json:"a"`
		}](ctx, n.Name, workflow.Question{Message: "?"}, workflow.Within(n.D))
		if errors.Is(err, workflow.ErrTimeout) {
			return "unanswered", nil
		}
		return "answered", err
	case "value":
		workflow.NewID(ctx)
		workflow.Now(ctx)
		workflow.SetStatus(ctx, n.Name)
		return "value", nil
	case "comp":
		workflow.OnFail(ctx, n.Name, func(context.Context) error { return nil })
		return "comp", nil
	case "seq":
		return sequence(ctx, n.Kids)
	case "scope":
		return workflow.Scope(ctx, n.Name, func(ctx workflow.Context) (string, error) { return sequence(ctx, n.Kids) })
	case "shield":
		var out string
		err := workflow.Uncanceled(ctx, func(ctx workflow.Context) (err error) {
			out, err = sequence(ctx, n.Kids)
			return err
		})
		return out, err
	case "all", "each", "race":
		return n.fork(ctx)
	case "child":
		return workflow.Child(ctx, n.Name, childWorkflow(), family{Node: n, Rounds: 0})
	case "again":
		return workflow.Child(ctx, n.Name, childWorkflow(), family{Node: n, Rounds: n.Times})
	}
	return "", errors.New("unknown node " + n.Kind)
}

// family is a child's input: it goes through its node's kids, as many generations as it has rounds.
type family struct {
	Node   node
	Rounds int
	Sofar  string
}

func childWorkflow() *workflow.Workflow[family, string] { return workflow.Define("child", 1, runChild) }

func runChild(ctx workflow.Context, in family) (string, error) {
	out, err := sequence(ctx, in.Node.Kids)
	if err == nil && in.Rounds > 0 && !in.Node.compensates() {
		return "", workflow.ContinueAsNew(family{Node: in.Node, Rounds: in.Rounds - 1, Sofar: in.Sofar + out + ";"})
	}
	return in.Sofar + out, err
}

// compensates reports whether the node's own kids register compensations, with which it cannot continue as new.
func (n node) compensates() bool {
	for _, kid := range n.Kids {
		if kid.Kind == "comp" || (kid.Kind == "seq" || kid.Kind == "shield") && kid.compensates() {
			return true
		}
	}
	return false
}

func sequence(ctx workflow.Context, ns []node) (string, error) {
	var out []string
	for _, n := range ns {
		s, err := n.run(ctx)
		if err != nil {
			return "", fmt.Errorf("%s: %w", n.Name, err)
		}
		out = append(out, s)
	}
	return strings.Join(out, ","), nil
}

// delay is how long the branch with this node waits first: no two branches end at the same instant.
func (n node) delay(i int) time.Duration {
	number, _ := strconv.Atoi(n.Name[1:])
	return time.Duration(i+1)*37*time.Second + time.Duration(number*number)*time.Millisecond
}

func (n node) fork(ctx workflow.Context) (string, error) {
	branches := make([]workflow.Branch[string], len(n.Kids))
	for i, kid := range n.Kids {
		branches[i] = workflow.Branch[string]{ID: strconv.Itoa(i), Run: func(ctx workflow.Context) (string, error) {
			if err := workflow.Sleep(ctx, kid.delay(i)); err != nil {
				return "", err
			}
			return kid.run(ctx)
		}}
	}
	switch n.Kind {
	case "race":
		id, s, err := workflow.Race(ctx, n.Name, branches)
		return id + "=" + s, err
	case "each":
		rs, err := workflow.Each(ctx, n.Name, branches, func(b workflow.Branch[string]) string { return b.ID },
			func(ctx workflow.Context, b workflow.Branch[string]) (string, error) { return b.Run(ctx) }, workflow.Parallel(2))
		return fmt.Sprint(rs), err
	}
	rs, err := workflow.All(ctx, n.Name, branches, workflow.CollectAll())
	if err != nil {
		return fmt.Sprintf("%v %v", rs, err), nil
	}
	return fmt.Sprint(rs), err
}

// errCrashed is what a dead process's store says.
var errCrashed = fmt.Errorf("crashed: %w", history.ErrClosed)

// crashing is a store whose process dies at its n-th commit, before or after the commit took effect.
type crashing struct {
	engine.Store
	mu    sync.Mutex
	n, at int // commits so far, and the one to die at (0: none)
	after bool
	dead  chan struct{}
}

func (c *crashing) Commit(ctx context.Context, b history.Batch) (history.State, error) {
	c.mu.Lock()
	c.n++
	dying := c.at > 0 && c.n == c.at
	dead := c.at > 0 && c.n > c.at
	c.mu.Unlock()
	if dead || dying && !c.after {
		if dying {
			close(c.dead)
		}
		return history.State{}, errCrashed
	}
	st, err := c.Store.Commit(ctx, b)
	if dying {
		close(c.dead)
		return history.State{}, errCrashed
	}
	return st, err
}

func (c *crashing) gone() bool {
	select {
	case <-c.dead:
		return true
	default:
		return false
	}
}

func (c *crashing) Claim(ctx context.Context, r history.ClaimRequest) ([]history.Claim, error) {
	if c.gone() {
		return nil, errCrashed
	}
	return c.Store.Claim(ctx, r)
}

func (c *crashing) Release(ctx context.Context, id history.RunID, tok history.Token, at history.Time, reason string) error {
	if c.gone() {
		return errCrashed
	}
	return c.Store.Release(ctx, id, tok, at, reason)
}

// play runs the program to its end, through a crash at commit number crashAt (0: none), and describes the outcome.
func play(t *testing.T, prog node, cancelAt time.Duration, crashAt int, after bool, resident int) (outcome string, commits int) {
	data := testbackend.New(t)
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("p", 1, func(ctx workflow.Context, _ int) (string, error) { return prog.run(ctx) })
		quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
		opts := engine.Options{Workflows: []workflow.Definition{w, childWorkflow()}, Log: quiet}
		opts.Worker.MaxResident = resident
		var id history.RunID
		begun := time.Now()
		for life := 0; ; life++ {
			store, err := data.Open(time.Now)
			if err != nil {
				t.Fatal(err)
			}
			c := &crashing{Store: store, dead: make(chan struct{}), after: after}
			if life == 0 {
				c.at = crashAt
			}
			e, err := engine.New(c, opts)
			if err != nil {
				t.Fatal(err)
			}
			if life == 0 {
				item := history.InboxItem{Kind: history.InboxSignal, Name: "sig", Key: "1", Payload: []byte(`"S1"`)}
				run, _, err := e.StartRun(t.Context(), history.Start{Spec: history.Spec{Workflow: "p", Version: 1}, Input: []byte("1"), Signal: &item})
				if err != nil {
					t.Fatal(err)
				}
				id = run.ID
			}
			over := make(chan struct{})
			ctx, stop := context.WithCancel(t.Context())
			go func() {
				defer close(over)
				for run, err := range e.Follow(ctx, id) {
					if err != nil || run.Status.Terminal() || run.Status == history.StatusBlocked {
						return
					}
				}
			}()
			var cancelTimer <-chan time.Time
			if cancelAt > 0 {
				cancelTimer = time.After(time.Until(begun.Add(cancelAt)))
			}
			for done := false; !done; {
				select {
				case <-over:
					done = true
				case <-c.dead:
					done = true
				case <-cancelTimer:
					if _, err := e.Cancel(t.Context(), id, "test", "test"); err != nil {
						t.Fatal(err)
					}
				}
			}
			stop()
			<-over
			crashed := c.gone()
			e.Close(t.Context()) //nolint:errcheck // a crashed store fails, as it must
			if !crashed {
				outcome = describe(t, store, id)
				commits = c.n
			}
			if err := store.Verify(t.Context(), func(v engine.Violation) { t.Errorf("checker: %+v", v) }); err != nil {
				t.Error(err)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			if !crashed {
				return
			}
		}
	})
	return outcome, commits
}

// describe is the outcome: the terminal event, and each step's recorded result, which must be one.
func describe(t *testing.T, store engine.Store, id history.RunID) string {
	run, err := store.Run(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	es, err := store.History(t.Context(), id, 1, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	results := make(map[history.Position]int)
	for _, e := range es {
		if e.Kind == history.StepCompleted || e.Kind == history.StepFailed {
			if results[e.Position]++; results[e.Position] > 1 {
				t.Errorf("step %s has two results", e.Position)
			}
		}
	}
	last := es[len(es)-1]
	f, err := json.Marshal(last.Failure)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s %s %s", run.Status, last.Payload, f, run.Reason)
}

// seedRange is which random workflows a test runs: PERDURE_SEEDS sets how many, and PERDURE_SEED one.
func seedRange(t *testing.T, seeds int) (first, n int) {
	t.Helper()
	number := func(name string, otherwise int) int {
		s := os.Getenv(name)
		if s == "" {
			return otherwise
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("%s is %q, want a number from 1 on", name, s)
		}
		return n
	}
	if one := number("PERDURE_SEED", 0); one > 0 {
		return one, 1
	}
	return 1, number("PERDURE_SEEDS", seeds)
}

// randomProgram is the workflow of a seed, and the generator that goes on from there.
func randomProgram(seed int) (*rand.Rand, node) {
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	p := &program{r: r}
	return r, node{Kind: "seq", Name: "root", Kids: p.nodes(2+r.IntN(3), 3)}
}

// TestCrashAtEveryCommitAndUnloadAtEveryWait runs random workflows straight, with a crash before and after every
// commit, and with unloading at every wait: the outcome must be the same. PERDURE_SEEDS sets how many workflows, and
// PERDURE_SEED runs one.
func TestCrashAtEveryCommitAndUnloadAtEveryWait(t *testing.T) {
	first, seeds := seedRange(t, 12)
	for seed := first; seed < first+seeds; seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			r, prog := randomProgram(seed)
			var cancelAt time.Duration
			if r.IntN(3) == 0 {
				cancelAt = time.Duration(r.IntN(60))*time.Second + 500*time.Millisecond
			}
			want, commits := play(t, prog, cancelAt, 0, false, 0)
			t.Logf("%d commits: %.200s", commits, want)
			if got, _ := play(t, prog, cancelAt, 0, false, -1); got != want {
				t.Errorf("unloaded at every wait:\n got %s\nwant %s", got, want)
			}
			for at := 1; at <= commits; at++ {
				for _, after := range []bool{false, true} {
					if got, _ := play(t, prog, cancelAt, at, after, 0); got != want {
						t.Errorf("crash at commit %d (after: %v):\n got %s\nwant %s", at, after, got, want)
					}
				}
			}
		})
	}
}
