package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
)

// progressEvery is how often a waiting client hears that the work goes on, where it asked for progress: many clients
// count their timeout from the last progress notification.
const progressEvery = 5 * time.Second

// waiting is a call that waits for its run, on behalf of a client that does not declare tasks.
type waiting struct {
	*call
	server *Server
	route  *boundRoute
	req    *mcp.CallToolRequest
	args   json.RawMessage
	run    history.Run

	progress int             // counts progress notifications
	told     string          // the status message last told
	asked    map[string]bool // the questions that were put to an older client
	asking   sync.WaitGroup  // those that are with it now
}

// answerWithin waits for the run's result, for a bounded time. The outcome is one of
//   - the tool's result, or its protocol error;
//   - questions for the client (2026-07-28): it answers them in a repeated call, which goes on with the same run;
//   - where the run asks what only the helper tools can answer, an ordinary result that names the task, at once;
//   - once the time is over, an ordinary result that names the task.
//
// Questions for a client of an older revision are asked while the call waits.
func (s *Server) answerWithin(ctx context.Context, c *call, route *boundRoute, req *mcp.CallToolRequest, run history.Run, args json.RawMessage) (*mcp.CallToolResult, error) {
	if !s.inflight.begin() {
		return s.handleResult(&run, route, "The server is shutting down; the work goes on."), nil
	}
	defer s.inflight.end()
	w := &waiting{call: c, server: s, route: route, req: req, args: args, run: run}
	wctx, cancel := s.sessions.bind(ctx, c.session)
	res, err := w.wait(wctx)
	cancel()
	w.asking.Wait()
	if wctx.Err() != nil && errors.Is(err, context.Canceled) && route.CancelWithRequest && !w.run.Status.Terminal() {
		if _, cerr := s.engine.Cancel(context.WithoutCancel(ctx), run.ID, c.caller.Principal, "the client went away"); cerr != nil {
			s.opts.Logger.ErrorContext(ctx, "run of a cancelled request could not be cancelled", "error", cerr)
		}
	}
	if err != nil && !errors.Is(err, errTaken) {
		err = s.protocolError(ctx, methodCallTool, err)
	}
	return res, err
}

func (w *waiting) wait(ctx context.Context) (*mcp.CallToolResult, error) {
	s := w.server
	changed, stop := s.engine.Watch(w.run.ID)
	defer stop()
	bound := time.NewTimer(w.route.SyncWait)
	defer bound.Stop()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		v, err := s.load(ctx, w.run.ID)
		if err != nil {
			return nil, err
		}
		w.run = v.run
		if v.run.Status.Terminal() {
			return w.outcome(v)
		}
		if res, err := w.ask(ctx, v); res != nil || err != nil {
			return res, err
		}
		w.report(ctx, false)
		select {
		case <-changed:
		case <-tick.C:
			w.report(ctx, true)
		case <-bound.C:
			return s.handleResult(&w.run, w.route, "The work is not finished yet and goes on."), nil
		case <-s.inflight.drain:
			return s.handleResult(&w.run, w.route, "The server is shutting down; the work goes on."), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// outcome is the result of a run that is over.
func (w *waiting) outcome(v *view) (*mcp.CallToolResult, error) {
	if v.run.Status == history.StatusCanceled {
		return errorResult("The work was cancelled."), nil
	}
	d, err := w.server.project(v)
	if err != nil {
		return nil, err
	}
	if d.Error != nil {
		return nil, d.Error
	}
	if w.generation != generation2026 {
		if d.Result, err = v.toolResult(resultShape{objectsOnly: true}); err != nil {
			return nil, err
		}
	}
	w.result = &rawResult{object: d.Result}
	return nil, errTaken
}

// ask puts the run's open questions to the client. It returns a result where the client answers by calling again.
func (w *waiting) ask(ctx context.Context, v *view) (*mcp.CallToolResult, error) {
	if !v.run.CancelRequested.IsZero() {
		return nil, nil
	}
	var open []history.Interrupt
	byHelpers := false
	for i := range v.questions {
		q := &v.questions[i]
		switch {
		case acceptedBy(w.accepts, q): // what this request can answer, not what the first one could
			open = append(open, *q)
		case acceptedBy(v.run.Accepts, q) && !w.server.opts.NoHelperTools && !w.server.needsPerson(w.route, q):
			byHelpers = true
		}
	}
	if len(open) == 0 {
		if byHelpers {
			return w.server.askingResult(&w.run, w.route), nil
		}
		return nil, nil
	}
	if w.generation == generation2026 {
		return w.server.inputRequired(ctx, w, open)
	}
	w.askSession(ctx, open)
	return nil, nil
}

// report sends a progress notification, where the client asked for them: when the status message changes, and to
// show that the server is alive.
func (w *waiting) report(ctx context.Context, alive bool) {
	token := w.req.Params.GetProgressToken()
	if token == nil || w.session == nil || !alive && w.run.Message == w.told {
		return
	}
	w.told = w.run.Message
	w.progress++
	err := w.session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: token, Progress: float64(w.progress), Message: w.run.Message,
	})
	if err != nil {
		w.server.opts.Logger.DebugContext(ctx, "progress notification was not sent", "error", err)
	}
}

// askingResult is the ordinary result for a client that cannot be asked: the helper tools show the questions and answer them.
func (s *Server) askingResult(run *history.Run, route *boundRoute) *mcp.CallToolResult {
	r := s.handleResult(run, route, "The work asks something and waits: "+toolTaskStatus+" shows the questions, "+toolTaskRespond+" answers them.")
	r.Meta[TaskMetaKey].(map[string]any)["status"] = string(InputRequired) // structured content has the same map
	return r
}

// handleResult is the ordinary result that names work which goes on.
func (s *Server) handleResult(run *history.Run, route *boundRoute, message string) *mcp.CallToolResult {
	text := message + " Its task id is " + run.TaskID + "."
	if run.Message != "" {
		text += " Last reported: " + run.Message
	}
	if s.opts.NoHelperTools {
		text += " Do not start it again."
	} else {
		text += " Use the tool " + toolTaskStatus + " with this task id to see how it stands and to get its result; do not start it again."
	}
	r := textResult(text)
	task := map[string]any{"taskId": run.TaskID, "status": string(Working)}
	r.Meta = mcp.Meta{TaskMetaKey: task}
	if route.Tool.OutputSchema == nil { // else structured content would have to fit it
		r.StructuredContent = task
	}
	return r
}

// errNoTaskSupport and errTaskRequired are revision 2025-11-25's answers to a task where none can be, and none where
// there must be one.
func errNoTaskSupport() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the tool does not support task augmentation"}
}

func errTaskRequired() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "the tool requires task augmentation"}
}
