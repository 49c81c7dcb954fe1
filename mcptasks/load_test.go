package mcptasks_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/mcptasks"
	"github.com/perdure/perdure/workflow"
)

// BenchmarkLoad holds 1,000 open tasks and 100 subscriptions to ten of them each, polls 200 times a second and changes
// a task 20 times a second, all over HTTP on a bbolt file. It reports the latency of tasks/get, the lag from a durable
// change to its notification, and the memory of a task and of a subscription (with its client, in the same process).
//
//	go test -bench Load -benchtime 2000x -run - ./mcptasks
func BenchmarkLoad(b *testing.B) {
	const tasks, subscriptions, each, pace = 1000, 100, 10, 5 * time.Millisecond
	s := newService(b, workflow.Define("hold", 1, func(ctx workflow.Context, _ struct{}) (string, error) {
		for {
			text, err := workflow.Receive[string](ctx, "status")
			if err != nil {
				return "", err
			}
			workflow.SetStatus(ctx, text)
		}
	}))
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	c := s.client(mcptasks.ClientOptions{})

	before := heap()
	ids := make([]string, tasks)
	runs := make([]ulid.ULID, tasks)
	var start errgroup.Group
	start.SetLimit(32)
	for i := range tasks {
		start.Go(func() error {
			out, err := c.Call(ctx, mcptasks.CallRequest{Tool: "hold"})
			if err != nil {
				return err
			}
			run, err := s.engine.RunByTask(ctx, out.Task.TaskID)
			ids[i], runs[i] = out.Task.TaskID, run.ID
			return err
		})
	}
	if err := start.Wait(); err != nil {
		b.Fatal(err)
	}
	withTasks := heap()

	seen := &lags{sent: map[string]time.Time{}}
	var listeners, ready sync.WaitGroup
	ready.Add(subscriptions * each)
	for i := range subscriptions {
		mine := ids[i*each : (i+1)*each]
		listeners.Go(func() {
			first := map[string]bool{}
			for d, err := range c.Listen(ctx, mine...) {
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						b.Error(err)
					}
					return
				}
				if !first[d.TaskID] {
					first[d.TaskID] = true
					ready.Done()
				}
				seen.arrived(d.StatusMessage)
			}
		})
	}
	ready.Wait()
	withSubscriptions := heap()

	var mu sync.Mutex
	var gets []time.Duration
	var polls errgroup.Group
	tick := time.NewTicker(pace)
	defer tick.Stop()
	n := 0
	for b.Loop() {
		<-tick.C
		i := n
		n++
		polls.Go(func() error {
			began := time.Now()
			_, err := c.Get(ctx, ids[i*7%tasks])
			mu.Lock()
			gets = append(gets, time.Since(began))
			mu.Unlock()
			return err
		})
		if i%10 == 0 {
			polls.Go(func() error {
				return seen.change(ctx, s.engine, runs[i*3%tasks], fmt.Sprintf("change %d", i))
			})
		}
	}
	if err := polls.Wait(); err != nil {
		b.Fatal(err)
	}
	seen.settle()
	report(b, "get", gets)
	report(b, "lag", seen.lags)
	b.ReportMetric(float64(withTasks-before)/tasks, "B/task")
	b.ReportMetric(float64(withSubscriptions-withTasks)/subscriptions, "B/subscription")
	cancel()
	listeners.Wait()
}

// lags measures how long changes take to arrive.
type lags struct {
	mu   sync.Mutex
	sent map[string]time.Time // guarded by mu; changes on their way
	lags []time.Duration      // guarded by mu
	all  sync.WaitGroup
}

// change makes a durable change of a run. The run's subscribers see its text.
func (l *lags) change(ctx context.Context, e *engine.Engine, id history.RunID, text string) error {
	l.all.Add(1)
	l.mu.Lock()
	l.sent[text] = time.Now()
	l.mu.Unlock()
	_, err := e.Signal(ctx, id, engine.SignalRequest{Name: "status", Payload: fmt.Appendf(nil, "%q", text)})
	return err
}

func (l *lags) arrived(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.sent[text]
	if !ok {
		return
	}
	delete(l.sent, text)
	l.lags = append(l.lags, time.Since(at))
	l.all.Done()
}

// settle waits until every change has arrived.
func (l *lags) settle() { l.all.Wait() }

func report(b *testing.B, name string, ds []time.Duration) {
	if len(ds) == 0 {
		return
	}
	slices.Sort(ds)
	ms := func(p float64) float64 { return float64(ds[int(p*float64(len(ds)-1))]) / float64(time.Millisecond) }
	b.ReportMetric(ms(0.5), name+"-p50-ms")
	b.ReportMetric(ms(0.99), name+"-p99-ms")
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
