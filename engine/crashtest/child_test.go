package crashtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/schedule"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

// envLife makes a process of this test's binary a child: it has a life as JSON. The child owns the store until it is killed,
// and says all that it does on its standard output, which is the external witness's log: a line is there when its write
// returns, whatever becomes of the child.
const envLife = "PERDURE_CRASHTEST_LIFE"

// life is what a child is to do.
type life struct {
	place
	Number int
	// Process names the process among those that work on the store.
	Process int
	// Seed orders what the clients do; the kernel's scheduler has its say too.
	Seed uint64
	// Acked are the ids of the calls that earlier lives acknowledged.
	Acked map[string]bool
	// Upkeep is what it does instead of running workflows.
	Upkeep string
	// Role is the part that it has in a cluster; "" for a process that does everything, as one on a file must.
	Role role
	// Last lets it end when all runs have; else it goes on until it is killed.
	Last bool
}

// role is what a process does in a cluster.
type role string

const (
	worked role = "worker"  // executes runs, and cleans up
	called role = "clients" // is the clients, and executes nothing
)

// sweepEvery is how often finished runs are looked for that may be deleted.
const sweepEvery = 15 * time.Millisecond

// child is what one session of a child has open: the workflows, and the clients of them.
type child struct {
	life   life
	store  engine.Store
	engine *engine.Engine

	mu    sync.Mutex
	acked map[string]bool // calls that this life or an earlier one acknowledged. guarded by mu
}

// say writes one line of the log, in one write.
func (c *child) say(format string, args ...any) error {
	_, err := fmt.Fprintf(os.Stdout, format+"\n", args...)
	return err
}

func runChild(env string) error {
	l := life{Acked: map[string]bool{}}
	if err := json.Unmarshal([]byte(env), &l); err != nil {
		return fmt.Errorf("%s: %w", envLife, err)
	}
	if l.Upkeep != "" {
		return upkeep(l)
	}
	for session := 0; ; session++ {
		c := &child{life: l, acked: l.Acked}
		if err := c.session(session); err != nil || l.Last {
			return err
		}
	}
}

// session opens the store, lets the clients do what is left of their scripts, gives the runs a moment and closes the store in
// good order: only the last life waits until the runs have ended.
func (c *child) session(n int) (err error) {
	if c.store, err = c.life.open(); err != nil {
		return err
	}
	if c.life.DSN == "" { // the first group goes to no log
		if _, err := c.store.Secret(context.Background(), fmt.Sprintf("of %d.%d", c.life.Number, n)); err != nil {
			return err
		}
	}
	out, err := engine.OpenJSONLines(c.life.exports(c.life.Process))
	if err != nil {
		return err
	}
	defer out.Close()
	if err := c.start(out); err != nil {
		return err
	}
	if err := c.say("open %d", c.life.Process); err != nil {
		return err
	}
	if c.life.Role == worked {
		<-c.engine.Done() // it is killed before
		return c.engine.Err()
	}
	if err := c.clients(); err != nil {
		return err
	}
	switch {
	case c.life.Last:
		err = c.awaitEnd()
	case c.life.Role == called:
		select {} // all is said: it is killed
	default:
		time.Sleep(time.Duration(20+10*n) * time.Millisecond)
	}
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer stop()
	return errors.Join(err, c.engine.Close(ctx), c.store.Close())
}

// start starts the engine.
func (c *child) start(out engine.Exporter) (err error) {
	level := slog.LevelError
	if c.life.DSN != "" {
		level = slog.LevelError + 1 // connections are cut, and each of them says so
	}
	opts := engine.Options{
		Log:           slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
		Worker:        worker.Options{PollInterval: 10 * time.Millisecond, LeaseTTL: leaseTTL},
		WithoutWorker: c.life.Role == called,
		Retention: engine.RetentionOptions{
			Every: sweepEvery, Exporter: out, Off: c.life.Role == called,
			Policy: history.RetentionPolicy{
				{Workflow: "exported", Keep: time.Millisecond, ExportFirst: true, KeepTombstones: time.Millisecond},
				{Workflow: "trimmed", KeepGenerations: time.Millisecond},
			},
		},
	}
	if opts.Codecs, err = c.life.codecs(); err != nil {
		return err
	}
	if c.life.Process%2 == 1 {
		opts.Worker.MaxResident = -1 // every other process replays at every wait
	}
	if c.engine, err = engine.New(c.store, opts); err != nil {
		return err
	}
	return c.engine.Register(append(c.workflows(), schedule.Workflow())...) // now: the steps use c.engine
}

