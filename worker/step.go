package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
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

// stepRun is one attempt under way. It ends once: when its function has returned, or when that has not stopped in the grace
// that it has after its context has ended.
type stepRun struct {
	position history.Position
	attempt  uint32
	cancel   context.CancelCauseFunc
	// limit ends the attempt when its timeout has passed, silence where no heartbeat comes for so long; nil where there is none.
	limit, silence *time.Timer
	every          time.Duration

	// The rest is guarded by held.mu.

	// cause is why the context was ended, and grace gives the attempt up after that.
	cause error
	grace *time.Timer
	// progress is what the attempt reported last, and kept when that was last put into the history.
	progress []byte
	kept     time.Time
	// drop says that the result does not matter any more, over that the attempt has ended.
	drop, over bool
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
	s := &stepRun{position: c.Position, attempt: c.Attempt, cancel: cancel, every: c.Heartbeat, progress: c.Progress, kept: time.Now()}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		cancel(errLost)
		return
	}
	h.steps[c.Position] = s
	s.limit = h.cutAfter(s, c.Timeout, errStepTimeout)
	s.silence = h.cutAfter(s, c.Heartbeat, errStepSilent)
	ctx = kernel.WithStepInfo(ctx, kernel.StepInfo{
		Run: h.id, Position: c.Position, Attempt: c.Attempt, IdempotencyKey: c.IdempotencyKey, Token: h.token, Log: h.w.opts.Log,
		Progress: c.Progress, Runs: h.w.opts.Runs,
		Beat: func(progress []byte) { h.beat(s, progress) },
	})
	h.w.running.Add(1)
	go h.attempt(ctx, s, c)
}

// attempt runs the step's function.
func (h *held) attempt(ctx context.Context, s *stepRun, c kernel.StepCall) {
	r := kernel.StepResult{Failure: &history.Failure{Kind: history.FailurePanic, Message: "the step ended its own goroutine"}}
	defer func() { h.stepEnded(s, r) }() // also where the function ends its goroutine
	r.Payload, r.Failure = h.call(ctx, c)
}

// cutAfter ends the context of an attempt after d; 0 means never.
func (h *held) cutAfter(s *stepRun, d time.Duration, cause error) *time.Timer {
	if d <= 0 {
		return nil
	}
	return time.AfterFunc(d, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.cut(s, cause)
	})
}

// cut ends the context of an attempt, for the first cause that there is. The caller holds mu.
func (h *held) cut(s *stepRun, cause error) {
	if s.over || s.cause != nil {
		return
	}
	s.cause = cause
	s.cancel(cause)
	s.grace = time.AfterFunc(h.w.opts.StopGrace, func() { h.giveUpStep(s) })
}

// giveUpStep ends an attempt whose function does not stop when told to.
func (h *held) giveUpStep(s *stepRun) {
	ended := h.stepEnded(s, kernel.StepResult{
		Failure: &history.Failure{Kind: history.FailureApplication, Message: "the step did not stop"},
	})
	if ended {
		h.w.opts.Log.Error("step does not stop: its attempt counts as failed, and its result will be dropped",
			"run", h.id, "step", s.position, "attempt", s.attempt, "cause", s.cause)
	}
}

// call runs the step's function, through the interceptor where there is one. It does not enter it when the claim is gone
// by now: the next holder executes the step, and what this attempt gave back would be dropped.
func (h *held) call(ctx context.Context, c kernel.StepCall) ([]byte, *history.Failure) {
	if cause := context.Cause(ctx); errors.Is(cause, errLost) || errors.Is(cause, errDraining) {
		return nil, &history.Failure{Kind: history.FailureCanceled, Message: cause.Error()}
	}
	if c.Timeout < 0 || c.Heartbeat < 0 {
		return nil, &history.Failure{
			Kind: history.FailureTimeout, Message: fmt.Sprintf("a timeout of %s had passed before the step began", min(c.Timeout, c.Heartbeat)),
		}
	}
	if h.w.opts.Intercept == nil {
		return c.Run(ctx)
	}
	return h.intercepted(ctx, c)
}

// intercepted calls the interceptor. Its panic is the step's.
func (h *held) intercepted(ctx context.Context, c kernel.StepCall) (payload []byte, f *history.Failure) {
	defer func() {
		if r := recover(); r != nil {
			kernel.ReportPanic(ctx, r, debug.Stack())
			payload, f = nil, &history.Failure{Kind: history.FailurePanic, Message: "the step panicked"}
		}
	}()
	info, _ := kernel.StepInfoFrom(ctx)
	return h.w.opts.Intercept(ctx, info, c.Run)
}

// classify says why an attempt failed, where the end of its context tells, and bounds its result.
func (h *held) classify(cause error, r kernel.StepResult) kernel.StepResult {
	if r.Failure == nil {
		if n := len(r.Payload); n > h.w.opts.MaxPayload {
			r.Payload, r.Failure = nil, &history.Failure{
				Kind: history.FailureTooLarge, Final: true,
				Message: fmt.Sprintf("the result has %d bytes, at most %d are allowed", n, h.w.opts.MaxPayload),
			}
		}
		return r
	}
	switch cause {
	case errStepTimeout, errStepSilent:
		r.Failure = &history.Failure{Kind: history.FailureTimeout, Message: cause.Error(), Cause: r.Failure, Final: r.Failure.Final}
	case errStepStopped:
		r.Failure = &history.Failure{Kind: history.FailureCanceled, Message: cause.Error(), Cause: r.Failure, Final: r.Failure.Final}
	}
	return r
}

// stepEnded ends an attempt and hands its result to the run, unless that no longer matters. It reports whether the attempt
// had not ended before.
func (h *held) stepEnded(s *stepRun, r kernel.StepResult) bool {
	h.mu.Lock()
	if s.over {
		h.mu.Unlock()
		return false
	}
	s.over = true
	if h.steps[s.position] == s {
		delete(h.steps, s.position)
	}
	r.Position, r.Attempt, r.Progress = s.position, s.attempt, s.progress
	if !h.gone && !s.drop {
		h.ended = append(h.ended, h.classify(s.cause, r))
	}
	h.mu.Unlock()
	h.signal()
	s.cancel(nil)
	for _, t := range []*time.Timer{s.limit, s.silence, s.grace} {
		if t != nil {
			t.Stop()
		}
	}
	h.w.running.Done()
	return true
}

// stop ends the contexts of running steps.
func (h *held) stop(stops []kernel.StepStop) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, st := range stops {
		if s := h.steps[st.Position]; s != nil {
			s.drop = st.Drop
			h.cut(s, errStepStopped)
		}
	}
}

// beat takes a report of progress. It goes into the history now and then, and with a failure.
func (h *held) beat(s *stepRun, progress []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.over {
		return
	}
	if s.silence != nil {
		s.silence.Reset(s.every)
	}
	s.progress = progress
	if h.gone || time.Since(s.kept) < h.w.opts.ProgressEvery {
		return
	}
	s.kept = time.Now()
	h.progress = append(h.progress, kernel.StepResult{Position: s.position, Attempt: s.attempt, Progress: progress})
	h.signal()
}
