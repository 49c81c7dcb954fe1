package schedule

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/timer"
)

// Overlap says what happens at a time when the run of the time before still goes on.
type Overlap string

const (
	// Skip leaves the time out. It is the default.
	Skip Overlap = "skip"
	// Allow starts a run all the same.
	Allow Overlap = "allow"
	// CancelOther asks the run before to end, and starts a run.
	CancelOther Overlap = "cancel"
)

// Missed says what happens with times that passed while nothing ran.
type Missed string

const (
	// FireOnce fires the newest of the missed times. It is the default.
	FireOnce Missed = "once"
	// FireAll fires all of them, oldest first, up to 1,000.
	FireAll Missed = "all"
	// FireNone fires none that is more than a minute late.
	FireNone Missed = "none"
)

// Spec describes a schedule.
type Spec struct {
	// Cron is an expression of five fields or a descriptor (see timer.ParseCron), read in Zone ("" is UTC).
	Cron string `json:"cron"`
	Zone string `json:"zone,omitempty"`
	// Workflow and Version are what is started; version 0 is the newest at that time. Input is JSON.
	Workflow string          `json:"workflow"`
	Version  int             `json:"version,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
	Overlap  Overlap         `json:"overlap,omitempty"`
	Missed   Missed          `json:"missed,omitempty"`
	// Queue, Priority, Tags and Deadline are those of the runs.
	Queue    string            `json:"queue,omitempty"`
	Priority int               `json:"priority,omitempty"`
	Tags     map[string]string `json:"tags,omitempty"`
	Deadline time.Duration     `json:"deadline,omitempty"`
	// Retention is how long each run is kept after its end; 0 leaves it to the engine's policy, and is for ever without one.
	Retention time.Duration `json:"retention,omitempty"`
	// ConcurrencyKey and ConcurrencyLimit (default 1) are those of engine.StartOptions.
	ConcurrencyKey   string `json:"concurrencyKey,omitempty"`
	ConcurrencyLimit int    `json:"concurrencyLimit,omitempty"`
}

// check fills in defaults and refuses what could never run.
func (s *Spec) check() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf(format+": %w", append(args, history.ErrInvalid)...)
	}
	if s.Overlap == "" {
		s.Overlap = Skip
	}
	if s.Missed == "" {
		s.Missed = FireOnce
	}
	if len(s.Input) == 0 {
		s.Input = json.RawMessage("null")
	}
	if _, err := timer.ParseCron(s.Cron, s.Zone); err != nil {
		return fmt.Errorf("%w: %w", err, history.ErrInvalid)
	}
	if err := history.CheckName("workflow", s.Workflow); err != nil {
		return fmt.Errorf("%w: %w", err, history.ErrInvalid)
	}
	switch {
	case s.Overlap != Skip && s.Overlap != Allow && s.Overlap != CancelOther:
		return invalid("overlap %q is not one of skip, allow, cancel", s.Overlap)
	case s.Missed != FireOnce && s.Missed != FireAll && s.Missed != FireNone:
		return invalid("missed %q is not one of once, all, none", s.Missed)
	case !json.Valid(s.Input):
		return invalid("the input is not JSON")
	case s.ConcurrencyLimit < 0 || s.ConcurrencyLimit > 0 && s.ConcurrencyKey == "":
		return invalid("concurrency limit %d with key %q: want a limit of at least 1, with a key", s.ConcurrencyLimit, s.ConcurrencyKey)
	case s.Deadline < 0:
		return invalid("deadline %s is negative", s.Deadline)
	case s.Retention < 0:
		return invalid("retention %s is negative: 0 leaves it to the policy", s.Retention)
	}
	return nil
}

// checkTime refuses an expression that names no time after now, such as 31 February.
func (s *Spec) checkTime(now time.Time) error {
	cron, err := timer.ParseCron(s.Cron, s.Zone)
	if err != nil {
		return fmt.Errorf("%w: %w", err, history.ErrInvalid)
	}
	if _, ok := cron.Next(now); !ok {
		return fmt.Errorf("the expression %q names no time: %w", s.Cron, history.ErrInvalid)
	}
	return nil
}
