package simtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/storetest/memstore"
	"github.com/perdure/perdure/history"
)

const (
	linearClients = 5
	linearCalls   = 30 // of each client
	linearRuns    = 3
	// checkWithin bounds the search for an order: none of these histories needs a second.
	checkWithin = 20 * time.Second
)

// TestLinearizable lets clients call a store at once, and demands that there is an order of their calls, each between its
// beginning and its end, in which the sequential model says what the store said. PERDURE_LINEAR_HISTORIES says how many
// histories of each store, PERDURE_LINEAR_SEED repeats what the clients of one do, though not when.
func TestLinearizable(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) engine.Store{"boltstore": openBolt, "memstore": openMem} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, n := 1, number(t, "PERDURE_LINEAR_HISTORIES", 40)
			if one := number(t, "PERDURE_LINEAR_SEED", 0); one > 0 {
				first, n = one, 1
			}
			calls := map[string]int{}
			for seed := first; seed < first+n; seed++ {
				store := open(t)
				ops := linearHistory(store, uint64(seed))
				err := store.Verify(t.Context(), func(v engine.Violation) { t.Errorf("seed %d: checker: %+v", seed, v) })
				if err := errors.Join(err, store.Close()); err != nil {
					t.Fatal(err)
				}
				if result := porcupine.CheckOperationsTimeout(linear(), ops, checkWithin); result != porcupine.Ok {
					t.Fatalf("seed %d (PERDURE_LINEAR_SEED=%d): %s:\n%s", seed, seed, result, describe(ops))
				}
				for _, op := range ops {
					calls[op.Input.(input).Op+": "+op.Output.(output).Said]++
				}
			}
			t.Logf("%d histories: %v", n, calls)
			if n < 20 {
				return
			}
			for _, want := range []string{
				"start: new", "start: existed", "start: conflict", "signal: delivered", "signal: duplicate", "signal: conflict", "signal: dead letter",
				"answer: ok", "answer: answered", "answer: not found", "cancel: requested", "claim: claimed", "claim: none",
				"step: ok", "step: fenced", "step: sequence", "ask: ok", "finish: ok", "release: ok", "release: fenced",
			} {
				if calls[want] == 0 {
					t.Errorf("%s: in no history", want)
				}
			}
		})
	}
}

