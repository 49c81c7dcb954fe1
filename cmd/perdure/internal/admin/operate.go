package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Operations are what operators do to runs.
type Operations interface {
	Pause(ctx context.Context, id history.RunID, by, reason string) (history.Run, error)
	Resume(ctx context.Context, id history.RunID, by, reason string) (history.Run, error)
	Retry(ctx context.Context, id history.RunID, opts engine.RetryOptions) (history.Run, bool, error)
	Fork(ctx context.Context, id history.RunID, opts engine.ForkOptions) (history.Run, bool, error)
	Redeliver(ctx context.Context, from history.RunID, seq uint64, to history.RunID, by string) (engine.Delivery, error)
	Decide(ctx context.Context, id history.RunID, step history.Position, decision string, result json.RawMessage, by, reason string) error
	Export(ctx context.Context, id history.RunID) (history.Export, error)
	ErasePayloads(ctx context.Context, id history.RunID, by, reason string) (int, error)
	BulkCancel(ctx context.Context, req engine.BulkRequest) (engine.BulkPage, error)
	BulkRetry(ctx context.Context, req engine.BulkRequest) (engine.BulkPage, error)
}

// RetryRequest retries a run. See engine.RetryOptions.
type RetryRequest struct {
	Reason       string `json:"reason,omitempty"`
	Version      int    `json:"version,omitempty"`
	AfterCleanUp bool   `json:"afterCleanUp,omitempty"`
}

// ForkRequest forks a run. See engine.ForkOptions. Results of steps of a tool file are in the terms of that: value, stdout
// and so on; others are what the history has.
type ForkRequest struct {
	At          uint64                               `json:"at,omitempty"`
	Results     map[history.Position]json.RawMessage `json:"results,omitempty"`
	KeepKeys    bool                                 `json:"keepKeys,omitempty"`
	KeepSignals bool                                 `json:"keepSignals,omitempty"`
	Key         string                               `json:"key,omitempty"`
	Version     int                                  `json:"version,omitempty"`
	Reason      string                               `json:"reason,omitempty"`
}

// Successor is the run that a retry or a fork started, or found.
type Successor struct {
	Run
	Existed bool `json:"existed,omitempty"`
}

// RedeliverRequest sends dead letter Seq on to another run.
type RedeliverRequest struct {
	Seq uint64 `json:"seq"`
	To  string `json:"to"`
}

// DecideRequest settles an at-most-once step: Decision is retry, complete (with Result) or fail.
type DecideRequest struct {
	Step     history.Position `json:"step"`
	Decision string           `json:"decision"`
	Result   json.RawMessage  `json:"result,omitempty"`
	Reason   string           `json:"reason,omitempty"`
}

// BulkRequest acts on the runs that the request's query selects. Verb is cancel or retry.
type BulkRequest struct {
	Verb         string `json:"verb"`
	DryRun       bool   `json:"dryRun,omitempty"`
	Reason       string `json:"reason,omitempty"`
	AfterCleanUp bool   `json:"afterCleanUp,omitempty"`
}

// BulkPage is what became of a page of runs.
type BulkPage struct {
	Runs []BulkOutcome `json:"runs"`
	Next string        `json:"next,omitempty"`
}

// BulkOutcome is what became of a run, or would.
type BulkOutcome struct {
	Run
	New     string `json:"new,omitempty"`
	Existed bool   `json:"existed,omitempty"`
	Error   string `json:"error,omitempty"`
}

func (h *Handler) operations(handle func(pattern string, fn func(r *http.Request) (any, error))) {
	handle("POST /v1/runs/{id}/pause", func(r *http.Request) (any, error) { return h.end(r, h.Engine.Pause) })
	handle("POST /v1/runs/{id}/resume", func(r *http.Request) (any, error) { return h.end(r, h.Engine.Resume) })
	handle("POST /v1/runs/{id}/retry", h.retry)
	handle("POST /v1/runs/{id}/fork", h.fork)
	handle("POST /v1/runs/{id}/redeliver", h.redeliver)
	handle("POST /v1/runs/{id}/decide", h.decide)
	handle("GET /v1/runs/{id}/export", h.export)
	handle("POST /v1/runs/{id}/erase", h.erase)
	handle("POST /v1/bulk", h.bulk)
}

// target decodes the request's body and finds its run.
func target[T any](h *Handler, r *http.Request) (req T, run history.Run, err error) {
	if err = decode(r, &req); err == nil {
		run, err = h.find(r)
	}
	return req, run, err
}

func (h *Handler) retry(r *http.Request) (any, error) {
	req, run, err := target[RetryRequest](h, r)
	if err != nil {
		return nil, err
	}
	next, existed, err := h.Engine.Retry(r.Context(), run.ID, engine.RetryOptions{
		By: by(r), Reason: req.Reason, Version: req.Version, AfterCleanUp: req.AfterCleanUp,
	})
	if err != nil {
		return nil, retryHint(err)
	}
	return Successor{Run: h.project(&next), Existed: existed}, nil
}

