// Package goworkflows measures cschleiden/go-workflows on its SQLite backend, which keeps SQLite's defaults: a
// write-ahead log that is synced at each commit (synchronous=FULL).
package goworkflows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/monoprocess"
	"github.com/cschleiden/go-workflows/backend/sqlite"
	"github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/registry"
	"github.com/cschleiden/go-workflows/worker"
	"github.com/cschleiden/go-workflows/workflow"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/adapter/sqlitefile"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

// Engine implements peer.Engine.
type Engine struct {
	file    sqlitefile.File
	marks   *peer.Marks
	backend backend.Backend
	worker  *worker.Worker
	client  *client.Client
	stop    context.CancelFunc
}

// New returns an engine to open.
func New() peer.Engine { return &Engine{} }

// Open implements peer.Engine. Everything that makes it faster in one process is on: a backend that wakes its worker
// instead of polling, a single worker, and, unless its memory is measured, a cache that holds all executions (default 128).
func (e *Engine) Open(_ context.Context, cfg peer.Config) error {
	e.file, e.marks = sqlitefile.File(filepath.Join(cfg.Dir, "goworkflows.sqlite")), cfg.Marks
	e.backend = monoprocess.NewMonoprocessBackend(sqlite.NewSqliteBackend(string(e.file), sqlite.WithBackendOptions(
		backend.WithLogger(slog.New(slog.DiscardHandler)), backend.WithMaxHistorySize(1<<30))))
	opts := worker.DefaultOptions
	opts.SingleWorkerMode = true
	if !cfg.Lean {
		opts.WorkflowExecutorCacheSize, opts.WorkflowExecutorCacheTTL = 20_000, time.Hour
	}
	e.worker = worker.New(e.backend, &opts)
	for kind, fn := range e.workflows() {
		if err := e.worker.RegisterWorkflow(fn, registry.WithName(string(kind))); err != nil {
			return fmt.Errorf("register %s: %w", kind, err)
		}
	}
	if err := e.worker.RegisterActivity(e.step); err != nil {
		return fmt.Errorf("register the step: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	e.stop, e.client = stop, client.New(e.backend)
	return e.worker.Start(ctx)
}

// Start implements peer.Engine.
func (e *Engine) Start(ctx context.Context, id string, w peer.Work) (peer.Run, error) {
	in, err := e.client.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: id}, string(w.Kind), id, w.N)
	if err != nil {
		return nil, err
	}
	return &run{client: e.client, instance: in}, nil
}

type run struct {
	client   *client.Client
	instance *workflow.Instance
}

func (r *run) Wait(ctx context.Context) error {
	return r.client.WaitForWorkflowInstance(ctx, r.instance, 10*time.Minute)
}

func (r *run) Signal(ctx context.Context) error {
	return r.client.SignalWorkflow(ctx, r.instance.InstanceID, "go", 1)
}

// Completed implements peer.Engine.
func (e *Engine) Completed(ctx context.Context) (int, error) {
	return e.file.Count(ctx, "select count(*) from instances where completed_at is not null")
}

// Durability implements peer.Engine. The backend opens its connections without any setting but the log, so a connection
// of ours has what they have.
func (e *Engine) Durability(ctx context.Context) (peer.Durability, error) {
	return e.file.Durability(ctx)
}

// Close implements peer.Engine.
func (e *Engine) Close(context.Context) error {
	e.stop()
	return errors.Join(e.worker.WaitForCompletion(), e.backend.Close())
}
