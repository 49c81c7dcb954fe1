package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// Engine is what the handler needs of the engine.
type Engine interface {
	Find(ctx context.Context, tenant, idOrKey string) (history.Run, error)
	RunByTask(ctx context.Context, taskID string) (history.Run, error)
	List(ctx context.Context, f engine.Filter) (engine.Page, error)
	History(ctx context.Context, id history.RunID, from uint64) iter.Seq2[history.Event, error]
	Interrupts(ctx context.Context, id history.RunID) ([]history.Interrupt, error)
	Timers(ctx context.Context, id history.RunID) ([]history.Timer, error)
	Unreceived(ctx context.Context, id history.RunID) ([]history.InboxItem, error)
	DeadLetters(ctx context.Context, id history.RunID) ([]history.InboxItem, error)
	Follow(ctx context.Context, id history.RunID) iter.Seq2[history.Run, error]
	HasCode(run *history.Run) bool
	Signal(ctx context.Context, id history.RunID, s engine.SignalRequest) (engine.Delivery, error)
	Answer(ctx context.Context, id history.RunID, key string, a workflow.Answer, by string) error
	Cancel(ctx context.Context, id history.RunID, by, reason string) (history.Run, error)
	Terminate(ctx context.Context, id history.RunID, by, reason string) (history.Run, error)
	Verify(ctx context.Context, fn func(engine.Violation)) error
	Operations
}

// Tools is what the handler needs of the tool file.
type Tools interface {
	// CheckInput holds arguments against the schema of a tool that is offered.
	CheckInput(tool string, input []byte) error
	// Concurrency is the concurrency key of a run with these arguments, and its limit; "" and 0 where there is no bound.
	Concurrency(tool string, input []byte) (key string, limit int, err error)
	// Retention is how long a run of the tool that has no client is kept after its end; 0 where the policy decides.
	Retention(tool string) (time.Duration, error)
	// Record makes what is recorded of a step from its result in the terms of the tool file.
	Record(code history.WorkflowKey, step history.Position, result json.RawMessage) (json.RawMessage, error)
}

// Handler serves the API. Its fields are set before it serves; the functions are called concurrently.
type Handler struct {
	Engine    Engine
	Tools     Tools
	Schedules Schedules
	Retention Retention
	Store     Store
	// PolicyFile is where the retention's policy comes from, Exports the file that it exports to; "" where there is none.
	PolicyFile, Exports string
	// Server describes the server.
	Server func() Server
	// Reload loads the tools anew; its error says why the old ones were kept.
	Reload func(ctx context.Context) error
	// Stop begins the end of the server and returns at once.
	Stop func()
	// Hidden says which workflows are the server's own: they are listed only where they are asked for.
	Hidden func(workflow string) bool
	Log    *slog.Logger
}

// byHeader carries who uses a command, for the history.
const byHeader = "Perdure-By"

// maxBody bounds a request's body: the engine's bound on a payload, and room for what is around it.
const maxBody = 4 << 20

// Routes registers the API.
func (h *Handler) Routes(mux *http.ServeMux) {
	handle := func(pattern string, fn func(r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			v, err := fn(r)
			if err != nil {
				h.refuse(w, r, err)
				return
			}
			h.write(w, http.StatusOK, v)
		})
	}
	handle("GET /v1/server", func(*http.Request) (any, error) { return h.Server(), nil })
	handle("GET /v1/runs", h.runs)
	handle("GET /v1/runs/{id}", h.run)
	handle("GET /v1/questions", h.questions)
	handle("POST /v1/runs/{id}/signals", h.signal)
	handle("POST /v1/runs/{id}/answers/{key}", h.answer)
	handle("POST /v1/runs/{id}/cancel", func(r *http.Request) (any, error) { return h.end(r, h.Engine.Cancel) })
	handle("POST /v1/runs/{id}/terminate", func(r *http.Request) (any, error) { return h.end(r, h.Engine.Terminate) })
	handle("POST /v1/verify", h.verify)
	handle("POST /v1/reload", func(r *http.Request) (any, error) {
		if err := h.Reload(r.Context()); err != nil {
			return nil, err
		}
		return h.Server(), nil
	})
	handle("POST /v1/stop", func(*http.Request) (any, error) {
		h.Stop()
		return h.Server(), nil
	})
	h.operations(handle)
	h.schedules(handle)
	h.upkeep(handle)
	mux.HandleFunc("GET /v1/backup", h.backup)
	mux.HandleFunc("GET /v1/runs/{id}/follow", h.follow)
}

