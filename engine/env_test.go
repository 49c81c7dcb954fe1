package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	leak "go.uber.org/goleak"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/testbackend"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// envOptions changes an environment before its engine is made.
type envOptions struct {
	engine engine.Options
	clock  func() time.Time // the store's; default: time.Now
	// wrap stands between the engine and its store. A restart opens the store without it.
	wrap func(engine.Store) engine.Store
}

// newEnvWith is newEnv with options.
func newEnvWith(t *testing.T, o envOptions, defs ...workflow.Definition) *testEnv {
	t.Helper()
	env := &testEnv{t: t, data: testbackend.New(t), opts: o.engine}
	env.opts.Workflows = defs
	if env.opts.Log == nil {
		env.opts.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	env.openOn(o)
	t.Cleanup(env.finish)
	return env
}

// openOn opens the store with a clock and a wrapper.
func (env *testEnv) openOn(o envOptions) {
	env.t.Helper()
	if o.clock == nil {
		o.clock = time.Now
	}
	store, err := env.data.Open(o.clock)
	if err != nil {
		env.t.Fatal(err)
	}
	env.store = store
	env.Engine = env.second(o.wrap, env.opts)
}

// second makes one more engine on the open store. The caller closes it.
func (env *testEnv) second(wrap func(engine.Store) engine.Store, opts engine.Options) *engine.Engine {
	env.t.Helper()
	var s engine.Store = env.store
	if wrap != nil {
		s = wrap(s)
	}
	e, err := engine.New(s, opts)
	if err != nil {
		env.t.Fatal(err)
	}
	return e
}

// stopWorker closes the engine and opens one without a worker on the same store.
func (env *testEnv) stopWorker() {
	env.t.Helper()
	if err := env.Close(context.Background()); err != nil {
		env.t.Error(err)
	}
	opts := env.opts
	opts.WithoutWorker = true
	env.Engine = env.second(nil, opts)
}

// startWorker undoes stopWorker.
func (env *testEnv) startWorker() {
	env.t.Helper()
	if err := env.Close(context.Background()); err != nil {
		env.t.Error(err)
	}
	env.Engine = env.second(nil, env.opts)
}

// pass lets time pass, and what falls due then happen: a sleep alone ends at the same instant as other timers do, in no
// order.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// signal sends a signal that must be delivered.
func (env *testEnv) signal(id history.RunID, name, payload string) {
	env.t.Helper()
	d, err := env.Signal(context.Background(), id, engine.SignalRequest{Name: name, Payload: []byte(payload)})
	if err != nil || d != engine.Delivered {
		env.t.Fatalf("signal %q: %v, %v", name, d, err)
	}
}

// question waits for the one open question of a run.
func (env *testEnv) question(id history.RunID) history.Interrupt {
	env.t.Helper()
	env.await(id, func(r history.Run) bool { return r.Questions > 0 })
	open, err := env.Interrupts(context.Background(), id)
	if err != nil || len(open) != 1 {
		env.t.Fatalf("open questions: %v, %v", open, err)
	}
	return open[0]
}

// accept answers the one open question of a run.
func (env *testEnv) accept(id history.RunID, content string) {
	env.t.Helper()
	a := workflow.Answer{Action: workflow.Accept, Content: json.RawMessage(content)}
	if err := env.Answer(context.Background(), id, env.question(id).Key, a, "me"); err != nil {
		env.t.Fatal(err)
	}
}

// ended waits for the end of a run and checks its status.
func (env *testEnv) ended(id history.RunID, want history.Status) history.Run {
	env.t.Helper()
	run := env.await(id, func(r history.Run) bool { return r.Status.Terminal() })
	if run.Status != want {
		env.t.Fatalf("run ended as %s (%v), want %s\n%s", run.Status, run.Failure, want, env.timeline(id))
	}
	return run
}

// failed waits for a run without a result and returns why.
func failed[Out any](env *testEnv, h *engine.Handle[Out]) *engine.RunError {
	env.t.Helper()
	out, err := engine.Attach[Out](env.Engine, h.ID()).Result(context.Background())
	var re *engine.RunError
	if !errors.As(err, &re) {
		env.t.Fatalf("result %v, %v: want a *RunError", out, err)
	}
	return re
}

func (env *testEnv) run(id history.RunID) history.Run {
	env.t.Helper()
	r, err := env.Run(context.Background(), id)
	if err != nil {
		env.t.Fatal(err)
	}
	return r
}

func (env *testEnv) timers(id history.RunID) []history.Timer {
	env.t.Helper()
	ts, err := env.Timers(context.Background(), id)
	if err != nil {
		env.t.Fatal(err)
	}
	return ts
}

// of selects the events of some kinds.
func of(es []history.Event, kinds ...history.Kind) []history.Event {
	return slices.DeleteFunc(slices.Clone(es), func(e history.Event) bool { return !slices.Contains(kinds, e.Kind) })
}

// positions lists the positions of events.
func positions(es []history.Event) []string {
	var out []string
	for _, e := range es {
		out = append(out, string(e.Position))
	}
	return out
}

// timeline prints a history for a failed test.
func (env *testEnv) timeline(id history.RunID) string {
	var b strings.Builder
	for _, e := range env.events(id) {
		fmt.Fprintf(&b, "%3d %-18s %s %s %s %v\n", e.Seq, e.Kind, e.Position, e.Name, e.Payload, e.Failure)
	}
	return b.String()
}

// equal compares lists.
func equal[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// witness records what steps do, in order. It is safe for concurrent use.
type witness struct {
	mu    sync.Mutex
	lines []string
}

func (w *witness) add(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
}

func (w *witness) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lines)
}

