// Package perdure measures this project's engine: boltstore with its default options, which are the durable ones.
package perdure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

type input struct {
	ID string
	N  int
}

// Engine implements peer.Engine.
type Engine struct {
	path   string
	marks  *peer.Marks
	store  *boltstore.Store
	engine *engine.Engine // nil after Close
	flows  map[peer.Kind]*workflow.Workflow[input, int]
}

// New returns an engine to open.
func New() peer.Engine { return &Engine{} }

// Open implements peer.Engine.
func (e *Engine) Open(_ context.Context, cfg peer.Config) error {
	e.path, e.marks = filepath.Join(cfg.Dir, "perdure.db"), cfg.Marks
	e.flows = e.workflows()
	var defs []workflow.Definition
	for _, w := range e.flows {
		defs = append(defs, w)
	}
	var err error
	if e.store, err = boltstore.Open(e.path, nil); err != nil {
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

// Completed implements peer.Engine. After Close it reads the file that was left.
func (e *Engine) Completed(ctx context.Context) (n int, err error) {
	store := e.store
	if e.engine == nil {
		if store, err = boltstore.Open(e.path, &boltstore.Options{ReadOnly: true}); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
	}
	f := engine.Filter{Statuses: []history.Status{history.StatusCompleted}, Limit: 1000}
	for {
		page, err := store.List(ctx, f)
		if err != nil {
			return 0, err
		}
		n += len(page.Runs)
		if f.After = page.Next; f.After == "" {
			return n, nil
		}
	}
}

// Durability implements peer.Engine. boltstore has no setting that gives it up.
func (e *Engine) Durability(context.Context) (peer.Durability, error) {
	return peer.Durability{Full: true, Detail: "bbolt: each commit syncs data, then the meta page (2 fdatasync), before any call in it returns; calls share commits"}, nil
}

// Close implements peer.Engine.
func (e *Engine) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := errors.Join(e.engine.Close(ctx), e.store.Close())
	e.engine = nil
	return err
}
