package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// openExample returns an engine on a new file, and a function that closes both.
func openExample(defs ...workflow.Definition) (*engine.Engine, func()) {
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
		err := errors.Join(e.Close(context.Background()), store.Close(), os.RemoveAll(dir))
		if err != nil {
			log.Fatal(err)
		}
	}
}

var double = workflow.Define("double", 1, func(_ workflow.Context, n int) (int, error) { return 2 * n, nil })

// parcel waits for a signal.
var parcel = workflow.Define("parcel", 1, func(ctx workflow.Context, _ int) (string, error) {
	workflow.SetStatus(ctx, "on its way")
	return workflow.Receive[string](ctx, "arrived")
})

// begin starts a run of parcel and waits until it waits.
func begin(e *engine.Engine) *engine.Handle[string] {
	h, err := engine.Start(context.Background(), e, parcel, 0, engine.StartOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for run, err := range e.Follow(context.Background(), h.ID()) {
		if err != nil {
			log.Fatal(err)
		}
		if run.Status == history.StatusWaiting {
			break
		}
	}
	return h
}

// A key makes a start idempotent: the same one again finds the run, another input is a conflict.
func ExampleStart() {
	e, done := openExample(double)
	defer done()
	ctx := context.Background()
	first, err := engine.Start(ctx, e, double, 21, engine.StartOptions{Key: "order-7"})
	if err != nil {
		log.Fatal(err)
	}
	again, err := engine.Start(ctx, e, double, 21, engine.StartOptions{Key: "order-7"})
	if err != nil {
		log.Fatal(err)
	}
	_, err = engine.Start(ctx, e, double, 4, engine.StartOptions{Key: "order-7"})
	fmt.Println(again.Existed, again.ID() == first.ID(), errors.Is(err, history.ErrConflict))
	fmt.Println(again.Result(ctx))
	// Output:
	// true true true
	// 42 <nil>
}

// A handle can be made anew from the id of a run, in another process.
func ExampleAttach() {
	e, done := openExample(double)
	defer done()
	h, err := engine.Start(context.Background(), e, double, 21, engine.StartOptions{})
	if err != nil {
		log.Fatal(err)
	}
	id := h.ID().String() // keep it anywhere
	run, err := e.Find(context.Background(), "", id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(engine.Attach[int](e, run.ID).Result(context.Background()))
	// Output: 42 <nil>
}

// A run that did not succeed says how it ended.
func ExampleRunError() {
	fails := workflow.Define("fails", 1, func(workflow.Context, int) (int, error) { return 0, errors.New("no such order") })
	e, done := openExample(fails)
	defer done()
	h, err := engine.Start(context.Background(), e, fails, 0, engine.StartOptions{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = h.Result(context.Background())
	var ended *engine.RunError
	if errors.As(err, &ended) {
		fmt.Println(ended.Status, ended.Failure.Kind, ended.Failure)
	}
	// Output: failed application no such order
}

// A signal with an id is delivered once; one to a run that is over is kept as a dead letter.
func ExampleEngine_Signal() {
	e, done := openExample(parcel)
	defer done()
	ctx := context.Background()
	h := begin(e)
	s := engine.SignalRequest{Name: "arrived", ID: "scan-1", Payload: []byte(`"at the door"`)}
	for range 2 {
		fmt.Println(e.Signal(ctx, h.ID(), s))
	}
	fmt.Println(h.Result(ctx))
	s.ID = "scan-2"
	fmt.Println(e.Signal(ctx, h.ID(), s))
	dead, err := e.DeadLetters(ctx, h.ID())
	fmt.Println(len(dead), err)
	// Output:
	// delivered <nil>
	// duplicate <nil>
	// at the door <nil>
	// dead letter <nil>
	// 1 <nil>
}

// The open questions of a run, and an answer that does not fit.
func ExampleEngine_Answer() {
	type reply struct {
		Guests int `json:"guests"`
	}
	w := workflow.Define("party", 1, func(ctx workflow.Context, _ int) (int, error) {
		r, err := workflow.Ask[reply](ctx, "guests", workflow.Question{Message: "How many guests?"})
		return r.Guests, err
	})
	e, done := openExample(w)
	defer done()
	ctx := context.Background()
	h, err := engine.Start(ctx, e, w, 0, engine.StartOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for run := range e.Follow(ctx, h.ID()) {
		if run.Questions > 0 {
			break
		}
	}
	open, err := e.Interrupts(ctx, h.ID())
	if err != nil {
		log.Fatal(err)
	}
	for _, content := range []string{`{"guests":"many"}`, `{"guests":7}`} {
		err := e.Answer(ctx, h.ID(), open[0].Key, workflow.Answer{Action: workflow.Accept, Content: []byte(content)}, "ada")
		var wrong *workflow.AnswerError
		fmt.Println(errors.As(err, &wrong))
	}
	fmt.Println(h.Result(ctx))
	// Output:
	// true
	// false
	// 7 <nil>
}

// A cancel lets the run clean up; terminate does not.
func ExampleEngine_Cancel() {
	e, done := openExample(parcel)
	defer done()
	ctx := context.Background()
	canceled, terminated := begin(e), begin(e)
	if _, err := e.Cancel(ctx, canceled.ID(), "ada", "ordered twice"); err != nil {
		log.Fatal(err)
	}
	if _, err := e.Terminate(ctx, terminated.ID(), "ada", "stuck"); err != nil {
		log.Fatal(err)
	}
	for _, h := range []*engine.Handle[string]{canceled, terminated} {
		_, err := h.Result(ctx)
		var ended *engine.RunError
		if errors.As(err, &ended) {
			fmt.Println(ended.Status, ended.Failure)
		}
	}
	// Output:
	// canceled receive "arrived": canceled
	// failed stuck
}

// Runs by status, workflow, tag and tenant, a page at a time.
func ExampleEngine_List() {
	e, done := openExample(double, parcel)
	defer done()
	ctx := context.Background()
	for i := range 5 {
		h, err := engine.Start(ctx, e, double, i, engine.StartOptions{Tags: map[string]string{"team": "a"}})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := h.Result(ctx); err != nil {
			log.Fatal(err)
		}
	}
	begin(e)
	f := engine.Filter{Statuses: []history.Status{history.StatusCompleted}, Tags: map[string]string{"team": "a"}, Limit: 2}
	for {
		page, err := e.List(ctx, f)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(page.Runs))
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	// Output:
	// 2
	// 2
	// 1
}

// The states of a run as it goes on.
func ExampleEngine_Follow() {
	e, done := openExample(parcel)
	defer done()
	ctx := context.Background()
	h := begin(e)
	if _, err := e.Signal(ctx, h.ID(), engine.SignalRequest{Name: "arrived"}); err != nil {
		log.Fatal(err)
	}
	text := ""
	for run, err := range e.Follow(ctx, h.ID()) { // each change, or the newest of several
		if err != nil {
			log.Fatal(err)
		}
		if run.Message != text {
			text = run.Message
			fmt.Println(text)
		}
		if run.Status.Terminal() {
			fmt.Println(run.Status)
		}
	}
	// Output:
	// on its way
	// completed
}

// What happened to a run, event by event.
func ExampleEngine_History() {
	w := workflow.Define("tour", 1, func(ctx workflow.Context, _ int) (int, error) {
		n, err := workflow.Step(ctx, "count", func(context.Context) (int, error) { return 3, nil })
		if err != nil {
			return 0, err
		}
		return n, workflow.Sleep(ctx, time.Millisecond)
	})
	e, done := openExample(w)
	defer done()
	h, err := engine.Start(context.Background(), e, w, 0, engine.StartOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := h.Result(context.Background()); err != nil {
		log.Fatal(err)
	}
	for ev, err := range e.History(context.Background(), h.ID(), 1) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ev.Seq, ev.Kind)
	}
	// Output:
	// 1 run started
	// 2 step completed
	// 3 timer set
	// 4 timer fired
	// 5 run completed
}

// The checker proves the invariants of everything in the store.
func ExampleEngine_Verify() {
	e, done := openExample(double)
	defer done()
	h, err := engine.Start(context.Background(), e, double, 1, engine.StartOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := h.Result(context.Background()); err != nil {
		log.Fatal(err)
	}
	found := 0
	err = e.Verify(context.Background(), func(v engine.Violation) { found++ })
	fmt.Println(found, err)
	// Output: 0 <nil>
}
