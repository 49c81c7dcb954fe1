package workflow_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// The examples share these helpers, so that each can be about one thing. ExampleDefine shows the whole.

// open returns an engine on a new file, and a function that closes both.
func open(defs ...workflow.Definition) (*engine.Engine, func()) {
	dir, err := os.MkdirTemp("", "perdure-example")
	if err != nil {
		log.Fatal(err)
	}
	store, err := boltstore.Open(filepath.Join(dir, "example.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	e, err := engine.New(store, engine.Options{Workflows: defs, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	return e, func() {
		if err := e.Close(context.Background()); err != nil {
			log.Fatal(err)
		}
		if err := store.Close(); err != nil {
			log.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			log.Fatal(err)
		}
	}
}

// play runs w to its end and prints its result. While the run goes on, act does what a person or another program would.
func play[In, Out any](w *workflow.Workflow[In, Out], in In, act ...func(e *engine.Engine, id history.RunID)) {
	e, done := open(w)
	defer done()
	h, err := engine.Start(context.Background(), e, w, in, engine.StartOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range act {
		a(e, h.ID())
	}
	out, err := h.Result(context.Background())
	if err != nil {
		fmt.Println("failed:", err.(*engine.RunError).Failure)
		return
	}
	fmt.Println(out)
}

// send returns an action that sends a signal.
func send(name, payload string) func(*engine.Engine, history.RunID) {
	return func(e *engine.Engine, id history.RunID) {
		if _, err := e.Signal(context.Background(), id, engine.SignalRequest{Name: name, Payload: []byte(payload)}); err != nil {
			log.Fatal(err)
		}
	}
}

// answer returns an action that waits for a question and answers it.
func answer(a workflow.Answer) func(*engine.Engine, history.RunID) {
	return func(e *engine.Engine, id history.RunID) {
		for run, err := range e.Follow(context.Background(), id) {
			if err != nil {
				log.Fatal(err)
			}
			if run.Questions == 0 {
				continue
			}
			open, err := e.Interrupts(context.Background(), id)
			if err != nil {
				log.Fatal(err)
			}
			if err := e.Answer(context.Background(), id, open[0].Key, a, "example"); err != nil {
				log.Fatal(err)
			}
			return
		}
	}
}

// waiting is an action that waits until the run waits.
func waiting(e *engine.Engine, id history.RunID) {
	for run, err := range e.Follow(context.Background(), id) {
		if err != nil {
			log.Fatal(err)
		}
		if run.Status == history.StatusWaiting {
			return
		}
	}
}
