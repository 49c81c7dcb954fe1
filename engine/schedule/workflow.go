package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/timer"
	"github.com/perdure/perdure/workflow"
)

// The workflow's name, and the signals that it understands.
const (
	workflowName  = "perdure.schedule"
	signalPause   = "pause"
	signalResume  = "resume"
	signalTrigger = "trigger"
	signalUpdate  = "update"
)

const (
	// maxRounds bounds a generation's history.
	maxRounds = 200
	// maxMissed bounds what FireAll catches up with in one round.
	maxMissed = 1000
	// lateness is how late a time may be before it counts as missed.
	lateness = time.Minute
)

// state is what a schedule carries from generation to generation.
type state struct {
	Name string `json:"name"`
	Spec Spec   `json:"spec"`
	// After is the newest time that was considered; the next one is later.
	After  time.Time `json:"after"`
	Paused bool      `json:"paused,omitempty"`
	// Last is the run that was started last.
	Last string `json:"last,omitempty"`
	// Trouble is why the newest time could not be fired; empty where it could.
	Trouble string `json:"trouble,omitempty"`
	// Fired and Skipped count.
	Fired   int `json:"fired"`
	Skipped int `json:"skipped"`
}

// Workflow is the code of schedules. An engine that executes schedules registers it.
func Workflow() workflow.Definition { return workflow.Define(workflowName, 1, run) }

func run(ctx workflow.Context, st state) (state, error) {
	for range maxRounds {
		if err := st.round(ctx); err != nil {
			return st, err
		}
	}
	return st, workflow.ContinueAsNew(st)
}

// errNoTime ends a schedule. It is a failure, so that the schedule's name can be used again.
var errNoTime = errors.New("the expression names no further time")

// round waits for the next time or for a command, and acts on it.
func (st *state) round(ctx workflow.Context) error {
	next, err := st.next(ctx)
	if err != nil {
		return err
	}
	if next.Time.IsZero() {
		return errNoTime
	}
	var opts []workflow.WaitOption
	if st.Paused {
		workflow.SetStatus(ctx, "paused"+st.trouble())
	} else {
		workflow.SetStatus(ctx, "next at "+next.Time.Format(time.RFC3339)+st.trouble())
		opts = append(opts, workflow.Within(next.In))
	}
	sig, err := workflow.ReceiveAny(ctx, []string{signalPause, signalResume, signalTrigger, signalUpdate}, opts...)
	switch {
	case errors.Is(err, workflow.ErrTimeout):
		return st.fireDue(ctx)
	case err != nil:
		return err
	}
	return st.obey(ctx, sig)
}

// trouble is what the schedule's status says of a time that could not be fired.
func (st *state) trouble() string {
	if st.Trouble == "" {
		return ""
	}
	return "; the last start failed: " + st.Trouble
}

// maxTrouble bounds the text of an error that a schedule carries, in bytes.
const maxTrouble = 300

