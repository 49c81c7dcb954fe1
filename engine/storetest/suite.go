package storetest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Backend is the data of one store: what survives a close.
type Backend interface {
	// Open opens the store on the data. clock is the source of its time.
	Open(clock func() time.Time) (engine.Store, error)
}

// Shared is implemented by a Backend whose data many stores may be open on at once. Any other refuses the second.
type Shared interface{ Shared() }

// Factory makes a backend with no data. It may use t.TempDir and t.Cleanup.
type Factory func(t *testing.T) Backend

// scenario is one test of the contract, named after what once went wrong elsewhere, or after what must hold.
type scenario struct {
	name string
	test func(e *env)
}

// PayloadGroups are the groups in which payloads matter: those to run with a store behind codecs.
func PayloadGroups() []string {
	return []string{"start", "commit", "children", "inbox", "questions", "ending", "lineage", "values"}
}

// Run runs the contract suite, or the named groups of it.
func Run(t *testing.T, factory Factory, groups ...string) {
	for _, group := range []struct {
		name      string
		scenarios []scenario
	}{
		{"start", startScenarios()},
		{"leases", leaseScenarios()},
		{"commit", commitScenarios()},
		{"children", childScenarios()},
		{"inbox", inboxScenarios()},
		{"questions", questionScenarios()},
		{"timers", timerScenarios()},
		{"woken", wokenScenarios()},
		{"ending", endingScenarios()},
		{"pausing", pausingScenarios()},
		{"lineage", lineageScenarios()},
		{"fairness", fairnessScenarios()},
		{"reads", readScenarios()},
		{"retention", retentionScenarios()},
		{"values", valueScenarios()},
		{"pruning", pruningScenarios()},
		{"store", storeScenarios()},
		{"load", loadScenarios()},
	} {
		if len(groups) > 0 && !slices.Contains(groups, group.name) {
			continue
		}
		t.Run(group.name, func(t *testing.T) {
			for _, s := range group.scenarios {
				t.Run(s.name, func(t *testing.T) {
					leak := goleak.IgnoreCurrent()
					t.Cleanup(func() { goleak.VerifyNone(t, leak) })
					e := newEnv(t, factory(t))
					t.Cleanup(e.finish)
					s.test(e)
				})
			}
		})
	}
}

// Clock is a clock that stands still until a test moves it.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows a time in 2030.
func NewClock() *Clock { return &Clock{now: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)} }

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock by d, which may be negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// env is an open store in a test.
type env struct {
	*testing.T
	engine.Store
	ctx     context.Context
	clock   *Clock
	backend Backend
}

func newEnv(t *testing.T, b Backend) *env {
	e := &env{T: t, ctx: context.WithoutCancel(t.Context()), clock: NewClock(), backend: b}
	e.open()
	return e
}

func (e *env) open() {
	e.Helper()
	s, err := e.backend.Open(e.clock.Now)
	if err != nil {
		e.Fatal(err)
	}
	e.Store = s
}

// reopen closes the store and opens it again, after d.
func (e *env) reopen(d time.Duration) {
	e.Helper()
	if err := e.Store.Close(); err != nil {
		e.Fatal(err)
	}
	e.clock.Advance(d)
	e.open()
}

// finish runs the checker and closes the store.
func (e *env) finish() {
	e.Helper()
	e.verify()
	if err := e.Store.Close(); err != nil {
		e.Error(err)
	}
}

func (e *env) verify() {
	e.Helper()
	err := e.Verify(e.ctx, func(v engine.Violation) { e.Errorf("violation: run %s: %s: %s", v.Run, v.Rule, v.Detail) })
	if err != nil {
		e.Error(err)
	}
}

// pass moves the clock and lets everything happen that is due.
func (e *env) pass(d time.Duration) (woken int, next history.Time) {
	e.Helper()
	e.clock.Advance(d)
	woken, next, err := e.WakeDue(e.ctx, 10_000)
	e.ok(err)
	return woken, next
}

// Run overrides testing.T.Run: a scenario has no subtests, and means the store's.
func (e *env) Run(id history.RunID) history.Run {
	e.Helper()
	r, err := e.Store.Run(e.ctx, id)
	e.ok(err)
	return r
}
