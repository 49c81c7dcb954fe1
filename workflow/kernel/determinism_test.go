package kernel_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/kernel"
)

// tree is a random workflow.
type tree struct {
	kind string
	name string
	d    time.Duration
	kids []tree
}

func grow(r *rand.Rand, depth int, n *int) tree {
	kinds := []string{"step", "step", "retry", "sleep", "receive", "try", "any", "value", "status", "fail", "comp"}
	if depth > 0 {
		kinds = append(kinds, "seq", "all", "each", "race", "scope", "shield", "all", "race")
	}
	*n++
	t := tree{kind: kinds[r.IntN(len(kinds))], name: "n" + strconv.Itoa(*n), d: time.Duration(r.IntN(8)) * time.Second}
	for range 1 + r.IntN(3) {
		if depth > 0 {
			t.kids = append(t.kids, grow(r, depth-1, n))
		}
	}
	return t
}

func (t tree) run(ctx workflow.Context) (string, error) {
	switch t.kind {
	case "step":
		return workflow.Step(ctx, t.name, never[string])
	case "fail":
		return t.name, workflow.Do(ctx, t.name, func(context.Context) error { return nil }, workflow.Retry{Max: 1})
	case "retry":
		return workflow.Step(ctx, t.name, never[string], workflow.Retry{Max: 3, First: time.Second, Jitter: -1})
	case "sleep":
		return t.name, workflow.Sleep(ctx, t.d)
	case "receive":
		v, err := workflow.Receive[string](ctx, "s", workflow.Within(t.d))
		if errors.Is(err, workflow.ErrTimeout) {
			return "timeout", nil
		}
		return v, err
	case "any":
		s, err := workflow.ReceiveAny(ctx, []string{"s", "r"}, workflow.Within(t.d))
		if errors.Is(err, workflow.ErrTimeout) {
			return "timeout", nil
		}
		return s.Name + s.ID, err
	case "try":
		v, ok, err := workflow.TryReceive[string](ctx, "r")
		return fmt.Sprint(v, ok), err
	case "value":
		return workflow.Now(ctx).String(), nil
	case "status":
		workflow.SetStatus(ctx, t.name)
		return "", nil
	case "comp":
		workflow.OnFail(ctx, t.name, func(context.Context) error { return nil })
		return "", nil
	case "shield":
		return "", workflow.Uncanceled(ctx, func(ctx workflow.Context) error { return t.sequence(ctx) })
	case "scope":
		return workflow.Scope(ctx, t.name, func(ctx workflow.Context) (string, error) { return t.name, t.sequence(ctx) })
	case "all", "each", "race":
		return t.fork(ctx)
	}
	return t.name, t.sequence(ctx)
}

func (t tree) sequence(ctx workflow.Context) error {
	var first error
	for _, k := range t.kids {
		_, err := k.run(ctx)
		switch {
		case err == nil:
		case errors.Is(err, workflow.ErrCanceled), errors.Is(err, workflow.ErrDeadline), t.d > 5*time.Second:
			return err
		case first == nil && t.d > 2*time.Second:
			first = err // and goes on
		}
	}
	return first
}

func (t tree) fork(ctx workflow.Context) (string, error) {
	var bs []workflow.Branch[string]
	for i, k := range t.kids {
		bs = append(bs, workflow.Branch[string]{ID: strconv.Itoa(i), Run: k.run})
	}
	var out any
	var err error
	switch t.kind {
	case "race":
		out, _, err = workflow.Race(ctx, t.name, bs)
	case "all":
		out, err = workflow.All(ctx, t.name, bs, workflow.CollectAll(), workflow.Parallel(2))
	default:
		out, err = workflow.All(ctx, t.name, bs)
	}
	return fmt.Sprint(out), err
}

// never is a step's function: this test ends the steps itself.
func never[T any](context.Context) (v T, err error) { panic("a step was run by the kernel") }

// world drives one execution: it keeps what a store would, and decides at random what happens next.
type world struct {
	t       *testing.T
	fn      kernel.Func
	opts    kernel.Options
	x       *kernel.Execution
	run     history.Run
	events  []history.Event
	inbox   []history.InboxItem // not consumed
	items   uint64
	now     history.Time
	running map[history.Position]kernel.StepCall
	// stopping are the steps that were asked to stop. A replay does not wait for them: they are canceled at once.
	stopping map[history.Position]bool
	timers   map[history.Timer]bool
	next     history.Next
	wake     history.Time
}

