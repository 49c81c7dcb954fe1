package mcptasks

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// fakeEngine keeps runs in memory. Tests move them by hand.
type fakeEngine struct {
	mu       sync.Mutex
	moved    *sync.Cond // on mu; after every change
	runs     map[history.RunID]*fakeRun
	watchers map[history.RunID]map[chan struct{}]bool
	clock    history.Time
	fault    error // what every read answers, where it is set
	refuse   error // what every start answers, where it is set
	starts   int   // runs created
	reads    int
}

type fakeRun struct {
	run     history.Run
	input   []byte
	open    []history.Interrupt
	answers map[string]workflow.Answer
	by      map[string]string
	outcome *history.Event
}

func newFakeEngine() *fakeEngine {
	e := &fakeEngine{
		runs:     map[history.RunID]*fakeRun{},
		watchers: map[history.RunID]map[chan struct{}]bool{},
		clock:    history.TimeOf(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)),
	}
	e.moved = sync.NewCond(&e.mu)
	return e
}

// until waits until the condition holds; it is called with mu held.
func (e *fakeEngine) until(condition func() bool) {
	late := false // guarded by e.mu
	limit := time.AfterFunc(time.Minute, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		late = true
		e.moved.Broadcast()
	})
	defer limit.Stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	for !condition() {
		if late {
			panic(fmt.Sprintf("what the test waits for has not come: %d starts, %d watchers", e.starts, e.watching()))
		}
		e.moved.Wait()
	}
}

func (e *fakeEngine) StartRun(_ context.Context, s history.Start) (history.Run, bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refuse != nil {
		return history.Run{}, false, e.refuse
	}
	s.Spec.InputDigest = history.Sum(s.Input)
	for _, r := range e.runs {
		if s.Spec.Key == "" || r.run.Tenant != s.Spec.Tenant || r.run.Key != s.Spec.Key {
			continue
		}
		if r.run.Workflow != s.Spec.Workflow || r.run.InputDigest != s.Spec.InputDigest {
			return history.Run{}, false, fmt.Errorf("start: %w", history.ErrConflict)
		}
		return r.run, true, nil
	}
	if len(s.Input) > 1<<20 {
		return history.Run{}, false, fmt.Errorf("start: input: %w", history.ErrTooLarge)
	}
	id := ulid.MustNew(ulid.Now(), rand.Reader)
	s.Spec.ID, s.Spec.CreatedAt = id, e.clock
	if s.Spec.Key == "" {
		s.Spec.Key = id.String()
	}
	r := &fakeRun{
		run:     history.Run{Spec: s.Spec, State: history.State{Status: history.StatusReady, Seq: 1, UpdatedAt: e.clock}},
		input:   s.Input,
		answers: map[string]workflow.Answer{},
		by:      map[string]string{},
	}
	e.runs[id] = r
	e.starts++
	return r.run, false, nil
}

func (e *fakeEngine) read() error {
	e.reads++
	e.moved.Broadcast()
	return e.fault
}

func (e *fakeEngine) find(match func(*fakeRun) bool) (history.Run, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.read(); err != nil {
		return history.Run{}, err
	}
	for _, r := range e.runs {
		if match(r) {
			return r.run, nil
		}
	}
	return history.Run{}, fmt.Errorf("run: %w", history.ErrNotFound)
}

func (e *fakeEngine) Run(_ context.Context, id history.RunID) (history.Run, error) {
	return e.find(func(r *fakeRun) bool { return r.run.ID == id })
}

func (e *fakeEngine) RunByTask(_ context.Context, taskID string) (history.Run, error) {
	return e.find(func(r *fakeRun) bool { return r.run.TaskID == taskID })
}

func (e *fakeEngine) RunByKey(_ context.Context, tenant, key string) (history.Run, error) {
	return e.find(func(r *fakeRun) bool { return r.run.Tenant == tenant && r.run.Key == key })
}

func (e *fakeEngine) Interrupts(_ context.Context, id history.RunID) ([]history.Interrupt, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.read(); err != nil {
		return nil, err
	}
	return append([]history.Interrupt(nil), e.runs[id].open...), nil
}

func (e *fakeEngine) Outcome(_ context.Context, id history.RunID) (history.Event, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.read(); err != nil {
		return history.Event{}, err
	}
	if o := e.runs[id].outcome; o != nil {
		return *o, nil
	}
	return history.Event{}, history.ErrNotFound
}

func (e *fakeEngine) Answer(_ context.Context, id history.RunID, key string, a workflow.Answer, by string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.runs[id]
	for i, in := range r.open {
		if in.Key != key {
			continue
		}
		if in.Method == history.MethodQuestion {
			var q workflow.Question
			if err := json.Unmarshal(in.Body, &q); err != nil {
				return err
			}
			var err error
			if a, err = q.Check(a); err != nil {
				return fmt.Errorf("answer %s: %w", key, err)
			}
		}
		r.answers[key], r.by[key] = a, by
		r.open = append(r.open[:i:i], r.open[i+1:]...)
		if a.Action == workflow.Dismiss {
			in.Key += "+"
			in.OperatorOnly = len(in.Key) >= len("q++")
			r.open = append(r.open, in)
		}
		r.run.InboxHead++
		e.changed(r)
		return nil
	}
	if _, ok := r.answers[key]; ok {
		return fmt.Errorf("answer %s: %w", key, history.ErrAnswered)
	}
	return fmt.Errorf("answer %s: %w", key, history.ErrNotFound)
}