// troubleOf is the cause of a step's failure, in one line.
func troubleOf(err error) string {
	text := err.Error()
	var failed *workflow.StepError
	if errors.As(err, &failed) {
		text = failed.Cause()
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxTrouble {
		text = strings.ToValidUTF8(text[:maxTrouble], "") + "…"
	}
	return text
}

// upcoming is the next time, and how far it is.
type upcoming struct {
	Time time.Time     `json:"time"`
	In   time.Duration `json:"in"`
}

func (st *state) next(ctx workflow.Context) (upcoming, error) {
	now := workflow.Now(ctx)
	return workflow.Record(ctx, "next", func() (upcoming, error) {
		cron, err := timer.ParseCron(st.Spec.Cron, st.Spec.Zone)
		if err != nil {
			return upcoming{}, err
		}
		next, ok := cron.Next(st.After)
		if !ok {
			return upcoming{}, nil
		}
		return upcoming{Time: next, In: max(next.Sub(now), 0)}, nil
	})
}

// fireDue fires the times that have come, as the policy says.
func (st *state) fireDue(ctx workflow.Context) error {
	now := workflow.Now(ctx)
	due, err := workflow.Record(ctx, "due", func() ([]time.Time, error) { return st.Spec.due(st.After, now) })
	if err != nil {
		return err
	}
	for _, at := range due {
		if err := st.fire(ctx, at, st.Name+"@"+at.Format(time.RFC3339)); err != nil {
			return err
		}
	}
	st.After = now
	if len(due) == maxMissed { // there may be more, which come next
		st.After = due[len(due)-1]
	}
	return nil
}

// due lists the times after one instant and up to another that are to be fired.
func (s *Spec) due(after, now time.Time) ([]time.Time, error) {
	cron, err := timer.ParseCron(s.Cron, s.Zone)
	if err != nil {
		return nil, err
	}
	if s.Missed != FireAll {
		after = lately(cron, after, now)
	}
	var due []time.Time
	for at, ok := cron.Next(after); ok && !at.After(now) && len(due) < maxMissed; at, ok = cron.Next(at) {
		switch {
		case s.Missed == FireNone && now.Sub(at) > lateness:
		case s.Missed == FireOnce:
			due = append(due[:0], at)
		default:
			due = append(due, at)
		}
	}
	return due, nil
}

// lately returns an instant from which on it is not far to the newest time before now: where a year of minutes was missed,
// nobody wants to look at each of them.
func lately(cron *timer.Cron, after, now time.Time) time.Time {
	for d := 2 * lateness; d > 0 && after.Before(now.Add(-d)); d *= 2 {
		if at, ok := cron.Next(now.Add(-d)); ok && !at.After(now) {
			return now.Add(-d)
		}
	}
	return after
}

// fired is what came of a time.
type fired struct {
	Run     string `json:"run,omitempty"`
	Skipped bool   `json:"skipped,omitempty"`
}

// fire starts a run for a time, unless the overlap policy leaves it out.
func (st *state) fire(ctx workflow.Context, at time.Time, key string) error {
	spec, last, tenant := st.Spec, st.Last, workflow.Info(ctx).Tenant
	f, err := workflow.Step(ctx, "fire", func(ctx context.Context) (fired, error) {
		return start(ctx, spec, last, tenant, key)
	}, workflow.Retry{Total: 24 * time.Hour})
	if err != nil {
		workflow.Log(ctx).Error("schedule could not start a run", "schedule", st.Name, "time", at, "error", err)
		st.Skipped++
		st.Trouble = troubleOf(err)
		return ignoreUnlessEnded(err)
	}
	st.Trouble = ""
	if f.Skipped {
		st.Skipped++
		return nil
	}
	st.Last = f.Run
	st.Fired++
	return nil
}

// ignoreUnlessEnded keeps a schedule going where one time cannot be fired.
func ignoreUnlessEnded(err error) error {
	if errors.Is(err, workflow.ErrCanceled) || errors.Is(err, workflow.ErrDeadline) {
		return err
	}
	return nil
}

// start is the step: it looks at the run before and starts the next.
func start(ctx context.Context, spec Spec, last, tenant, key string) (fired, error) {
	runs := workflow.StepInfo(ctx).Runs
	if runs == nil {
		return fired{}, workflow.Final(errors.New("this worker reaches no other runs"))
	}
	if id, err := ulid.ParseStrict(last); err == nil && spec.Overlap != Allow {
		before, err := runs.Get(ctx, id)
		switch {
		case errors.Is(err, history.ErrNotFound), errors.Is(err, history.ErrExpired):
		case err != nil:
			return fired{}, err
		case before.Status.Terminal() || before.Key == key:
		case spec.Overlap == Skip:
			return fired{Skipped: true}, nil
		default:
			if err := runs.Cancel(ctx, id, "schedule", "the next time of the schedule has come"); err != nil {
				return fired{}, err
			}
		}
	}
	s := history.Start{By: "schedule", Input: spec.Input, Spec: history.Spec{
		Tenant: tenant, Key: key, Workflow: spec.Workflow, Version: spec.Version, Queue: spec.Queue, Priority: spec.Priority, Tags: spec.Tags,
		ConcurrencyKey: spec.ConcurrencyKey, ConcurrencyLimit: spec.ConcurrencyLimit, Retention: spec.Retention,
	}}
	if spec.Deadline > 0 {
		s.Spec.Deadline = history.TimeOf(time.Now()).Add(spec.Deadline)
	}
	run, _, err := runs.Start(ctx, s)
	if errors.Is(err, history.ErrInvalid) || errors.Is(err, history.ErrConflict) {
		return fired{}, workflow.Final(err)
	}
	return fired{Run: run.ID.String()}, err
}

// obey acts on a command.
func (st *state) obey(ctx workflow.Context, sig workflow.Signal) error {
	switch sig.Name {
	case signalPause:
		st.Paused = true
	case signalResume:
		if st.Paused {
			st.Paused = false
			st.After = workflow.Now(ctx) // times that passed while paused were not missed
		}
	case signalTrigger:
		return st.fire(ctx, workflow.Now(ctx), fmt.Sprintf("%s@trigger-%s", st.Name, workflow.NewID(ctx)))
	case signalUpdate:
		var spec Spec
		if err := sig.Decode(&spec); err != nil || spec.check() != nil {
			workflow.Log(ctx).Error("schedule ignores an update that does not fit", "schedule", st.Name, "error", err)
			return nil
		}
		st.Spec, st.After, st.Trouble = spec, workflow.Now(ctx), ""
	}
	return nil
}