func retryHint(err error) error {
	var clean *engine.CleanUpError
	if errors.As(err, &clean) {
		return exit.New(exit.Usage, "from an earlier event: perdure fork RUN --at SEQUENCE\nall the same: perdure retry RUN --after-clean-up", "%w", err)
	}
	return err
}

func (h *Handler) fork(r *http.Request) (any, error) {
	req, run, err := target[ForkRequest](h, r)
	if err != nil {
		return nil, err
	}
	code := history.WorkflowKey{Name: run.Workflow, Version: run.Version}
	if req.Version != 0 {
		code.Version = req.Version
	}
	for step, result := range req.Results {
		if req.Results[step], err = h.Tools.Record(code, step, result); err != nil {
			return nil, exit.New(exit.Usage, "docs/tool-files.md says what the result of each kind of step holds", "fork: %w", err)
		}
	}
	next, existed, err := h.Engine.Fork(r.Context(), run.ID, engine.ForkOptions{
		At: req.At, Results: req.Results, KeepKeys: req.KeepKeys, KeepSignals: req.KeepSignals, Key: req.Key, Version: req.Version,
		By: by(r), Reason: req.Reason,
	})
	if err != nil {
		return nil, err
	}
	return Successor{Run: h.project(&next), Existed: existed}, nil
}

func (h *Handler) redeliver(r *http.Request) (any, error) {
	req, run, err := target[RedeliverRequest](h, r)
	if err != nil {
		return nil, err
	}
	to, err := h.lookUp(r, req.To)
	if err != nil {
		return nil, err
	}
	d, err := h.Engine.Redeliver(r.Context(), run.ID, req.Seq, to.ID, by(r))
	switch {
	case errors.Is(err, history.ErrTerminal):
		return nil, exit.New(exit.Conflict, "", "run %s is over (%s): it receives nothing", to.ID, to.Status)
	case errors.Is(err, history.ErrNotFound):
		return nil, exit.New(exit.NotFound, "perdure show prints the letters", "run %s has no dead letter %d", run.ID, req.Seq)
	case err != nil:
		return nil, err
	}
	return SignalResult{Run: to.ID.String(), Delivery: d.String()}, nil
}

func (h *Handler) decide(r *http.Request) (any, error) {
	req, run, err := target[DecideRequest](h, r)
	if err != nil {
		return nil, err
	}
	err = h.Engine.Decide(r.Context(), run.ID, req.Step, req.Decision, req.Result, by(r), req.Reason)
	switch {
	case errors.Is(err, history.ErrTerminal):
		return nil, exit.New(exit.Conflict, "", "run %s is over (%s): no step of it waits to be settled", run.ID, run.Status)
	case errors.Is(err, history.ErrNotFound):
		return nil, exit.New(exit.NotFound, "perdure show "+run.ID.String()+" says in its reason which step waits for a decision, if one does", "%w", err)
	case err != nil:
		return nil, err
	}
	return h.project(&run), nil
}

func (h *Handler) export(r *http.Request) (any, error) {
	run, err := h.find(r)
	if err != nil {
		return nil, err
	}
	return h.Engine.Export(r.Context(), run.ID)
}

// Erased is what an erasure came to.
type Erased struct {
	Run      string `json:"run"`
	Payloads int    `json:"payloads"`
}

func (h *Handler) erase(r *http.Request) (any, error) {
	req, run, err := target[EndRequest](h, r)
	if err != nil {
		return nil, err
	}
	n, err := h.Engine.ErasePayloads(r.Context(), run.ID, by(r), req.Reason)
	switch {
	case errors.Is(err, history.ErrHeld):
		return nil, exit.New(exit.Conflict, "perdure retention shows the holds", "run %s is under a legal hold: nothing of it is erased", run.ID)
	case err != nil:
		return nil, err
	}
	return Erased{Run: run.ID.String(), Payloads: n}, nil
}

func (h *Handler) bulk(r *http.Request) (any, error) {
	var req BulkRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	f, err := filterOf(r)
	if err != nil {
		return nil, err
	}
	act := h.Engine.BulkCancel
	switch req.Verb {
	case "cancel":
	case "retry":
		act = h.Engine.BulkRetry
	default:
		return nil, exit.New(exit.Usage, "", "verb %q: want cancel or retry", req.Verb)
	}
	page, err := act(r.Context(), engine.BulkRequest{
		Filter: f, DryRun: req.DryRun, By: by(r), Reason: req.Reason, AfterCleanUp: req.AfterCleanUp,
	})
	if err != nil {
		return nil, err
	}
	out := BulkPage{Runs: []BulkOutcome{}, Next: page.Next}
	for i := range page.Runs {
		o := &page.Runs[i]
		w := BulkOutcome{Run: h.project(&o.Run), Existed: o.Existed}
		if o.New != (ulid.ULID{}) {
			w.New = o.New.String()
		}
		if o.Err != nil {
			w.Error = o.Err.Error()
		}
		out.Runs = append(out.Runs, w)
	}
	return out, nil
}
