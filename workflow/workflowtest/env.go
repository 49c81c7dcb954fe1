package workflowtest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/kernel"
)

// Env is an engine for one test. Its methods fail the test where they fail.
type Env struct {
	t     testing.TB
	path  string
	opts  engine.Options
	store *boltstore.Store
	// Engine is the engine that runs now; Crash and Restart replace it.
	Engine *engine.Engine

	mu sync.Mutex
	// stubs are by step name. guarded by mu
	stubs map[string]func(context.Context) ([]byte, *history.Failure)
	// ran counts the attempts by step name. guarded by mu
	ran map[string]int
}

// Run runs fn with an engine that has the workflows, in a bubble of fake time, whose t it is given: the outer one must not
// be used in it. At the end it checks the store.
func Run(t *testing.T, fn func(t *testing.T, env *Env), workflows ...workflow.Definition) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		env := &Env{
			t: t, path: filepath.Join(t.TempDir(), "test.db"),
			opts:  engine.Options{Workflows: workflows, Log: slog.New(slog.NewTextHandler(t.Output(), nil))},
			stubs: make(map[string]func(context.Context) ([]byte, *history.Failure)),
			ran:   make(map[string]int),
		}
		env.opts.Worker.Intercept = env.intercept
		env.open()
		defer env.finish()
		fn(t, env)
	})
}

// UnloadAtEveryWait makes runs be replayed whenever anything happens to them: nothing may change by that. Call it
// before the first start.
func (env *Env) UnloadAtEveryWait() {
	env.opts.Worker.MaxResident = -1
	env.Restart()
}

// Crash ends the engine without letting anything end: what has not been committed is lost. It goes on with the same
// workflows.
func (env *Env) Crash() {
	env.t.Helper()
	env.Down(0)
}

// Down is a crash after which nothing runs for d.
func (env *Env) Down(d time.Duration) {
	env.t.Helper()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	env.close(gone)
	time.Sleep(d)
	env.open()
}

// Restart ends the engine gracefully and starts it again, with other workflows where they are given: a deploy.
func (env *Env) Restart(workflows ...workflow.Definition) {
	env.t.Helper()
	env.close(context.Background())
	if workflows != nil {
		env.opts.Workflows = workflows
	}
	env.open()
}

// Ran returns how many attempts of the steps called name were begun, stubs included.
func (env *Env) Ran(name string) int {
	env.mu.Lock()
	defer env.mu.Unlock()
	return env.ran[name]
}

// Stub replaces the function of every step called name. It can be replaced again at any time.
func Stub[T any](env *Env, name string, fn func(ctx context.Context) (T, error)) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.stubs[name] = workflow.StepFunc(fn)
}

func (env *Env) intercept(ctx context.Context, info kernel.StepInfo, run func(context.Context) ([]byte, *history.Failure)) ([]byte, *history.Failure) {
	_, name, _, _ := info.Position.Split()
	env.mu.Lock()
	env.ran[name]++
	if stub := env.stubs[name]; stub != nil {
		run = stub
	}
	env.mu.Unlock()
	return run(ctx)
}

func (env *Env) open() {
	env.t.Helper()
	store, err := boltstore.Open(env.path, nil)
	if err != nil {
		env.t.Fatal(err)
	}
	e, err := engine.New(store, env.opts)
	if err != nil {
		env.t.Fatal(err)
	}
	env.store, env.Engine = store, e
}

func (env *Env) close(ctx context.Context) {
	env.t.Helper()
	if err := env.Engine.Close(ctx); err != nil {
		env.t.Error(err)
	}
	if err := env.store.Close(); err != nil {
		env.t.Error(err)
	}
}

func (env *Env) finish() {
	err := env.store.Verify(context.Background(), func(v engine.Violation) {
		env.t.Errorf("run %s breaks the rule %q: %s", v.Run, v.Rule, v.Detail)
	})
	if err != nil {
		env.t.Error(err)
	}
	env.close(context.Background())
}

// Replay holds a workflow against an exported history, as engine.Export and `perdure export` write it: it returns an
// error with a readable difference where a run with that history would be blocked by this code. No step is run.
func Replay(def workflow.Definition, export []byte) error {
	var x history.Export
	if err := json.Unmarshal(export, &x); err != nil {
		return fmt.Errorf("decode history: %w", err)
	}
	switch {
	case x.Format != history.ExportFormat:
		return fmt.Errorf("history has format %d, want %d", x.Format, history.ExportFormat)
	case len(x.Events) == 0:
		return fmt.Errorf("history has no events")
	case def.Key().Name != x.Run.Workflow || def.Key().Version != x.Run.Version:
		return fmt.Errorf("history is of %s v%d, the code is %s v%d", x.Run.Workflow, x.Run.Version, def.Key().Name, def.Key().Version)
	}
	return kernel.Replay(&x, def.Func(), kernel.Options{Log: slog.New(slog.DiscardHandler)})
}