func (w *witness) count(line string) int {
	n := 0
	for _, l := range w.list() {
		if l == line {
			n++
		}
	}
	return n
}

// step returns a step's function that adds its name to the witness.
func (w *witness) step(name string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		w.add("%s", name)
		return name, nil
	}
}

// logBuffer keeps log lines. It is safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// killable is a store whose process can die: from then on every write fails, and nothing is handed back.
type killable struct {
	engine.Store
	mu     sync.Mutex
	killed bool
}

func (k *killable) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.killed = true
}

func (k *killable) dead() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.killed {
		return errCrashed
	}
	return nil
}

func (k *killable) Commit(ctx context.Context, b history.Batch) (history.State, error) {
	if err := k.dead(); err != nil {
		return history.State{}, err
	}
	return k.Store.Commit(ctx, b)
}

func (k *killable) Claim(ctx context.Context, r history.ClaimRequest) ([]history.Claim, error) {
	if err := k.dead(); err != nil {
		return nil, err
	}
	return k.Store.Claim(ctx, r)
}

func (k *killable) Release(ctx context.Context, id history.RunID, tok history.Token, at history.Time, reason string) error {
	if err := k.dead(); err != nil {
		return err
	}
	return k.Store.Release(ctx, id, tok, at, reason)
}

func (k *killable) Renew(ctx context.Context, owner string, ttl time.Duration, held map[history.RunID]history.Token) ([]history.RunID, error) {
	if err := k.dead(); err != nil {
		return nil, err
	}
	return k.Store.Renew(ctx, owner, ttl, held)
}

func (k *killable) LeaseCleanup(ctx context.Context, owner string, ttl time.Duration) (history.Token, error) {
	if err := k.dead(); err != nil {
		return history.Token{}, err
	}
	return k.Store.LeaseCleanup(ctx, owner, ttl)
}

func (k *killable) Delete(ctx context.Context, tok history.Token, p history.RetentionPolicy, runs []history.RunID) (engine.Deletion, error) {
	if err := k.dead(); err != nil {
		return engine.Deletion{}, err
	}
	return k.Store.Delete(ctx, tok, p, runs)
}

func (k *killable) PutReceipt(ctx context.Context, r history.Receipt) error {
	if err := k.dead(); err != nil {
		return err
	}
	return k.Store.PutReceipt(ctx, r)
}

// newKillable opens an environment whose process can be killed.
func newKillable(t *testing.T, opts engine.Options, defs ...workflow.Definition) (*testEnv, *killable) {
	t.Helper()
	k := &killable{}
	env := newEnvWith(t, envOptions{engine: opts, wrap: func(s engine.Store) engine.Store {
		k.Store = s
		return k
	}}, defs...)
	return env, k
}

// crash ends the process of a killable environment without any hand-back, and opens the store again.
func (env *testEnv) crash(k *killable, defs ...workflow.Definition) {
	env.t.Helper()
	k.kill()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // do not wait for steps
	_ = env.Close(ctx)
	if err := env.store.Close(); err != nil {
		env.t.Error(err)
	}
	if defs != nil {
		env.opts.Workflows = defs
	}
	env.open()
}

// slowCommit holds commits up while on is set, and keeps the error of the last one that was held.
type slowCommit struct {
	engine.Store
	on       atomic.Bool
	noClaims atomic.Bool // gives no more runs
	release  chan struct{}
	mu       sync.Mutex
	last     error
}

func (s *slowCommit) Commit(ctx context.Context, b history.Batch) (history.State, error) {
	held := s.on.Load()
	if held {
		<-s.release
	}
	st, err := s.Store.Commit(ctx, b)
	if held {
		s.mu.Lock()
		s.last = err
		s.mu.Unlock()
	}
	return st, err
}

func (s *slowCommit) Renew(ctx context.Context, owner string, ttl time.Duration, held map[history.RunID]history.Token) ([]history.RunID, error) {
	if s.on.Load() {
		return nil, nil // a worker that hangs renews nothing
	}
	return s.Store.Renew(ctx, owner, ttl, held)
}

func (s *slowCommit) Claim(ctx context.Context, r history.ClaimRequest) ([]history.Claim, error) {
	if s.noClaims.Load() {
		return nil, nil
	}
	return s.Store.Claim(ctx, r)
}

func (s *slowCommit) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// counting counts the writes of the engine.
type counting struct {
	engine.Store
	starts, commits atomic.Int64
}

func (c *counting) on(s engine.Store) engine.Store {
	c.Store = s
	return c
}

func (c *counting) Start(ctx context.Context, s *history.Start) (*history.Run, bool, error) {
	c.starts.Add(1)
	return c.Store.Start(ctx, s)
}

func (c *counting) Commit(ctx context.Context, b history.Batch) (history.State, error) {
	c.commits.Add(1)
	return c.Store.Commit(ctx, b)
}