func newWorld(t *testing.T, fn kernel.Func) *world {
	w := &world{
		t: t, fn: fn, now: 1_000_000_000, running: map[history.Position]kernel.StepCall{}, timers: map[history.Timer]bool{},
		stopping: map[history.Position]bool{},
		opts:     kernel.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Random: func() float64 { return 0.5 }},
	}
	w.run.Spec = history.Spec{ID: history.RunID{1}, Workflow: "w", Version: 1, Deadline: w.now.Add(5 * time.Minute)}
	w.run.Seq = 1
	w.events = []history.Event{{Seq: 1, Kind: history.RunStarted, At: w.now, Payload: []byte("0")}}
	w.x = kernel.New(&w.run, slices.Clone(w.events), fn, w.opts)
	w.advance(kernel.Input{})
	return w
}

// advance feeds the execution and does what a worker and a store do with what comes of it.
func (w *world) advance(in kernel.Input) int {
	in.Now = w.now
	a := w.x.Advance(in)
	if a.Diverged != nil {
		w.t.Fatalf("diverged: %v", a.Diverged)
	}
	for i, e := range a.Events {
		if e.Seq != uint64(len(w.events)+1) {
			w.t.Fatalf("event %d of the activation has sequence %d after %d", i, e.Seq, len(w.events))
		}
		w.events = append(w.events, e)
	}
	for _, n := range a.Consume {
		w.inbox = slices.DeleteFunc(w.inbox, func(i history.InboxItem) bool { return i.Seq == n })
	}
	for _, tm := range a.Clear {
		if !w.timers[tm] {
			w.t.Fatalf("clears timer %v, which is not there", tm)
		}
		delete(w.timers, tm)
	}
	for _, tm := range a.Set {
		if w.timers[tm] && tm.Position != "" { // the run's own deadline may be set again by the first activation
			w.t.Fatalf("sets timer %v twice", tm)
		}
		w.timers[tm] = true
	}
	for _, s := range a.Stop {
		if s.Drop {
			delete(w.running, s.Position)
		} else {
			w.stopping[s.Position] = true
		}
	}
	for _, c := range a.Start {
		w.running[c.Position] = c
	}
	w.next, w.wake = a.Next, a.Wake
	w.run.InboxSeen = a.InboxSeen
	if (w.next == history.NextRunning) != (len(w.running) > 0) && w.next != history.NextClosed {
		w.t.Fatalf("next is %d with %d steps running", w.next, len(w.running))
	}
	if w.next == history.NextWaiting {
		w.checkTimers()
	}
	return len(a.Events)
}

// checkTimers compares the rows with the earliest deadline: a row too few is a lost wake-up, one that is due a spin.
func (w *world) checkTimers() {
	first := history.Time(0)
	for tm := range w.timers {
		if first.IsZero() || tm.At < first {
			first = tm.At
		}
	}
	if first != w.wake || !first.IsZero() && first <= w.now {
		w.t.Fatalf("the earliest timer is %s, the execution waits for %s, it is %s", first, w.wake, w.now)
	}
}

// reload drops the execution and replays its history. Nothing may come of that but the steps that were under way.
func (w *world) reload() {
	w.t.Helper()
	for pos := range w.running {
		if w.stopping[pos] {
			return
		}
	}
	w.x.Unload()
	was := w.running
	w.running = map[history.Position]kernel.StepCall{}
	w.run.Seq = uint64(len(w.events))
	w.x = kernel.New(&w.run, slices.Clone(w.events), w.fn, w.opts)
	before := w.next
	if n := w.advance(kernel.Input{Inbox: slices.Clone(w.inbox)}); n != 0 {
		w.t.Fatalf("a replay made %d events:\n%s", n, w.timeline())
	}
	if w.next != before {
		w.t.Fatalf("next is %d after a replay, it was %d", w.next, before)
	}
	for pos, c := range was {
		if now, ok := w.running[pos]; !ok || now.Attempt != c.Attempt || now.IdempotencyKey != c.IdempotencyKey {
			w.t.Fatalf("step %s attempt %d was under way, after the replay it is %+v", pos, c.Attempt, now)
		}
	}
	if len(was) != len(w.running) {
		w.t.Fatalf("%d steps under way after a replay, %d before", len(w.running), len(was))
	}
}

