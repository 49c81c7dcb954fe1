package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// The causes of a step's context that ends before the step does.
var (
	errStepTimeout = errors.New("the step's timeout passed")
	errStepStopped = errors.New("the run was canceled")
	errStepSilent  = errors.New("the step's heartbeat stopped")
)

// stepRun is one attempt under way.
type stepRun struct {
	cancel context.CancelCauseFunc
	// silence ends the attempt where no heartbeat comes; nil where none is asked for.
	silence *time.Timer
	every   time.Duration

	// progress is what the attempt reported last, and kept when that was last put into the history. guarded by held.mu
	progress []byte
	kept     time.Time
	// drop says that the result does not matter any more. guarded by held.mu
	drop bool
}

// start begins attempts. A draining worker begins none: the run is handed back once its other steps have ended. An
// at-most-once step is begun all the same, because its beginning is recorded.
func (h *held) start(ctx context.Context, calls []kernel.StepCall) {
	draining := h.w.isDraining()
	for _, c := range calls {
		if draining && !c.AtMostOnce {
			continue
		}
		h.begin(ctx, c)
	}
	if draining {
		h.signal()
	}
}

func (h *held) begin(ctx context.Context, c kernel.StepCall) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &stepRun{cancel: cancel, every: c.Heartbeat, progress: c.Progress, kept: time.Now()}
	if c.Heartbeat > 0 {
		s.silence = time.AfterFunc(c.Heartbeat, func() { cancel(errStepSilent) })
	}
	h.mu.Lock()
	if h.gone {
		h.mu.Unlock()
		cancel(errLost)
		return
	}
	h.steps[c.Position] = s
	h.mu.Unlock()
	ctx = kernel.WithStepInfo(ctx, kernel.StepInfo{
		Run: h.id, Position: c.Position, Attempt: c.Attempt, IdempotencyKey: c.IdempotencyKey, Token: h.token, Log: h.w.opts.Log,
		Progress: c.Progress, Runs: h.w.opts.Runs,
		Beat: func(progress []byte) { h.beat(s, c, progress) },
	})
	h.w.running.Add(1)
	go func() {
		defer h.w.running.Done()
		defer cancel(nil)
		defer s.quiet()
		h.stepEnded(s, h.attempt(ctx, cancel, c))
	}()
}

// attempt runs the step's function under its timeout, and gives up on one that does not stop when told to.
func (h *held) attempt(ctx context.Context, cancel context.CancelCauseFunc, c kernel.StepCall) kernel.StepResult {
	if c.Timeout > 0 {
		t := time.AfterFunc(c.Timeout, func() { cancel(errStepTimeout) })
		defer t.Stop()
	}
	result := make(chan kernel.StepResult, 1)
	go func() {
		r := kernel.StepResult{Position: c.Position, Attempt: c.Attempt}
		defer func() { result <- r }() // also where the function ends its goroutine
		r.Failure = &history.Failure{Kind: history.FailurePanic, Message: "the step ended its own goroutine"}
		r.Payload, r.Failure = h.call(ctx, c)
	}()
	select {
	case r := <-result:
		return h.classify(ctx, r)
	case <-ctx.Done():
	}
	grace := time.NewTimer(h.w.opts.StopGrace)
	defer grace.Stop()
	select {
	case r := <-result:
		return h.classify(ctx, r)
	case <-grace.C:
		h.w.opts.Log.Error("step does not stop: its attempt counts as failed, and its result will be dropped",
			"run", h.id, "step", c.Position, "attempt", c.Attempt, "cause", context.Cause(ctx))
		return h.classify(ctx, kernel.StepResult{
			Position: c.Position, Attempt: c.Attempt,
			Failure: &history.Failure{Kind: history.FailureApplication, Message: "the step did not stop"},
		})
	}
}

// call runs the step's function, through the interceptor where there is one. It does not enter it when the claim is gone
// by now: the next holder executes the step, and what this attempt gave back would be dropped.
func (h *held) call(ctx context.Context, c kernel.StepCall) ([]byte, *history.Failure) {
	if cause := context.Cause(ctx); errors.Is(cause, errLost) || errors.Is(cause, errDraining) {
		return nil, &history.Failure{Kind: history.FailureCanceled, Message: cause.Error()}
	}
	if h.w.opts.Intercept == nil {
		return c.Run(ctx)
	}
	info, _ := kernel.StepInfoFrom(ctx)
	return h.w.opts.Intercept(ctx, info, c.Run)
}

// classify says why an attempt failed, where its context tells, and bounds its result.
func (h *held) classify(ctx context.Context, r kernel.StepResult) kernel.StepResult {
	if r.Failure == nil {
		if n := len(r.Payload); n > h.w.opts.MaxPayload {
			r.Payload, r.Failure = nil, &history.Failure{
				Kind: history.FailureTooLarge, Final: true,
				Message: fmt.Sprintf("the result has %d bytes, at most %d are allowed", n, h.w.opts.MaxPayload),
			}
		}
		return r
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStepTimeout), errors.Is(cause, errStepSilent):
		r.Failure = &history.Failure{Kind: history.FailureTimeout, Message: cause.Error(), Cause: r.Failure, Final: r.Failure.Final}
	case errors.Is(cause, errStepStopped):
		r.Failure = &history.Failure{Kind: history.FailureCanceled, Message: cause.Error(), Cause: r.Failure, Final: r.Failure.Final}
	}
	return r
}

// stepEnded hands an attempt's end to the run, unless it no longer matters.
func (h *held) stepEnded(s *stepRun, r kernel.StepResult) {
	h.mu.Lock()
	if h.steps[r.Position] == s {
		delete(h.steps, r.Position)
	}
	r.Progress = s.progress
	if !h.gone && !s.drop {
		h.ended = append(h.ended, r)
	}
	h.mu.Unlock()
	h.signal()
}

// stop ends the contexts of running steps.
func (h *held) stop(stops []kernel.StepStop) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, st := range stops {
		if s := h.steps[st.Position]; s != nil {
			s.drop = st.Drop
			s.cancel(errStepStopped)
		}
	}
}

// beat takes a report of progress. It goes into the history now and then, and with a failure.
func (h *held) beat(s *stepRun, c kernel.StepCall, progress []byte) {
	if s.silence != nil {
		s.silence.Reset(s.every)
	}
	h.mu.Lock()
	s.progress = progress
	keep := !h.gone && h.steps[c.Position] == s && time.Since(s.kept) >= h.w.opts.ProgressEvery
	if keep {
		s.kept = time.Now()
		h.progress = append(h.progress, kernel.StepResult{Position: c.Position, Attempt: c.Attempt, Progress: progress})
	}
	h.mu.Unlock()
	if keep {
		h.signal()
	}
}

// quiet ends the watch for heartbeats.
func (s *stepRun) quiet() {
	if s.silence != nil {
		s.silence.Stop()
	}
}
