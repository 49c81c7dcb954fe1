package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/schedule"
	"github.com/perdure/perdure/engine/testbackend"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

// cluster is several engines on the same data, each with an opening of its own, as in so many processes.
type cluster struct {
	*testing.T
	data  testbackend.Backend
	clock func() time.Time // nil: the database's
}

// member is one engine of a cluster. A killed one loses its store without a word.
type member struct {
	*engine.Engine
	store *killable
	close func()
}

// newCluster makes a cluster without members. Its data is checked at the end of the test.
func newCluster(t *testing.T, clock func() time.Time) *cluster {
	t.Helper()
	testbackend.NeedsDatabase(t)
	c := &cluster{T: t, data: testbackend.New(t), clock: clock}
	t.Cleanup(func() {
		s := c.open()
		if err := s.Verify(context.Background(), func(v engine.Violation) { t.Errorf("checker: %+v", v) }); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *cluster) open() engine.Store {
	c.Helper()
	s, err := c.data.Open(c.clock)
	if err != nil {
		c.Fatal(err)
	}
	return s
}

// join adds a member, which leaves at the end of the test at the latest.
func (c *cluster) join(opts engine.Options, defs ...workflow.Definition) *member {
	c.Helper()
	m := &member{store: &killable{Store: c.open()}}
	opts.Workflows = defs
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	e, err := engine.New(m.store, opts)
	if err != nil {
		c.Fatal(err)
	}
	m.Engine = e
	m.close = sync.OnceFunc(func() {
		err := e.Close(context.Background())
		if m.store.dead() != nil {
			err = nil // it says that it was killed
		}
		if err := errors.Join(err, m.store.Close()); err != nil {
			c.Error(err)
		}
	})
	c.Cleanup(m.close)
	return m
}

// kill ends a member as SIGKILL does: what it holds stays held.
func (m *member) kill() { m.store.kill() }

// promptly bounds a wait for what must come without anybody's poll.
func promptly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 20*time.Second, errors.New("it has not come within 20 s"))
	t.Cleanup(cancel)
	return ctx
}

// hinted is a worker that looks for work by itself so seldom that a test does not see it: it must be told.
var hinted = worker.Options{PollInterval: time.Hour}