func (e *fakeEngine) Cancel(_ context.Context, id history.RunID, _, _ string) (history.Run, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.runs[id]
	if !r.run.Status.Terminal() && r.run.CancelRequested.IsZero() {
		r.run.CancelRequested = e.clock
		e.changed(r)
	}
	return r.run, nil
}

func (e *fakeEngine) Watch(id history.RunID) (<-chan struct{}, func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ch := make(chan struct{}, 1)
	if e.watchers[id] == nil {
		e.watchers[id] = map[chan struct{}]bool{}
	}
	e.watchers[id][ch] = true
	e.moved.Broadcast()
	return ch, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.watchers[id], ch)
		e.moved.Broadcast()
	}
}

// watching counts the watchers. mu is held.
func (e *fakeEngine) watching() (n int) {
	for _, w := range e.watchers {
		n += len(w)
	}
	return n
}

// waiting waits until n watchers are there.
func (e *fakeEngine) waiting(n int) { e.until(func() bool { return e.watching() == n }) }

func (e *fakeEngine) Secret(_ context.Context, name string) ([]byte, error) {
	return bytes.Repeat([]byte(name[:1]), 32), nil
}

func (e *fakeEngine) Now() history.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.clock
}

// changed notes a change that clients see. mu is held.
func (e *fakeEngine) changed(r *fakeRun) {
	e.clock = e.clock.Add(time.Millisecond)
	r.run.Seq++
	r.run.UpdatedAt = e.clock
	r.run.Questions = len(r.open)
	e.wake(r.run.ID)
	e.moved.Broadcast()
}

func (e *fakeEngine) wake(id history.RunID) {
	for ch := range e.watchers[id] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// edit changes the run of a task, or of the only run where the id is "".
func (e *fakeEngine) edit(taskID string, fn func(r *fakeRun)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.runs {
		if r.run.TaskID == taskID || taskID == "" && len(e.runs) == 1 {
			fn(r)
			e.changed(r)
			return
		}
	}
	panic(fmt.Sprintf("no run of task %q among %d", taskID, len(e.runs)))
}

func (e *fakeEngine) complete(taskID, payload string) {
	e.edit(taskID, func(r *fakeRun) {
		r.run.Status, r.run.ClosedAt, r.open = history.StatusCompleted, e.clock, nil
		r.outcome = &history.Event{Kind: history.RunCompleted, Payload: []byte(payload)}
	})
}

func (e *fakeEngine) fail(taskID string, f *history.Failure) {
	e.edit(taskID, func(r *fakeRun) {
		r.run.Status, r.run.ClosedAt, r.open, r.run.Failure = history.StatusFailed, e.clock, nil, f
		r.outcome = &history.Event{Kind: history.RunFailed, Failure: f}
	})
}

func (e *fakeEngine) cancelled(taskID string) {
	e.edit(taskID, func(r *fakeRun) {
		r.run.Status, r.run.ClosedAt, r.open = history.StatusCanceled, e.clock, nil
		r.outcome = &history.Event{Kind: history.RunCanceled}
	})
}

func (e *fakeEngine) report(taskID, message string) {
	e.edit(taskID, func(r *fakeRun) { r.run.Message = message })
}

func (e *fakeEngine) ask(taskID, key string, q workflow.Question) {
	body, err := json.Marshal(q)
	if err != nil {
		panic(err)
	}
	e.raise(taskID, key, history.MethodQuestion, string(body))
}

func (e *fakeEngine) raise(taskID, key, method, body string) {
	e.edit(taskID, func(r *fakeRun) {
		r.run.Status = history.StatusWaiting
		r.open = append(r.open, history.Interrupt{Key: key, Method: method, Body: []byte(body), OpenedAt: e.clock})
	})
}

func (e *fakeEngine) purge(taskID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, r := range e.runs {
		if r.run.TaskID == taskID {
			delete(e.runs, id)
			e.wake(id)
		}
	}
}

func (e *fakeEngine) setFault(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fault = err
	for id := range e.runs {
		e.wake(id)
	}
}

// all are the runs as they stand, in no order.
func (e *fakeEngine) all() []fakeRun {
	e.mu.Lock()
	defer e.mu.Unlock()
	var runs []fakeRun
	for _, r := range e.runs {
		runs = append(runs, *r)
	}
	return runs
}

func (e *fakeEngine) get(taskID string) fakeRun {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.runs {
		if r.run.TaskID == taskID || taskID == "" && len(e.runs) == 1 {
			return *r
		}
	}
	panic("no run of task " + taskID)
}

func confirmQuestion() workflow.Question {
	return workflow.Question{
		Message: "Delete?",
		Schema:  json.RawMessage(`{"type":"object","properties":{"confirm":{"type":"boolean"}},"required":["confirm"]}`),
	}
}

func approvalQuestion() workflow.Question {
	return workflow.Question{Message: "Refund?", Approval: true, Proposal: map[string]any{"amount": 12345678901234567}}
}
