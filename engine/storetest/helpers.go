package storetest

import (
	"errors"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

const (
	workflow = "order"
	ttl      = time.Minute
)

func versionOne() history.WorkflowKey { return history.WorkflowKey{Name: workflow, Version: 1} }

func (e *env) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// is fails unless err matches want.
func (e *env) is(err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Fatalf("error is %v, want one that matches %q", err, want)
	}
}

func equal[T comparable](e *env, what string, got, want T) {
	e.Helper()
	if got != want {
		e.Fatalf("%s is %v, want %v", what, got, want)
	}
}

func specWith(key string) history.Spec {
	return history.Spec{Key: key, Workflow: workflow, Version: 1}
}

// begin starts a run.
func (e *env) begin(key string) history.Run {
	e.Helper()
	run, existed, err := e.Start(e.ctx, &history.Start{Spec: specWith(key), Input: []byte(`{"n":1}`), By: "tester"})
	e.ok(err)
	equal(e, "existed", existed, false)
	return *run
}

func (e *env) claims(owner string, limit int) []history.Claim {
	e.Helper()
	cs, err := e.Claim(e.ctx, engine.ClaimRequest{Owner: owner, Workflows: []history.WorkflowKey{versionOne()}, Max: limit, TTL: ttl})
	e.ok(err)
	return cs
}

// none fails if anything can be claimed.
func (e *env) none() {
	e.Helper()
	if cs := e.claims("nobody", 10); len(cs) > 0 {
		e.Fatalf("%d runs can be claimed, the first is %s (%s), want none", len(cs), cs[0].Run.ID, cs[0].Run.Key)
	}
}

// holder is a test's worker: it holds one run.
type holder struct {
	*env
	id    history.RunID
	token history.Token
	claim history.Claim
	seq   uint64
	head  history.Digest
	seen  uint64
}

// take claims the one run that is ready.
func (e *env) take() *holder {
	e.Helper()
	cs := e.claims("worker", 1)
	if len(cs) != 1 {
		e.Fatal("no run can be claimed")
	}
	return e.holder(cs[0])
}

func (e *env) holder(c history.Claim) *holder {
	h := &holder{env: e, id: c.Run.ID, token: c.Token, claim: c, seq: c.Run.Seq, head: c.Run.Head, seen: c.Run.InboxSeen}
	if n := len(c.Inbox); n > 0 {
		h.seen = max(h.seen, c.Inbox[n-1].Seq)
	}
	return h
}

// takeNew starts a run and claims it.
func (e *env) takeNew(key string) *holder {
	e.Helper()
	e.begin(key)
	return e.take()
}

// batch makes a well-formed batch of the events.
func (h *holder) batch(next history.Next, events ...history.Event) history.Batch {
	b := history.Batch{Run: h.id, Token: h.token, After: h.seq, Head: h.head, InboxSeen: h.seen, Next: next}
	for i, ev := range events {
		ev.Seq = h.seq + 1 + uint64(i)
		if ev.Inbox != 0 {
			b.Consume = append(b.Consume, ev.Inbox)
		}
		b.Events = append(b.Events, ev)
	}
	return b
}

// commit writes a batch that must be taken.
func (h *holder) commit(b history.Batch) history.State {
	h.Helper()
	state, err := h.Commit(h.ctx, b)
	h.ok(err)
	h.seq, h.head = state.Seq, state.Head
	return state
}

// refused writes a batch that must not be taken and must change nothing.
func (h *holder) refused(b history.Batch, want error) {
	h.Helper()
	before := h.Run(h.id)
	_, err := h.Commit(h.ctx, b)
	h.is(err, want)
	after := h.Run(h.id)
	if before.Seq != after.Seq || before.Head != after.Head || before.Status != after.Status || before.InboxSeen != after.InboxSeen {
		h.Fatalf("a refused batch changed the run from %+v to %+v", before.State, after.State)
	}
}

func step(name string) history.Event {
	return history.Event{Kind: history.StepCompleted, Position: history.Position(name), Op: "step", Payload: []byte(`"done"`)}
}

func done() history.Event {
	return history.Event{Kind: history.RunCompleted, Payload: []byte(`"result"`)}
}

func failed() history.Event {
	return history.Event{Kind: history.RunFailed, Failure: &history.Failure{Kind: history.FailureApplication, Message: "no stock"}}
}

// complete ends the run.
func (h *holder) complete() history.State {
	h.Helper()
	return h.commit(h.batch(history.NextClosed, done()))
}

// sleep makes the run wait for a timer.
func (h *holder) sleep(name string, at history.Time) history.State {
	h.Helper()
	return h.commit(h.sleepBatch(name, at))
}

func (h *holder) sleepBatch(name string, at history.Time) history.Batch {
	p := history.Position(name)
	b := h.batch(history.NextWaiting, history.Event{Kind: history.TimerSet, Position: p, Op: "sleep", Due: at})
	b.Set = []history.Timer{{At: at, Position: p}}
	return b
}

// receive makes the run wait for a signal.
func (h *holder) receive(name string, due history.Time) history.State {
	h.Helper()
	p := history.Position(name + "#0")
	b := h.batch(history.NextWaiting, history.Event{Kind: history.ReceiveOpened, Position: p, Op: "receive", Names: []string{name}, Due: due})
	if due != 0 {
		b.Set = []history.Timer{{At: due, Position: p}}
	}
	return h.commit(b)
}

// askBatch raises a question.
func (h *holder) askBatch(key string, deadline history.Time) history.Batch {
	p := history.Position(key)
	b := h.batch(history.NextWaiting, history.Event{Kind: history.InterruptOpened, Position: p, Op: "ask", Key: key, Due: deadline, Payload: []byte(`{}`)})
	b.Open = []history.Interrupt{{Key: key, Position: p, Method: history.MethodQuestion, Body: []byte(`{}`), OpenedAt: h.Now(), Deadline: deadline}}
	if deadline != 0 {
		b.Set = []history.Timer{{At: deadline, Position: p}}
	}
	return b
}

func signal(name, key, payload string) history.InboxItem {
	return history.InboxItem{Kind: history.InboxSignal, Name: name, Key: key, Payload: []byte(payload)}
}

func answer(key, payload string) history.InboxItem {
	return history.InboxItem{Kind: history.InboxAnswer, Key: key, Payload: []byte(payload), By: "bob"}
}

// deliver delivers a signal and checks what became of it.
func (e *env) deliver(id history.RunID, item history.InboxItem, want engine.Delivery) {
	e.Helper()
	got, err := e.Deliver(e.ctx, id, item)
	e.ok(err)
	equal(e, "delivery", got, want)
}

// events returns the whole history of a run.
func (e *env) events(id history.RunID) []history.Event {
	e.Helper()
	es, err := e.History(e.ctx, id, 1, 10_000)
	e.ok(err)
	return es
}
