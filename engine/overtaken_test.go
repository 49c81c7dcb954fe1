package engine_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// slowHistory holds the first reading of a history up, and gives no hints.
type slowHistory struct {
	engine.Store
	once     sync.Once
	asked, g chan struct{}
}

func (s *slowHistory) History(ctx context.Context, id history.RunID, from uint64, limit int) ([]history.Event, error) {
	s.once.Do(func() {
		close(s.asked)
		<-s.g
	})
	return s.Store.History(ctx, id, from, limit)
}

func (s *slowHistory) Subscribe(func(engine.Change)) (cancel func()) { return func() {} }

// TestOvertakenWorkerReplaysWhatItClaimed: while a worker reads a history the run goes on without it. What it then does
// is fenced, and no error of its own.
func TestOvertakenWorkerReplaysWhatItClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("waits", 1, func(ctx workflow.Context, _ int) (int, error) {
			return workflow.Receive[int](ctx, "go")
		})
		var log bytes.Buffer
		slow := &slowHistory{asked: make(chan struct{}), g: make(chan struct{})}
		opts := engine.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
		opts.Worker.MaxResident = -1
		env := newEnvWith(t, envOptions{engine: opts, wrap: func(s engine.Store) engine.Store {
			slow.Store = s
			return slow
		}}, w)
		h := start(env, w, 0)
		pass(2 * time.Minute) // without hints the worker polls
		if _, err := env.store.Deliver(t.Context(), h.ID(), history.InboxItem{Kind: history.InboxSignal, Name: "go", Payload: []byte("1")}); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Minute)
		select {
		case <-slow.asked:
		default:
			t.Fatal("the worker does not read the history")
		}
		if _, err := env.store.Terminate(t.Context(), h.ID(), "op", ""); err != nil {
			t.Fatal(err)
		}
		close(slow.g)
		pass(time.Minute)
		if bytes.Contains(log.Bytes(), []byte("cannot go on")) || !bytes.Contains(log.Bytes(), []byte("run was taken away")) {
			t.Errorf("the worker says:\n%s", log.String())
		}
	})
}