func openBolt(t *testing.T) engine.Store {
	t.Helper()
	s, err := boltstore.Open(filepath.Join(t.TempDir(), "linear.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openMem(t *testing.T) engine.Store {
	t.Helper()
	s, err := memstore.Open(memstore.NewDisk(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func describe(ops []porcupine.Operation) (text string) {
	for _, op := range ops {
		text += fmt.Sprintf("  client %d, %d to %d: %+v: %+v\n", op.ClientId, op.Call, op.Return, op.Input, op.Output)
	}
	return text
}

// linearClient makes the calls of one client and remembers what it holds, also what it has lost since.
type linearClient struct {
	id     int
	store  engine.Store
	r      *rand.Rand
	since  time.Time
	claims []*holding
	ops    []porcupine.Operation
}

type holding struct {
	run   int
	token history.Token
	seq   uint64
	head  history.Digest
	seen  uint64
}

// linearHistory lets the clients call the store at once and returns the history.
func linearHistory(store engine.Store, seed uint64) (all []porcupine.Operation) {
	since := time.Now()
	clients := make([]*linearClient, linearClients)
	var running sync.WaitGroup
	for i := range clients {
		c := &linearClient{id: i, store: store, since: since, r: rand.New(rand.NewPCG(seed, uint64(i)))}
		clients[i] = c
		running.Go(func() {
			for range linearCalls {
				c.call()
			}
		})
	}
	running.Wait()
	end := time.Since(since).Nanoseconds()
	for _, c := range clients {
		for _, op := range c.ops {
			if op.Output.(output).Said == notKnown {
				op.Return = end + 1 // it may take effect at any time from its call on
			}
			all = append(all, op)
		}
	}
	excuse(all)
	return all
}

// call makes one random call.
func (c *linearClient) call() {
	ops := []string{"start", "start", "signal", "signal", "answer", "answer", "claim", "claim", "claim", "commit", "commit", "commit", "commit", "release", "cancel", "terminate"}
	in := input{Op: ops[c.r.IntN(len(ops))], Run: c.r.IntN(linearRuns), ID: c.r.IntN(3), Payload: 1 + c.r.IntN(2), After: 2 + c.r.Uint64N(3)}
	if (in.Op == "cancel" || in.Op == "terminate") && c.r.IntN(3) > 0 {
		in.Op = "signal" // runs should live for a while
	}
	var h *holding
	if in.Op == "commit" || in.Op == "release" {
		if len(c.claims) == 0 {
			in.Op = "claim"
		} else {
			h = c.claims[len(c.claims)-1-min(c.r.IntN(4)/3, len(c.claims)-1)] // now and then an older one
			in.Run, in.Token, in.After, in.Seen = h.run, h.token, h.seq, h.seen
		}
	}
	if in.Op == "commit" {
		in.Op = []string{"step", "step", "ask", "finish"}[c.r.IntN(4)]
	}
	ctx := context.Background()
	if in.Op != "claim" && c.r.IntN(8) == 0 {
		short, cancel := context.WithTimeout(ctx, time.Duration(c.r.IntN(400))*time.Microsecond)
		defer cancel()
		ctx = short
	}
	begun := time.Since(c.since).Nanoseconds()
	out, err := c.do(ctx, &in, h)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		out = output{Said: notKnown}
	}
	c.ops = append(c.ops, porcupine.Operation{ClientId: c.id, Input: in, Call: begun, Output: out, Return: time.Since(c.since).Nanoseconds()})
}

// runID is the id of a run: fixed, so that it can be called before it is started.
func runID(run int) (id history.RunID) {
	id[15] = byte(run + 1)
	return id
}

func (c *linearClient) do(ctx context.Context, in *input, h *holding) (out output, err error) {
	id := runID(in.Run)
	queue := fmt.Sprint("q", in.Run)
	payload := fmt.Appendf(nil, "%d", in.Payload)
	switch in.Op {
	case "start":
		spec := history.Spec{ID: id, Key: key(in.Run), Workflow: "linear", Version: 1, Queue: queue}
		_, existed, err := c.store.Start(ctx, &history.Start{Spec: spec, Input: payload})
		return output{Said: said(map[bool]string{false: "new", true: "existed"}[existed], err)}, err
	case "signal":
		d, err := c.store.Deliver(ctx, id, history.InboxItem{Kind: history.InboxSignal, Name: "sig", Key: fmt.Sprint("s", in.ID), Payload: payload})
		return output{Said: said(d.String(), err)}, err
	case "answer":
		err := c.store.Answer(ctx, id, history.InboxItem{Kind: history.InboxAnswer, Key: asked(in.After), Payload: payload})
		return output{Said: said("ok", err)}, err
	case "cancel":
		run, err := c.store.Cancel(ctx, id, "client", "")
		text := "requested"
		if run.Status.Terminal() {
			text = run.Status.String()
		}
		return output{Said: said(text, err)}, err
	case "terminate":
		run, err := c.store.Terminate(ctx, id, "client", "")
		return output{Said: said(run.Status.String(), err)}, err
	case "release":
		err := c.store.Release(ctx, id, h.token, 0, "")
		return output{Said: said("ok", err)}, err
	case "claim":
		return c.claim(ctx, in.Run, queue)
	}
	return c.commit(ctx, in, h)
}

func asked(seq uint64) string { return fmt.Sprintf("ask%d#0", seq) }

func (c *linearClient) claim(ctx context.Context, run int, queue string) (output, error) {
	cs, err := c.store.Claim(ctx, history.ClaimRequest{
		Owner: fmt.Sprint("client ", c.id), Workflows: []history.WorkflowKey{{Name: "linear", Version: 1}}, Queues: []string{queue}, Max: 1, TTL: time.Hour,
	})
	if err != nil || len(cs) == 0 {
		return output{Said: said("none", err)}, err
	}
	h := &holding{run: run, token: cs[0].Token, seq: cs[0].Run.Seq, head: cs[0].Run.Head, seen: cs[0].Run.InboxSeen}
	for _, i := range cs[0].Inbox {
		h.seen = max(h.seen, i.Seq)
	}
	c.claims = append(c.claims, h)
	return output{Said: "claimed", Token: h.token}, nil
}

func (c *linearClient) commit(ctx context.Context, in *input, h *holding) (output, error) {
	b := history.Batch{Run: runID(in.Run), Token: h.token, After: h.seq, Head: h.head, InboxSeen: h.seen}
	e := history.Event{Seq: h.seq + 1}
	switch in.Op {
	case "step":
		e.Kind, e.Position, e.Op, e.Payload = history.StepCompleted, history.Position(fmt.Sprintf("step%d#0", e.Seq)), "step", []byte(`1`)
	case "ask":
		q := asked(e.Seq)
		e.Kind, e.Position, e.Op, e.Key, e.Payload = history.InterruptOpened, history.Position(q), "ask", q, []byte(`{}`)
		b.Open = []history.Interrupt{{Key: q, Position: history.Position(q), Method: history.MethodQuestion, Body: []byte(`{}`), OpenedAt: c.store.Now()}}
		b.Next = history.NextWaiting
	case "finish":
		e.Kind, e.Payload, b.Next = history.RunCompleted, []byte(`1`), history.NextClosed
	}
	b.Events = []history.Event{e}
	st, err := c.store.Commit(ctx, b)
	if err == nil && c.r.IntN(4) > 0 { // else it repeats itself
		h.seq, h.head = st.Seq, st.Head
	}
	return output{Said: said("ok", err)}, err
}

// lying is a store with a bug that only its callers' histories show.
type lying struct {
	engine.Store
	bug string
}

func (l lying) Answer(ctx context.Context, id history.RunID, item history.InboxItem) error {
	err := l.Store.Answer(ctx, id, item)
	if l.bug == "a second answer wins" && errors.Is(err, history.ErrAnswered) {
		return nil
	}
	return err
}

func (l lying) Commit(ctx context.Context, b history.Batch) (history.State, error) {
	st, err := l.Store.Commit(ctx, b)
	if l.bug == "a stale token commits" && errors.Is(err, history.ErrFenced) {
		return st, nil
	}
	return st, err
}

func (l lying) Start(ctx context.Context, s *history.Start) (*history.Run, bool, error) {
	run, existed, err := l.Store.Start(ctx, s)
	if l.bug == "a repeated start is a new one" {
		existed = false
	}
	return run, existed, err
}

func (l lying) Deliver(ctx context.Context, id history.RunID, item history.InboxItem) (engine.Delivery, error) {
	if l.bug == "a signal is acknowledged and lost" {
		if run, err := l.Store.Run(ctx, id); err == nil && !run.Status.Terminal() {
			return engine.Delivered, nil
		}
	}
	return l.Store.Deliver(ctx, id, item)
}

func (l lying) Claim(ctx context.Context, req history.ClaimRequest) ([]history.Claim, error) {
	cs, err := l.Store.Claim(ctx, req)
	for i := range cs {
		if l.bug == "tokens do not grow" {
			cs[i].Token = history.Token{Epoch: 1}
		}
	}
	if l.bug == "a run is passed over" && len(cs) > 0 && cs[0].Token.Counter%4 == 0 {
		return nil, l.Store.Release(ctx, cs[0].Run.ID, cs[0].Token, 0, "")
	}
	return cs, err
}

// TestLinearFindsPlantedBugs: the check of the checker.
func TestLinearFindsPlantedBugs(t *testing.T) {
	for _, bug := range []string{
		"a second answer wins", "a stale token commits", "a repeated start is a new one", "a signal is acknowledged and lost", "tokens do not grow",
		"a run is passed over",
	} {
		t.Run(bug, func(t *testing.T) {
			for seed := range uint64(20) {
				store := openMem(t)
				ops := linearHistory(lying{store, bug}, seed+1)
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
				if porcupine.CheckOperationsTimeout(linear(), ops, checkWithin) == porcupine.Illegal {
					t.Logf("found in history %d", seed+1)
					return
				}
			}
			t.Error("not found in 20 histories")
		})
	}
}
