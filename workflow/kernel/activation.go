package kernel

import (
	"context"
	"slices"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/timer"
)

// Input is what an activation is told.
type Input struct {
	// Now is the store's time.
	Now history.Time
	// Clock reads the store's time; nil: it is Now throughout. It is asked when a wait begins: see Execution.until.
	Clock func() history.Time
	// Inbox are the items that the execution has not seen, in order.
	Inbox []history.InboxItem
	// Steps are the attempts that ended, in order of ending.
	Steps []StepResult
	// Progress is what running attempts reported and is to be kept.
	Progress []StepResult
}

// Activation is what an activation came to. The events must be durable before any effect begins.
type Activation struct {
	// After and Head are where the events attach.
	After  uint64
	Events []history.Event

	Set, Clear []history.Timer
	Open       []history.Interrupt
	Close      []string
	Consume    []uint64
	InboxSeen  uint64
	DecidedAt  history.Time
	Children   []history.Start
	// Cancels are children to be asked to end.
	Cancels []history.RunID

	Next history.Next
	// Diverged is set with history.NextBlocked.
	Diverged *Divergence

	// Start are the step attempts to begin.
	Start []StepCall
	// Stop are the running steps whose contexts end now.
	Stop []StepStop
	// Wake is the earliest deadline that is open, whatever it belongs to; zero: none.
	Wake history.Time
	// Asleep says that the run waits for nothing but timers: only a cancel wakes it before Wake.
	Asleep bool
	// Warning is set while the history nears its limit.
	Warning string
	// Undecided are the steps that wait for an operator's decision.
	Undecided []history.Position
}

// Empty reports whether there is nothing to commit to a run in that state.
func (a *Activation) Empty(run *history.State) bool {
	return len(a.Events) == 0 && len(a.Set) == 0 && len(a.Clear) == 0 && len(a.Consume) == 0 && a.Next == history.NextRunning &&
		slices.Equal(a.Undecided, run.Undecided)
}

// Batch is the activation as the holder of the run commits it: run is the state that it attaches to.
func (a *Activation) Batch(run *history.Run, token history.Token) history.Batch {
	for i := range a.Events {
		a.Events[i].Token = token
	}
	b := history.Batch{
		Run: run.ID, Token: token, After: run.Seq, Head: run.Head, Events: a.Events,
		Set: a.Set, Clear: a.Clear, Open: a.Open, Close: a.Close, Consume: a.Consume,
		InboxSeen: a.InboxSeen, DecidedAt: a.DecidedAt, Children: a.Children, Cancels: a.Cancels, Next: a.Next,
		Reason: a.Warning, Undecided: a.Undecided,
	}
	if len(a.Undecided) > 0 {
		b.Reason = waitsForOperator(a.Undecided)
	}
	if a.Diverged != nil {
		b.Reason = a.Diverged.Error()
		b.InboxSeen = run.InboxSeen
	}
	return b
}

// StepSpec describes a step.
type StepSpec struct {
	Name string
	// Run is the author's function, from context to JSON. A failure is in its canonical form.
	Run   func(ctx context.Context) ([]byte, *history.Failure)
	Retry timer.Backoff
	// Max bounds the attempts; 0 means no bound. Total bounds the time from the first failure; 0 means none.
	Max   int
	Total time.Duration
	// Timeout bounds one attempt from its start; 0 means none.
	Timeout time.Duration
	// Heartbeat bounds the time between two reports of progress; 0 means none.
	Heartbeat time.Duration
	// AtMostOnce records that the step begins before it does; a second beginning is ambiguous.
	AtMostOnce bool
	// Operator leaves an ambiguous at-most-once step to an operator.
	Operator bool
}

// StepCall is one attempt to begin.
type StepCall struct {
	Position       history.Position
	Attempt        uint32
	IdempotencyKey string
	Timeout        time.Duration
	// AtMostOnce says that the attempt's beginning is recorded.
	AtMostOnce bool
	Run        func(ctx context.Context) ([]byte, *history.Failure)
	// Heartbeat bounds the time between two reports of progress; 0 means none. Progress is what the attempt before
	// reported last.
	Heartbeat time.Duration
	Progress  []byte
}

// StepStop ends a running step's context.
type StepStop struct {
	Position history.Position
	// Drop says that the result does not matter any more.
	Drop bool
}

// StepResult is the end of one attempt.
type StepResult struct {
	Position history.Position
	Attempt  uint32
	Payload  []byte
	Failure  *history.Failure
	// Progress is what the attempt reported last; it is handed to the next attempt.
	Progress []byte
}
