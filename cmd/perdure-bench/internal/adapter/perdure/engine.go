// Package perdure measures this project's engine on each of its durable stores, with their default options.
package perdure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/workflow"
)

type input struct {
	ID string
	N  int
}

// storage is where the engine keeps its runs.
type storage interface {
	open(ctx context.Context, cfg peer.Config) (engine.Store, error)
	// completed counts the completed runs; closed says that the store that was opened is closed.
	completed(ctx context.Context, closed bool) (int, error)
	durability(ctx context.Context) (peer.Durability, error)
}

// Engine implements peer.Engine.
type Engine struct {
	storage storage
	marks   *peer.Marks
	store   engine.Store
	engine  *engine.Engine // nil after Close
	flows   map[peer.Kind]*workflow.Workflow[input, int]
}

// New returns an engine to open on a file.
func New() peer.Engine { return &Engine{storage: &file{}} }

// NewPostgres returns an engine to open on PostgreSQL.
func NewPostgres() peer.Engine { return &Engine{storage: &database{}} }

// Open implements peer.Engine.
func (e *Engine) Open(ctx context.Context, cfg peer.Config) error {
	e.marks = cfg.Marks
	e.flows = e.workflows()
	var defs []workflow.Definition
	for _, w := range e.flows {
		defs = append(defs, w)
	}
	var err error
	if e.store, err = e.storage.open(ctx, cfg); err != nil {
		return err
	}
	e.engine, err = engine.New(e.store, engine.Options{Workflows: defs, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return errors.Join(err, e.store.Close())
	}
	return nil
}

// Start implements peer.Engine.
func (e *Engine) Start(ctx context.Context, id string, w peer.Work) (peer.Run, error) {
	flow, ok := e.flows[w.Kind]
	if !ok {
		return nil, fmt.Errorf("start %s: %w", w.Kind, peer.ErrUnsupported)
	}
	h, err := engine.Start(ctx, e.engine, flow, input{ID: id, N: w.N}, engine.StartOptions{Key: id})
	if err != nil {
		return nil, err
	}
	return &run{engine: e.engine, handle: h}, nil
}

type run struct {
	engine *engine.Engine
	handle *engine.Handle[int]
}

func (r *run) Wait(ctx context.Context) error {
	_, err := r.handle.Result(ctx)
	return err
}

func (r *run) Signal(ctx context.Context) error {
	_, err := r.engine.Signal(ctx, r.handle.ID(), engine.SignalRequest{Name: "go", Payload: json.RawMessage("1")})
	return err
}

// Completed implements peer.Engine.
func (e *Engine) Completed(ctx context.Context) (int, error) {
	return e.storage.completed(ctx, e.engine == nil)
}

// Durability implements peer.Engine. Neither store has a setting that gives it up.
func (e *Engine) Durability(ctx context.Context) (peer.Durability, error) {
	return e.storage.durability(ctx)
}

// Close implements peer.Engine.
func (e *Engine) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := errors.Join(e.engine.Close(ctx), e.store.Close())
	e.engine = nil
	return err
}