func (w *world) timeline() string {
	var b strings.Builder
	for _, e := range w.events {
		fmt.Fprintf(&b, "%3d %s %-18s %s %s %s %v\n", e.Seq, e.At, e.Kind, e.Position, e.Name, e.Due, e.Failure)
	}
	return b.String()
}

// happen lets one random thing happen.
func (w *world) happen(r *rand.Rand) {
	w.now += history.Time(1 + r.IntN(1000))
	var in kernel.Input
	deliver := func(i history.InboxItem) {
		w.items++
		i.Seq, i.AcceptedAt = w.items, w.now
		w.inbox = append(w.inbox, i)
		in.Inbox = append(in.Inbox, i)
		w.now++
	}
	steps := make([]kernel.StepCall, 0, len(w.running))
	for _, c := range w.running {
		steps = append(steps, c)
	}
	slices.SortFunc(steps, func(a, b kernel.StepCall) int { return cmp.Compare(a.Position, b.Position) })
	r.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	switch what := r.IntN(100); {
	case what < 55 && len(steps) > 0:
		for _, c := range steps[:1+r.IntN(len(steps))] {
			res := kernel.StepResult{Position: c.Position, Attempt: c.Attempt, Payload: []byte(`"done"`)}
			if r.IntN(4) == 0 {
				res.Payload, res.Failure = nil, &history.Failure{Kind: history.FailureApplication, Message: "no", Final: r.IntN(5) == 0}
			}
			in.Steps = append(in.Steps, res)
			delete(w.running, c.Position)
		}
	case what < 75:
		for range 1 + r.IntN(2) {
			deliver(history.InboxItem{Kind: history.InboxSignal, Name: []string{"s", "r"}[r.IntN(2)], Key: strconv.Itoa(int(w.items)), Payload: []byte(`"x"`)})
		}
	case what < 76:
		deliver(history.InboxItem{Kind: history.InboxCancel, By: "me"})
	default:
		if w.wake > w.now {
			w.now = w.wake + history.Time(r.IntN(2)*r.IntN(3_000_000_000))
		}
	}
	w.advance(in)
}

// play runs the tree to its end under a seed and returns its history. reload says how often of ten it is replayed between.
func play(t *testing.T, root tree, seed uint64, reload int) []history.Event {
	t.Helper()
	def := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) { return root.name, root.sequence(ctx) })
	w := newWorld(t, def.Func())
	happens, reloads := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	for i := 0; w.next != history.NextClosed; i++ {
		if i > 3000 {
			t.Fatal("it does not end")
		}
		if reloads.IntN(10) < reload {
			w.reload()
		}
		w.happen(happens)
	}
	w.x.Unload()
	return w.events
}

// TestSameInputsGiveTheSameEventsHoweverOftenItIsReplayed drives random workflows with random facts: once straight, again to
// see that the kernel is deterministic, and with a replay before every fact.
func TestSameInputsGiveTheSameEventsHoweverOftenItIsReplayed(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 40
	}
	for seed := range uint64(seeds) {
		n := 0
		root := tree{kind: "seq", name: "root", d: 3 * time.Second}
		for r := rand.New(rand.NewPCG(seed, 0)); len(root.kids) < 5; {
			root.kids = append(root.kids, grow(r, 3, &n))
		}
		straight := play(t, root, seed, 0)
		for _, reload := range []int{0, 3, 10} {
			again := play(t, root, seed, reload)
			if i := differ(straight, again); i >= 0 {
				t.Fatalf("seed %d, %d replays of ten: event %d is\n%+v, it was\n%+v", seed, reload, i+1, at(again, i), at(straight, i))
			}
		}
		x := &history.Export{Run: history.Run{Spec: history.Spec{ID: history.RunID{1}, Deadline: straight[0].At.Add(5 * time.Minute)}}, Events: straight}
		def := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) { return root.name, root.sequence(ctx) })
		if err := kernel.Replay(x, def.Func(), kernel.Options{Log: slog.New(slog.DiscardHandler)}); err != nil {
			t.Fatalf("seed %d: replay of the whole: %v", seed, err)
		}
	}
}

func differ(a, b []history.Event) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || !reflect.DeepEqual(a[i], b[i]) {
			return i
		}
	}
	return -1
}

func at(es []history.Event, i int) any {
	if i < len(es) {
		return es[i]
	}
	return "missing"
}