// clients runs what is left of the scripts, all at once, those of this life in an order of its own.
func (c *child) clients() error {
	var scripts []script
	for n := range c.life.Number + 1 {
		scripts = append(scripts, family(n)...)
	}
	random := rand.New(rand.NewPCG(c.life.Seed, 1))
	random.Shuffle(len(scripts), func(i, j int) { scripts[i], scripts[j] = scripts[j], scripts[i] })
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.persist(ctx, c.makeSchedule) })
	for _, s := range scripts {
		g.Go(func() error {
			for _, call := range s {
				if err := c.make(ctx, call); err != nil {
					return fmt.Errorf("%s: %w", call.id(), err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// make makes a call, unless it was acknowledged before, and acknowledges it.
func (c *child) make(ctx context.Context, call call) error {
	c.mu.Lock()
	done := c.acked[call.id()]
	c.mu.Unlock()
	if done {
		return nil
	}
	if err := c.say("try %s", call.id()); err != nil {
		return err
	}
	var outcome string
	err := c.persist(ctx, func(ctx context.Context) (err error) {
		outcome, err = c.do(ctx, call)
		return err
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.acked[call.id()] = true
	c.mu.Unlock()
	return c.say("ack %s %s", call.id(), outcome)
}

// persist repeats what fails because the way to a database does, until ctx ends.
func (c *child) persist(ctx context.Context, fn func(context.Context) error) error {
	for {
		err := fn(ctx)
		if err == nil || c.life.DSN == "" || ctx.Err() != nil || slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(err, r) }) {
			return err
		}
		if wait(ctx, "a database") != nil {
			return err
		}
	}
}

// refusals are what a store says that could be reached.
var refusals = []error{
	history.ErrAnswered, history.ErrClosed, history.ErrConflict, history.ErrCorrupt, history.ErrExpired, history.ErrFailed, history.ErrFenced, history.ErrFormat,
	history.ErrHeld, history.ErrInvalid, history.ErrKey, history.ErrNotFound, history.ErrSequence, history.ErrTerminal, history.ErrTooLarge, errors.ErrUnsupported,
}

// do makes the call and returns what the witness is to know of its outcome.
func (c *child) do(ctx context.Context, call call) (outcome string, err error) {
	switch call.Verb {
	case start, startLate:
		return c.startRun(ctx, call)
	case define:
		v, err := c.store.PutDefinition(ctx, "crash", []byte(call.Arg))
		return fmt.Sprint(v), err
	case secret:
		b, err := c.store.Secret(ctx, call.Arg)
		return fmt.Sprintf("%x", b), err
	}
	run, err := c.engine.RunByKey(ctx, "", call.Run)
	if call.Verb == unhold && errors.Is(err, history.ErrExpired) {
		return before, nil // the run was let go
	}
	if err != nil {
		return "", err
	}
	const by, why = "client", "crash test"
	switch call.Verb {
	case signal:
		payload, err := json.Marshal(call.Arg)
		if err != nil {
			return "", err
		}
		d, err := c.engine.Signal(ctx, run.ID, engine.SignalRequest{Name: "mail", ID: call.Arg, Payload: payload, By: by})
		return strings.ReplaceAll(d.String(), " ", "-"), err
	case answer:
		return c.answer(ctx, run.ID)
	case cancel:
		run, err = c.engine.Cancel(ctx, run.ID, by, why)
	case terminate:
		run, err = c.engine.Terminate(ctx, run.ID, by, why)
	case pause:
		run, err = c.engine.Pause(ctx, run.ID, by, why)
	case resume:
		run, err = c.engine.Resume(ctx, run.ID, by, why)
	case redeliver:
		return c.redeliver(ctx, run.ID, call.Arg)
	case hold:
		h := history.Hold{ID: run.ID, Scope: history.HoldRun, Run: run.ID, By: by, Reason: why}
		if _, err = c.engine.PlaceHold(ctx, h); errors.Is(err, history.ErrConflict) {
			err = nil // placed before, and not acknowledged
		}
	case endHeld:
		return c.endHeld(ctx, run)
	case awaitPrune:
		return c.awaitPrune(ctx, run.ID)
	case unhold:
		_, err = c.engine.ReleaseHold(ctx, run.ID, by, why)
	case forget:
		_, err = c.engine.ErasePayloads(ctx, run.ID, by, why)
	case renewLease, giveLease, loseLease:
		err = c.lease(ctx, call)
	default:
		err = fmt.Errorf("no such verb")
	}
	return fmt.Sprintf("%s %d", run.Status, run.Seq), err
}

func (c *child) startRun(ctx context.Context, call call) (string, error) {
	s := history.Start{Spec: history.Spec{Key: call.Run, Workflow: call.Arg, Version: 1, Retention: call.Keep}, Input: []byte(`""`)}
	if call.Arg == "roll" || call.Arg == "trimmed" {
		s.Input = []byte(`{}`)
	}
	if call.Verb == startLate {
		return c.startLate(ctx, s)
	}
	run, _, err := c.engine.StartRun(ctx, s)
	if errors.Is(err, history.ErrExpired) {
		return before, nil
	}
	return run.ID.String(), err
}

// before is the outcome of a call that had its effect in an earlier life, which could not acknowledge it.
const before = "before"

// startLate waits until the run is deleted, and starts it again: that must be refused, for it was.
func (c *child) startLate(ctx context.Context, s history.Start) (string, error) {
	for {
		_, err := c.engine.RunByKey(ctx, "", s.Spec.Key)
		if errors.Is(err, history.ErrExpired) {
			break
		}
		if err != nil {
			return "", err
		}
		if err := wait(ctx, "its deletion"); err != nil {
			return "", err
		}
	}
	run, existed, err := c.engine.StartRun(ctx, s)
	if !errors.Is(err, history.ErrExpired) {
		return "", fmt.Errorf("a start under the key of a deleted run gives %s, existed: %t, %w", run.ID, existed, err)
	}
	return "refused", nil
}

// wait lets a moment pass.
func wait(ctx context.Context, forWhat string) error {
	select {
	case <-time.After(time.Millisecond):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waits for %s: %w", forWhat, ctx.Err())
	}
}

// answer gives two answers to the run's question at the same time and returns those that were taken.
func (c *child) answer(ctx context.Context, id history.RunID) (string, error) {
	var key string
	for key == "" {
		run, err := c.engine.Run(ctx, id)
		if err != nil {
			return "", err
		}
		open, err := c.engine.Interrupts(ctx, id)
		switch {
		case err != nil:
			return "", err
		case len(open) > 0:
			key = open[0].Key
		case run.Status.Terminal():
			return before, nil
		default:
			if err := wait(ctx, "its question"); err != nil {
				return "", err
			}
		}
	}
	var taken [2]string
	var g errgroup.Group
	for i, text := range []string{"A", "B"} {
		g.Go(func() error {
			content, err := json.Marshal(reply{text})
			if err != nil {
				return err
			}
			err = c.engine.Answer(ctx, id, key, workflow.Answer{Action: workflow.Accept, Content: content}, "client")
			if errors.Is(err, history.ErrAnswered) {
				return nil
			}
			taken[i] = text
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return "", err
	}
	if taken[0]+taken[1] == "" {
		return before, nil
	}
	return taken[0] + taken[1], nil
}

// endHeld waits until a run under a hold has ended and the clean-up has passed it by.
func (c *child) endHeld(ctx context.Context, run history.Run) (_ string, err error) {
	for !run.Status.Terminal() && err == nil {
		if err = wait(ctx, "its end"); err == nil {
			run, err = c.engine.Run(ctx, run.ID)
		}
	}
	if err == nil {
		time.Sleep(2 * sweepEvery)
		run, err = c.engine.Run(ctx, run.ID)
	}
	return run.Status.String(), err
}

// awaitPrune waits until the run's history no longer begins with its start.
func (c *child) awaitPrune(ctx context.Context, id history.RunID) (string, error) {
	for {
		first, err := c.store.History(ctx, id, 1, 1)
		if err != nil {
			return "", err
		}
		if len(first) > 0 && first[0].Seq > 1 {
			return strconv.FormatUint(first[0].Seq, 10), nil
		}
		if err := wait(ctx, "its pruning"); err != nil {
			return "", err
		}
	}
}

// redeliver sends the dead letter on.
func (c *child) redeliver(ctx context.Context, from history.RunID, to string) (string, error) {
	target, err := c.engine.RunByKey(ctx, "", to)
	if err != nil {
		return "", err
	}
	letters, err := c.engine.DeadLetters(ctx, from)
	if err != nil || len(letters) == 0 {
		return before, err
	}
	d, err := c.engine.Redeliver(ctx, from, letters[0].Seq, target.ID, "client")
	return strings.ReplaceAll(d.String(), " ", "-"), err
}

// lease takes the lease of a run whose code nobody has, and lets it go in one way or another.
func (c *child) lease(ctx context.Context, call call) error {
	owner := "ghost " + call.Run
	req := engine.ClaimRequest{Owner: owner, Workflows: []history.WorkflowKey{{Name: "ghost " + string(call.Verb), Version: 1}}, Max: 100, TTL: time.Minute}
	if call.Verb == loseLease {
		req.TTL = time.Millisecond
	}
	claims, err := c.store.Claim(ctx, req)
	if err != nil {
		return err
	}
	for _, claim := range claims {
		switch call.Verb {
		case renewLease:
			_, err = c.store.Renew(ctx, owner, time.Minute, map[history.RunID]history.Token{claim.Run.ID: claim.Token})
		case giveLease:
			err = c.store.Release(ctx, claim.Run.ID, claim.Token, 0, "given back")
		}
		if err != nil && !errors.Is(err, history.ErrFenced) { // another client's terminate may have come first
			return err
		}
	}
	if call.Verb == loseLease {
		time.Sleep(2 * time.Millisecond)
		_, err = c.store.ExpireLeases(ctx)
	}
	if errors.Is(err, history.ErrFenced) {
		return nil
	}
	return err
}

const scheduleName = "ticks"

func (c *child) makeSchedule(ctx context.Context) error {
	client := schedule.NewClient(c.engine, "")
	spec := schedule.Spec{Cron: "@every 1s", Workflow: "tick", Input: []byte(`""`), Missed: schedule.FireAll, Overlap: schedule.Allow}
	run, err := client.Create(ctx, scheduleName, spec, "client")
	if err != nil {
		return err
	}
	return c.say("schedule %s", run.ID)
}

// awaitTick waits until the schedule has fired once at least: the lives before may have been too short for that.
func (c *child) awaitTick(ctx context.Context) error {
	for {
		page, err := c.engine.List(ctx, engine.Filter{Workflow: "tick", Limit: 1})
		if err != nil || len(page.Runs) > 0 {
			return err
		}
		if err := wait(ctx, "the schedule"); err != nil {
			return err
		}
	}
}

// awaitEnd ends the schedule and waits until every run has ended, and those are deleted that are to be.
func (c *child) awaitEnd() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if err := c.awaitTick(ctx); err != nil {
		return err
	}
	err := c.persist(ctx, func(ctx context.Context) error {
		return schedule.NewClient(c.engine, "").Delete(ctx, scheduleName, "client")
	})
	if err != nil {
		return err
	}
	live := engine.Filter{Limit: 1000, Statuses: slices.DeleteFunc(history.Statuses(), history.Status.Terminal)}
	for {
		page, err := c.engine.List(ctx, live)
		if err != nil {
			return err
		}
		if len(page.Runs) == 0 {
			break
		}
		var left bytes.Buffer
		for i := range page.Runs {
			fmt.Fprintf(&left, " %s (%s, %s)", page.Runs[i].Key, page.Runs[i].Status, page.Runs[i].Reason)
		}
		if err := wait(ctx, "the end of"+left.String()); err != nil {
			return err
		}
	}
	if _, err := c.engine.Sweep(ctx, "client"); err != nil && !errors.Is(err, history.ErrFenced) {
		return err
	}
	return c.say("end")
}
