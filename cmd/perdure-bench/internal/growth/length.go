package growth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// Length is what a run of a number of steps costs.
type Length struct {
	Steps int
	// Execute is from the start until the run waits after its last step. First and Last are its first and last thousand
	// steps, or all.
	Execute, First, Last time.Duration
	// Replay is, where the file was just opened, from a signal to the end of the run that waits for it: its history is read
	// and replayed, and two more events are committed.
	Replay time.Duration
	// Show reads the whole history and encodes it as JSON, as perdure export does.
	Show time.Duration
}

// part is how many steps First and Last are of.
const part = 1000

// Lengths measures a run of each number of steps.
func Lengths(ctx context.Context, dir string, steps []int) (lengths []Length, err error) {
	for _, n := range steps {
		l := Length{Steps: n}
		if err := l.measure(ctx, filepath.Join(dir, fmt.Sprint("length", n, ".db"))); err != nil {
			return lengths, fmt.Errorf("run of %d steps: %w", n, err)
		}
		lengths = append(lengths, l)
	}
	return lengths, nil
}

func (l *Length) measure(ctx context.Context, path string) error {
	var marks []time.Time // of the first step of each part: one step at a time, and read when the run waits
	work := workflow.Define("long", 1, func(ctx workflow.Context, n int) (int, error) {
		for i := range n {
			_, err := workflow.Step(ctx, "step", func(context.Context) (int, error) {
				if i%part == 0 {
					marks = append(marks, time.Now())
				}
				return i, nil
			})
			if err != nil {
				return 0, err
			}
		}
		return workflow.Receive[int](ctx, "go")
	})
	var id history.RunID
	err := with(ctx, path, work, func(e *engine.Engine) error {
		began := time.Now()
		h, err := engine.Start(ctx, e, work, l.Steps, engine.StartOptions{})
		if err != nil {
			return err
		}
		id = h.ID()
		if err := follow(ctx, e, id, history.StatusWaiting); err != nil {
			return err
		}
		l.Execute = time.Since(began)
		ended := append(marks, time.Now())
		l.First, l.Last = ended[1].Sub(ended[0]), ended[len(ended)-1].Sub(ended[len(ended)-2])
		return nil
	})
	if err != nil {
		return err
	}
	return with(ctx, path, work, func(e *engine.Engine) error { return l.again(ctx, e, id) })
}

// again replays the run and shows it.
func (l *Length) again(ctx context.Context, e *engine.Engine, id history.RunID) error {
	began := time.Now()
	if _, err := e.Signal(ctx, id, engine.SignalRequest{Name: "go", Payload: json.RawMessage("1")}); err != nil {
		return err
	}
	if err := follow(ctx, e, id, history.StatusCompleted); err != nil {
		return err
	}
	l.Replay = time.Since(began)
	began = time.Now()
	x, err := e.Export(ctx, id)
	if err != nil {
		return err
	}
	if len(x.Events) != l.Steps+4 { // its start, the steps, a receive, its signal, its end
		return fmt.Errorf("the history has %d events", len(x.Events))
	}
	_, err = json.Marshal(x)
	l.Show = time.Since(began)
	return err
}

// follow returns once the run has the status.
func follow(ctx context.Context, e *engine.Engine, id history.RunID, want history.Status) error {
	for run, err := range e.Follow(ctx, id) {
		switch {
		case err != nil:
			return err
		case run.Status == want:
			return nil
		case run.Status.Terminal():
			return fmt.Errorf("the run is %s: %v", run.Status, run.Failure)
		}
	}
	return errors.New("the run cannot be followed any more")
}

// with opens an engine on the file for fn.
func with(ctx context.Context, path string, work workflow.Definition, fn func(e *engine.Engine) error) error {
	s, err := boltstore.Open(path, nil)
	if err != nil {
		return err
	}
	e, err := engine.New(s, engine.Options{Workflows: []workflow.Definition{work}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	err = fn(e)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, e.Close(ctx), s.Close())
}
