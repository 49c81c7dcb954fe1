package mcptasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/perdure/perdure/history"
)

// view is all that a projection depends on: one consistent reading of a run.
type view struct {
	run       history.Run
	questions []history.Interrupt // the open ones
	outcome   *history.Event      // the terminal event; nil while there is none
	route     *boundRoute         // nil where the route is gone
	now       history.Time
	low, high time.Duration // bounds of the polling interval
}

// project shows a run as revision 2026-07-28 does. It is a pure function.
//
//	run                                              status           with
//	ready, running, waiting, paused, blocked         working          message
//	… with an open question for the client           input_required   inputRequests
//	… with a cancel request                          working          "cancelling"
//	completed                                        completed        result
//	failed by an error that the workflow returned    completed        result with isError
//	failed otherwise (see protocolFailure)           failed           error
//	canceled                                         cancelled        message
func project(v *view) (DetailedTask, error) {
	d := DetailedTask{Task: Task{
		TaskID:         v.run.TaskID,
		StatusMessage:  v.run.Message,
		CreatedAt:      timestamp(v.run.CreatedAt),
		LastUpdatedAt:  timestamp(max(v.run.UpdatedAt, v.run.CreatedAt)),
		TTLMs:          ttlMs(&v.run, v.now),
		PollIntervalMs: pollInterval(&v.run, v.now, v.low, v.high).Milliseconds(),
	}}
	switch v.run.Status {
	case history.StatusCompleted, history.StatusFailed:
		return projectOutcome(v, d)
	case history.StatusCanceled:
		d.Status = Cancelled
		if d.StatusMessage == "" {
			d.StatusMessage = "The task was cancelled."
		}
		return d, nil
	}
	d.Status = Working
	asked, err := v.inputRequests()
	switch {
	case err != nil:
		return d, err
	case len(asked) > 0:
		d.Status, d.InputRequests = InputRequired, asked
	default:
		if m := v.standing(); m != "" {
			d.StatusMessage = m
		}
	}
	return d, nil
}

func projectOutcome(v *view, d DetailedTask) (DetailedTask, error) {
	if e := protocolFailure(v.failure()); e != nil {
		d.Status, d.StatusMessage, d.Error = Failed, e.Message, e
		return d, nil
	}
	result, err := v.toolResult(resultShape{resultType: true})
	if err != nil {
		return d, err
	}
	d.Status, d.Result = Completed, result
	return d, nil
}

// failure is why the run failed; nil where it did not.
func (v *view) failure() *history.Failure {
	if v.run.Status != history.StatusFailed {
		return nil
	}
	if v.outcome != nil && v.outcome.Failure != nil {
		return v.outcome.Failure
	}
	if v.run.Failure != nil {
		return v.run.Failure
	}
	return &history.Failure{Kind: history.FailureApplication, Message: "the work failed"}
}

// inputRequests renders the questions that are for the run's client. A cancelling run asks nothing any more.
func (v *view) inputRequests() (map[string]InputRequest, error) {
	if !v.run.CancelRequested.IsZero() {
		return nil, nil
	}
	var out map[string]InputRequest
	for i := range v.questions {
		if !acceptedBy(v.run.Accepts, &v.questions[i]) {
			continue
		}
		r, err := inputRequest(&v.questions[i])
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = map[string]InputRequest{}
		}
		out[v.questions[i].Key] = r
	}
	return out, nil
}

// standing says why a live run does not move, where that is so. It says it for clients: the run's own Reason is for
// operators.
func (v *view) standing() string {
	switch {
	case !v.run.CancelRequested.IsZero():
		return "The task is being cancelled."
	case v.run.Status == history.StatusPaused:
		return "The task is paused by an operator."
	case v.run.Status == history.StatusBlocked:
		return "The task is blocked until an operator has looked at it."
	case v.run.Questions > 0:
		return "The task waits for an answer from an operator."
	case v.run.Status == history.StatusReady && v.run.Reason != "":
		return "The task waits for a worker."
	}
	return ""
}

// protocolFailure returns the error of a run that is failed for the protocol, or nil where the failure is a result
// of the tool: an error that the workflow returned. A failure that came through a step is one of those, except where
// the author made it a protocol error. The texts are safe: they say nothing that the author did not write for clients.
func protocolFailure(f *history.Failure) *jsonrpc.Error {
	if f == nil {
		return nil
	}
	for p := f; p != nil; p = p.Cause {
		if p.Kind == history.FailureProtocol {
			e := &jsonrpc.Error{Code: p.Code, Message: p.Message}
			if json.Valid(p.Data) { // other data would make the whole answer unreadable
				e.Data = p.Data
			}
			return e
		}
	}
	if f.Step != "" {
		return nil
	}
	text := ""
	switch f.Kind {
	case history.FailurePanic, history.FailureMisuse:
		text = "the work stopped because of a defect in its code"
	case history.FailureDeadline:
		text = "the work did not end within its deadline"
	case history.FailureTooLong:
		text = "the work took more steps than its history can hold"
	case history.FailureTooLarge:
		text = "the work's result is too large"
	case history.FailureEncoding:
		text = "the work's result could not be encoded"
	case history.FailureTerminated:
		text = "the work was terminated by an operator"
	default:
		return nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: text}
}

// load reads a run and what belongs to it, consistently: nothing has changed between the first read and the last.
func (s *Server) load(ctx context.Context, id history.RunID) (*view, error) {
	run, err := s.engine.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.view(ctx, run)
}

func (s *Server) view(ctx context.Context, run history.Run) (*view, error) {
	const attempts = 16
	for range attempts {
		v := &view{run: run, now: s.engine.Now(), route: s.routes.of(&run), low: s.opts.MinPoll, high: s.opts.MaxPoll}
		if err := s.readDetails(ctx, v); err != nil {
			return nil, err
		}
		again, err := s.engine.Run(ctx, run.ID)
		if err != nil {
			return nil, err
		}
		if sameReading(&run, &again) {
			return v, nil
		}
		run = again
	}
	return nil, fmt.Errorf("run %s changed during each of %d readings", run.ID, attempts)
}

func (s *Server) readDetails(ctx context.Context, v *view) error {
	if v.run.Status.Terminal() {
		e, err := s.engine.Outcome(ctx, v.run.ID)
		if err != nil && !errors.Is(err, history.ErrNotFound) {
			return err
		}
		if err == nil {
			v.outcome = &e
		}
		return nil
	}
	if v.run.Questions == 0 {
		return nil
	}
	var err error
	v.questions, err = s.engine.Interrupts(ctx, v.run.ID)
	return err
}

// sameReading reports whether nothing that a projection shows changed between two readings.
func sameReading(a, b *history.Run) bool {
	return a.Seq == b.Seq && a.InboxHead == b.InboxHead && a.Status == b.Status && a.Questions == b.Questions
}

// changed reports whether d says something that before did not: the polling interval and the extension of the handle
// are not news.
func (d *DetailedTask) changed(before *DetailedTask) bool {
	if d.Status != before.Status || d.StatusMessage != before.StatusMessage || len(d.InputRequests) != len(before.InputRequests) ||
		!bytes.Equal(d.Result, before.Result) {
		return true
	}
	for key := range d.InputRequests { // the body under a key never changes
		if _, ok := before.InputRequests[key]; !ok {
			return true
		}
	}
	return false
}