// ended waits for the end of a run.
func (m *member) ended(t *testing.T, id history.RunID) history.Event {
	t.Helper()
	end, err := m.Await(promptly(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// under counts what is under way at once, by key, and who did it.
type under struct {
	mu        sync.Mutex
	now, most map[string]int
	by        map[string]int
	order     []string
}

func newUnder() *under {
	return &under{now: map[string]int{}, most: map[string]int{}, by: map[string]int{}}
}

// work is a workflow of one step, whose input is its key.
func (u *under) work(worker string, takes time.Duration) *workflow.Workflow[string, string] {
	return workflow.Define("work", 1, func(ctx workflow.Context, key string) (string, error) {
		return workflow.Step(ctx, "work", func(context.Context) (string, error) {
			u.mu.Lock()
			u.now[key]++
			u.most[key] = max(u.most[key], u.now[key])
			u.by[worker]++
			u.order = append(u.order, key)
			u.mu.Unlock()
			time.Sleep(takes)
			u.mu.Lock()
			defer u.mu.Unlock()
			u.now[key]--
			return worker, nil
		})
	})
}

// TestClusterKeepsConcurrencyLimits: three engines take runs of two keys, and never more at once than each key allows.
func TestClusterKeepsConcurrencyLimits(t *testing.T) {
	c, u := newCluster(t, nil), newUnder()
	var members []*member
	for i := range 3 {
		name := fmt.Sprint("m", i)
		members = append(members, c.join(engine.Options{Worker: worker.Options{Name: name, PollInterval: time.Second}}, u.work(name, 20*time.Millisecond)))
	}
	limits := map[string]int{"two": 2, "one": 1}
	var ids []history.RunID
	for i := range 36 {
		key := []string{"one", "two", "two"}[i%3]
		h, err := engine.Start(t.Context(), members[i%len(members)].Engine, u.work("", 0), key, engine.StartOptions{ConcurrencyKey: key, ConcurrencyLimit: limits[key]})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, h.ID())
	}
	for i, id := range ids {
		if end := members[i%len(members)].ended(t, id); end.Kind != history.RunCompleted {
			t.Errorf("run %s: %s", id, end.Kind)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, limit := range limits {
		if u.most[key] > limit {
			t.Errorf("%d runs of key %q at once, its limit is %d", u.most[key], key, limit)
		}
	}
	if len(u.order) != len(ids) || len(u.by) < 2 {
		t.Errorf("%d steps of %d runs, by %v", len(u.order), len(ids), u.by)
	}
}

// TestClusterServesTenantsFairly: behind a backlog of one tenant that two workers share, another tenant's run is next.
func TestClusterServesTenantsFairly(t *testing.T) {
	c, u := newCluster(t, nil), newUnder()
	front := c.join(engine.Options{WithoutWorker: true})
	var ids []history.RunID
	put := func(tenant string, priority int) {
		h, err := engine.Start(t.Context(), front.Engine, u.work("", 0), tenant, engine.StartOptions{Tenant: tenant, Priority: priority})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, h.ID())
	}
	for range 60 {
		put("big", 9)
	}
	for i := range 2 {
		name := fmt.Sprint("m", i)
		c.join(engine.Options{Worker: worker.Options{MaxRuns: 1, PollInterval: time.Second}}, u.work(name, 20*time.Millisecond))
	}
	front.ended(t, ids[0])
	put("small", 0)
	u.mu.Lock()
	before := len(u.order)
	u.mu.Unlock()
	for _, id := range ids {
		front.ended(t, id)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	// Each worker may have one run, and be claiming another, when the small tenant's comes.
	if at := slices.Index(u.order, "small"); at > before+4 {
		t.Errorf("the small tenant's run was number %d, and it came when %d had begun", at, before)
	}
	if len(u.order) != len(ids) || len(u.by) != 2 {
		t.Errorf("%d steps of %d runs, by %v", len(u.order), len(ids), u.by)
	}
}

// TestClusterRunsVersionsSideBySide: a run is taken only by a worker that has its version.
func TestClusterRunsVersionsSideBySide(t *testing.T) {
	c := newCluster(t, nil)
	version := func(v int) *workflow.Workflow[int, int] {
		return workflow.Define("w", v, func(ctx workflow.Context, _ int) (int, error) {
			return workflow.Step(ctx, "s", func(context.Context) (int, error) { return v, nil })
		})
	}
	front := c.join(engine.Options{WithoutWorker: true})
	run := func(v int) history.RunID {
		h, err := engine.Start(t.Context(), front.Engine, version(v), 0, engine.StartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return h.ID()
	}
	check := func(id history.RunID, want string) {
		t.Helper()
		if end := front.ended(t, id); string(end.Payload) != want {
			t.Errorf("result %s, want %s", end.Payload, want)
		}
	}
	old := c.join(engine.Options{Worker: hinted}, version(1))
	c.join(engine.Options{Worker: hinted}, version(2))
	for range 5 {
		one, two := run(1), run(2)
		check(one, "1")
		check(two, "2")
	}
	old.close()
	left := run(1)
	for range 5 {
		check(run(2), "2")
	}
	if r, err := front.Run(t.Context(), left); err != nil || r.Status != history.StatusReady || r.Claimed {
		t.Errorf("a run without a worker is %s, claimed %v, %v", r.Status, r.Claimed, err)
	}
	c.join(engine.Options{Worker: hinted}, version(1))
	check(left, "1")
}

// TestClusterDrains: what a draining member holds goes on at once with another, which need not wait for a lease.
func TestClusterDrains(t *testing.T) {
	c := newCluster(t, nil)
	began := make(chan string, 100)
	hangs := func(name string) *workflow.Workflow[int, string] {
		return workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			return workflow.Step(ctx, "s", func(ctx context.Context) (string, error) {
				began <- name
				if name == "first" {
					<-ctx.Done()
					return "", ctx.Err()
				}
				return name, nil
			})
		})
	}
	front := c.join(engine.Options{WithoutWorker: true})
	o := worker.Options{PollInterval: time.Hour, LeaseTTL: time.Hour}
	first := c.join(engine.Options{Worker: o, DrainTimeout: time.Millisecond}, hangs("first"))
	var ids []history.RunID
	for range 10 {
		h, err := engine.Start(t.Context(), front.Engine, hangs(""), 0, engine.StartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, h.ID())
		<-began
	}
	c.join(engine.Options{Worker: o}, hangs("second"))
	first.close()
	for _, id := range ids {
		if end := front.ended(t, id); string(end.Payload) != `"second"` {
			t.Errorf("result %s of run %s", end.Payload, id)
		}
	}
}

// TestClusterWakesWhoWaitsElsewhere: work reaches a worker, and changes who waits for them, by the store's hints alone.
func TestClusterWakesWhoWaitsElsewhere(t *testing.T) {
	c := newCluster(t, nil)
	w := workflow.Define("w", 1, func(ctx workflow.Context, in string) (string, error) {
		for range 3 {
			s, err := workflow.Receive[string](ctx, "more")
			if err != nil {
				return "", err
			}
			in += s
			workflow.SetStatus(ctx, in)
		}
		return in, nil
	})
	front, other := c.join(engine.Options{WithoutWorker: true}), c.join(engine.Options{WithoutWorker: true})
	c.join(engine.Options{Worker: hinted}, w)
	h, err := engine.Start(t.Context(), front.Engine, w, "0", engine.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan string, 1)
	go func() {
		got, err := engine.Attach[string](other.Engine, h.ID()).Result(promptly(t))
		if err != nil {
			t.Error(err)
		}
		result <- got
	}()
	sent := 0
	for run, err := range other.Follow(promptly(t), h.ID()) {
		if err != nil {
			t.Fatal(err)
		}
		if run.Status == history.StatusWaiting && run.Message == "0123"[:sent+1] || sent == 0 && run.Status == history.StatusWaiting {
			sent++
			if _, err := front.Signal(t.Context(), h.ID(), engine.SignalRequest{Name: "more", Payload: fmt.Appendf(nil, "%q", fmt.Sprint(sent))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := <-result; got != "0123" {
		t.Errorf("result %q", got)
	}
}

// TestClusterFiresAScheduleOncePerTime: three engines, of which one after another dies and is replaced.
func TestClusterFiresAScheduleOncePerTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, time.Now)
		var ran witness
		job := workflow.Define("job", 1, func(ctx workflow.Context, _ string) (string, error) {
			return workflow.Step(ctx, "s", ran.step("ran"))
		})
		opts := engine.Options{Worker: worker.Options{PollInterval: 10 * time.Second}}
		var members []*member
		for range 3 {
			members = append(members, c.join(opts, job, schedule.Workflow()))
		}
		spec := schedule.Spec{Cron: "*/10 * * * *", Workflow: "job", Input: []byte(`"x"`)}
		if _, err := schedule.NewClient(members[0].Engine, "").Create(t.Context(), "often", spec, "test"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for i := range 9 {
			time.Sleep(9*time.Minute + 55*time.Second)
			if i%2 == 1 {
				members[i%3].kill() // just before a time, or just after
				members[i%3] = c.join(opts, job, schedule.Workflow())
			}
			time.Sleep(5 * time.Second)
		}
		pass(2 * time.Minute)
		page, err := members[0].List(t.Context(), engine.Filter{Workflow: "job"})
		if err != nil {
			t.Fatal(err)
		}
		times := map[time.Time]int{}
		for _, r := range page.Runs {
			times[r.CreatedAt.Std().Truncate(10*time.Minute)]++
		}
		for at := began.Add(10 * time.Minute); at.Before(time.Now()); at = at.Add(10 * time.Minute) {
			if n := times[at.UTC()]; n != 1 {
				t.Errorf("%d runs at %s, want 1", n, at)
			}
		}
		if len(page.Runs) != 9 || ran.count("ran") != 9 {
			t.Errorf("%d runs of nine times, and %d steps", len(page.Runs), ran.count("ran"))
		}
	})
}
