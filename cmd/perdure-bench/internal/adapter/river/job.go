package river

import (
	"context"
	"sync"

	"github.com/riverqueue/river"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

// job is a run: its one step.
type job struct {
	ID   string    `json:"id"`
	Work peer.Kind `json:"work"`
}

// Kind implements river.JobArgs.
func (job) Kind() string { return "step" }

type worker struct {
	river.WorkerDefaults[job]
	marks *peer.Marks
}

// Work implements river.Worker.
func (w *worker) Work(_ context.Context, j *river.Job[job]) error {
	if j.Args.Work == peer.Sleep {
		w.marks.Awake().Pass(j.Args.ID)
		return nil
	}
	w.marks.Step(0)
	return nil
}

type run struct {
	done *completions
	job  int64
}

func (r *run) Wait(ctx context.Context) error { return r.done.wait(ctx, r.job) }

func (r *run) Signal(context.Context) error { return peer.ErrUnsupported }

// completions tells who waits for a job that it is done, in whichever order the two come.
type completions struct {
	mu sync.Mutex
	// jobs that are done or waited for. guarded by mu
	jobs map[int64]chan struct{}
}

func newCompletions() *completions { return &completions{jobs: make(map[int64]chan struct{})} }

func (c *completions) of(id int64) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch, ok := c.jobs[id]
	if !ok {
		ch = make(chan struct{})
		c.jobs[id] = ch
	}
	return ch
}

func (c *completions) collect(events <-chan *river.Event) {
	for e := range events {
		close(c.of(e.Job.ID))
	}
}

func (c *completions) wait(ctx context.Context, id int64) error {
	select {
	case <-c.of(id):
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.jobs, id)
	return nil
}
