package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/engine/schedule"
	"github.com/perdure/perdure/history"
)

// Schedules is what the handler needs of the schedules.
type Schedules interface {
	Create(ctx context.Context, name string, spec schedule.Spec, by string) (history.Run, error)
	Pause(ctx context.Context, name, by string) error
	Resume(ctx context.Context, name, by string) error
	Trigger(ctx context.Context, name, by string) error
	Delete(ctx context.Context, name, by string) error
	List(ctx context.Context) ([]schedule.Entry, error)
	Describe(ctx context.Context, name string) (schedule.Entry, error)
}

// Schedule is a schedule as it stands.
type Schedule struct {
	Name string        `json:"name"`
	Spec schedule.Spec `json:"spec"`
	Run  string        `json:"run"`
	// Status is that of the schedule's run; Message says when the next time is, or that it is paused, and why the last
	// start failed, where it did.
	Status  history.Status `json:"status"`
	Message string         `json:"message,omitempty"`
	// Failure is why the schedule is over, where it failed.
	Failure *history.Failure `json:"failure,omitempty"`
	Created time.Time        `json:"created"`
}

// ScheduleRequest makes a schedule.
type ScheduleRequest struct {
	Spec schedule.Spec `json:"spec"`
}

func scheduleOf(e *schedule.Entry) Schedule {
	return Schedule{
		Name: e.Name, Spec: e.Spec, Run: e.Run.ID.String(), Status: e.Run.Status, Message: e.Run.Message, Failure: e.Run.Failure, Created: e.Run.CreatedAt.Std(),
	}
}

func (h *Handler) schedules(handle func(pattern string, fn func(r *http.Request) (any, error))) {
	handle("GET /v1/schedules", func(r *http.Request) (any, error) {
		entries, err := h.Schedules.List(r.Context())
		out := make([]Schedule, len(entries))
		for i := range entries {
			out[i] = scheduleOf(&entries[i])
		}
		return out, err
	})
	handle("GET /v1/schedules/{name}", h.schedule)
	handle("POST /v1/schedules/{name}", func(r *http.Request) (any, error) {
		var req ScheduleRequest
		if err := decode(r, &req); err != nil {
			return nil, err
		}
		if err := h.Tools.CheckInput(req.Spec.Workflow, req.Spec.Input); err != nil {
			if code, _ := exit.Of(err); code != exit.Failed {
				return nil, err
			}
			return nil, exit.New(exit.Usage, "give the tool's arguments: --input JSON", "tool %s: %w", req.Spec.Workflow, err)
		}
		if req.Spec.ConcurrencyKey == "" {
			var err error
			if req.Spec.ConcurrencyKey, req.Spec.ConcurrencyLimit, err = h.Tools.Concurrency(req.Spec.Workflow, req.Spec.Input); err != nil {
				return nil, exit.New(exit.Usage, "", "tool %s: %w", req.Spec.Workflow, err)
			}
		}
		if req.Spec.Retention == 0 {
			var err error
			if req.Spec.Retention, err = h.Tools.Retention(req.Spec.Workflow); err != nil {
				return nil, err
			}
		}
		if _, err := h.Schedules.Create(r.Context(), r.PathValue("name"), req.Spec, by(r)); err != nil {
			return nil, err
		}
		return h.schedule(r)
	})
	handle("POST /v1/schedules/{name}/{verb}", h.changeSchedule)
}

func (h *Handler) schedule(r *http.Request) (any, error) {
	e, err := h.Schedules.Describe(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, scheduleError(err)
	}
	return scheduleOf(&e), nil
}

func (h *Handler) changeSchedule(r *http.Request) (any, error) {
	var change func(ctx context.Context, name, by string) error
	switch verb := r.PathValue("verb"); verb {
	case "pause":
		change = h.Schedules.Pause
	case "resume":
		change = h.Schedules.Resume
	case "trigger":
		change = h.Schedules.Trigger
	case "delete":
		change = h.Schedules.Delete
	default:
		return nil, exit.New(exit.Usage, "", "verb %q: want pause, resume, trigger or delete", verb)
	}
	if err := change(r.Context(), r.PathValue("name"), by(r)); err != nil {
		return nil, scheduleError(err)
	}
	return h.schedule(r)
}

// scheduleError says where the names are, where one is not known.
func scheduleError(err error) error {
	if errors.Is(err, history.ErrNotFound) {
		return exit.New(exit.NotFound, "list them with: perdure schedule list", "%w", err)
	}
	return err
}