func (h *Handler) write(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		h.Log.Error("answer of the local socket does not encode", "error", err)
		status, b = http.StatusInternalServerError, []byte(`{"error":"internal error","code":1}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client is gone
}

// refuse answers with an error. The caller is the folder's owner: nothing is hidden.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var unfit *workflow.AnswerError
	if errors.As(err, &unfit) {
		err = exit.New(exit.Usage, "", "%w", unfit)
	}
	code, hint := exit.Of(err)
	status := http.StatusInternalServerError
	switch code {
	case exit.NotFound:
		status = http.StatusNotFound
	case exit.Usage:
		status = http.StatusBadRequest
	case exit.Conflict:
		status = http.StatusConflict
	default:
		h.Log.ErrorContext(r.Context(), "request on the local socket failed", "path", r.URL.Path, "error", err)
	}
	text := err.Error()
	if status != http.StatusInternalServerError { // nothing is wrong with the store
		text = h.withoutStore(text)
	}
	h.write(w, status, Problem{Error: text, Hint: hint, Code: int(code)})
}

// withoutStore leaves out which operation of which file refused a request: "store PATH: deliver: ".
func (h *Handler) withoutStore(text string) string {
	before, after, found := strings.Cut(text, "store "+state.Dir{Path: h.Server().State}.Database()+": ")
	if !found {
		return text
	}
	if op, rest, ok := strings.Cut(after, ": "); ok && !strings.ContainsAny(op, "\"'0123456789") {
		after = rest
	}
	return before + after
}

// localKey is the key of the run of a call that came over the local socket with an idempotency key, as in perdure call
// --key: package mcptasks puts the caller before it, and here that has no name.
func localKey(key string) string { return "mcp//" + url.PathEscape(key) }

// find finds the run that the path names.
func (h *Handler) find(r *http.Request) (history.Run, error) { return h.lookUp(r, r.PathValue("id")) }

// lookUp finds a run by its id, its key, its task's id, or the key of the call that started it.
func (h *Handler) lookUp(r *http.Request, id string) (history.Run, error) {
	run, err := h.Engine.Find(r.Context(), r.URL.Query().Get("tenant"), id)
	if errors.Is(err, history.ErrNotFound) {
		if byTask, terr := h.Engine.RunByTask(r.Context(), id); terr == nil {
			return byTask, nil
		}
		if byCall, cerr := h.Engine.Find(r.Context(), r.URL.Query().Get("tenant"), localKey(id)); cerr == nil {
			return byCall, nil
		}
		return run, exit.New(exit.NotFound, "list them with: perdure runs", "no run has the id, key or task id %q", id)
	}
	return run, err
}

func (h *Handler) project(r *history.Run) Run { return runOf(r, h.Engine.HasCode(r)) }

func (h *Handler) runs(r *http.Request) (any, error) {
	f, err := filterOf(r)
	if err != nil {
		return nil, err
	}
	all := r.URL.Query().Get("all") == "true" || f.Workflow != ""
	limit, out := f.Limit, RunPage{Runs: []Run{}}
	for {
		f.Limit = limit - len(out.Runs)
		page, err := h.Engine.List(r.Context(), f)
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			if all || !h.Hidden(page.Runs[i].Workflow) {
				out.Runs = append(out.Runs, h.project(&page.Runs[i]))
			}
		}
		out.Next, f.After = page.Next, page.Next
		if out.Next == "" || len(out.Runs) >= limit {
			return out, nil
		}
	}
}

func filterOf(r *http.Request) (engine.Filter, error) {
	q := r.URL.Query()
	f := engine.Filter{Workflow: q.Get("workflow"), Questions: q.Get("questions") == "true", After: q.Get("after"), Limit: 50}
	for _, text := range q["status"] {
		if text == "cancelled" { // as MCP spells it
			text = history.StatusCanceled.String()
		}
		var s history.Status
		if err := s.UnmarshalText([]byte(text)); err != nil {
			return f, exit.New(exit.Usage, "", "%w", err)
		}
		f.Statuses = append(f.Statuses, s)
	}
	for _, tag := range q["tag"] {
		k, v, ok := strings.Cut(tag, "=")
		if !ok {
			return f, exit.New(exit.Usage, "", "tag %q: want NAME=VALUE", tag)
		}
		if f.Tags == nil {
			f.Tags = map[string]string{}
		}
		f.Tags[k] = v
	}
	for name, at := range map[string]*history.Time{"createdFrom": &f.CreatedFrom, "createdBefore": &f.CreatedBefore} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339, text)
		if err != nil || t.Year() < 1970 || t.Year() > 2200 {
			return f, exit.New(exit.Usage, "", "%s %q: want a time of RFC 3339, of the years 1970 to 2200", name, text)
		}
		*at = history.TimeOf(t)
	}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			return f, exit.New(exit.Usage, "", "limit %q: want a number from 1 to 1000", text)
		}
		f.Limit = n
	}
	return f, nil
}

func (h *Handler) run(r *http.Request) (any, error) {
	run, err := h.find(r)
	if err != nil {
		return nil, err
	}
	ctx := r.Context()
	d := Detail{Run: h.project(&run), Timeline: []Event{}}
	for e, err := range h.Engine.History(ctx, run.ID, 1) {
		if err != nil {
			return nil, err
		}
		d.Timeline = append(d.Timeline, eventOf(&e))
		switch e.Kind {
		case history.RunStarted:
			d.Input = rawJSON(e.Payload)
		case history.RunCompleted:
			d.Result = rawJSON(e.Payload)
		}
	}
	open, err := h.Engine.Interrupts(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	for i := range open {
		d.Open = append(d.Open, questionOf(&run, &open[i]))
	}
	timers, err := h.Engine.Timers(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	for _, t := range timers {
		d.Timers = append(d.Timers, Timer{At: t.At.Std(), Position: t.Position})
	}
	waiting, err := h.Engine.Unreceived(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	for i := range waiting {
		d.Unreceived = append(d.Unreceived, signalOf(&waiting[i]))
	}
	dead, err := h.Engine.DeadLetters(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	for i := range dead {
		d.DeadLetters = append(d.DeadLetters, signalOf(&dead[i]))
	}
	return d, nil
}

func (h *Handler) questions(r *http.Request) (any, error) {
	out := []Question{}
	f := engine.Filter{Questions: true, Limit: 1000}
	for {
		page, err := h.Engine.List(r.Context(), f)
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			open, err := h.Engine.Interrupts(r.Context(), page.Runs[i].ID)
			if err != nil {
				return nil, err
			}
			for j := range open {
				out = append(out, questionOf(&page.Runs[i], &open[j]))
			}
		}
		if f.After = page.Next; f.After == "" {
			return out, nil
		}
	}
}

func decode(r *http.Request, v any) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return exit.New(exit.Usage, "", "the request's body: %w", err)
	}
	return nil
}

func by(r *http.Request) string {
	return operator(r.Header.Get(byHeader))
}

func operator(name string) string {
	if name == "" {
		return "operator"
	}
	return "operator " + name
}

// Operator is who runs this process, as it stands on record.
func Operator() string { return operator(username()) }

func (h *Handler) signal(r *http.Request) (any, error) {
	var req SignalRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	run, err := h.find(r)
	if err != nil {
		return nil, err
	}
	d, err := h.Engine.Signal(r.Context(), run.ID, engine.SignalRequest{Name: req.Name, ID: req.ID, Payload: req.Payload, By: by(r)})
	if err != nil {
		return nil, err
	}
	out := SignalResult{Run: run.ID.String(), Delivery: d.String()}
	if out.Awaits, err = h.awaits(r.Context(), &run); err != nil {
		h.Log.WarnContext(r.Context(), "a signal was delivered; what its run waits for cannot be read", "run", run.ID, "error", err)
	}
	return out, nil
}

// maxLooked bounds the history that is read to say what a run waits for: it is a courtesy, and signals can be many.
const maxLooked = 1000

// awaits lists the signals that a run waits for; nil also where its history is long.
func (h *Handler) awaits(ctx context.Context, run *history.Run) ([]string, error) {
	if run.Seq-run.GenerationSeq > maxLooked {
		return nil, nil
	}
	open := map[history.Position][]string{}
	var order []history.Position
	for e, err := range h.Engine.History(ctx, run.ID, run.GenerationSeq) {
		switch {
		case err != nil:
			return nil, err
		case e.Kind == history.RunContinued:
			clear(open)
		case e.Kind == history.ReceiveOpened:
			open[e.Position] = e.Names
			order = append(order, e.Position)
		case e.Kind.Terminal():
			return nil, nil
		case e.Kind.Closes():
			delete(open, e.Position)
		}
	}
	var names []string
	for _, at := range order {
		for _, name := range open[at] {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

func (h *Handler) answer(r *http.Request) (any, error) {
	var req AnswerRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	run, err := h.find(r)
	if err != nil {
		return nil, err
	}
	if err := h.Engine.Answer(r.Context(), run.ID, r.PathValue("key"), answerOf(req), by(r)); err != nil {
		if errors.Is(err, history.ErrNotFound) {
			return nil, exit.New(exit.NotFound, "list the open ones with: perdure questions", "run %s has no question %q", run.ID, r.PathValue("key"))
		}
		return nil, err
	}
	return h.project(&run), nil
}

func (h *Handler) end(r *http.Request, fn func(ctx context.Context, id history.RunID, by, reason string) (history.Run, error)) (any, error) {
	var req EndRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	run, err := h.find(r)
	if err != nil {
		return nil, err
	}
	if run, err = fn(r.Context(), run.ID, by(r), req.Reason); err != nil {
		return nil, err
	}
	return h.project(&run), nil
}

func (h *Handler) verify(r *http.Request) (any, error) {
	return Verify(r.Context(), h.Engine.Verify)
}

// Verify collects what a checker finds.
func Verify(ctx context.Context, check func(ctx context.Context, fn func(engine.Violation)) error) (Report, error) {
	out := Report{Violations: []Violation{}}
	err := check(ctx, func(v engine.Violation) {
		w := Violation{Rule: v.Rule, Detail: v.Detail}
		if v.Run != (history.RunID{}) {
			w.Run = v.Run.String()
		}
		out.Violations = append(out.Violations, w)
	})
	if err != nil {
		return out, fmt.Errorf("verify: %w", err)
	}
	return out, nil
}

// follow streams the run after each change, until it is over or the client leaves.
func (h *Handler) follow(w http.ResponseWriter, r *http.Request) {
	run, err := h.find(r)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	enc, flush := json.NewEncoder(w), http.NewResponseController(w)
	for run, err := range h.Engine.Follow(r.Context(), run.ID) {
		if err != nil {
			return // the client is gone, or the server ends: the stream just stops
		}
		if enc.Encode(h.project(&run)) != nil || flush.Flush() != nil {
			return
		}
	}
}
