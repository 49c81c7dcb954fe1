package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
)

// relatedTask is the _meta key under which revision 2025-11-25 ties a message to its task.
const relatedTask = "io.modelcontextprotocol/related-task"

func relatedMeta(taskID string) mcp.Meta {
	return mcp.Meta{relatedTask: map[string]any{"taskId": taskID}}
}

// advertise2025 adds capabilities.tasks, which the SDK's type does not have.
func (s *Server) advertise2025(r *mcp.InitializeResult) (mcp.Result, error) {
	caps, err := asObject(r.Capabilities)
	if err != nil {
		return nil, err
	}
	tasks := map[string]any{
		"cancel":   struct{}{},
		"requests": map[string]any{"tools": map[string]any{"call": struct{}{}}},
	}
	if s.lister() != nil {
		tasks["list"] = struct{}{}
	}
	caps["tasks"] = tasks
	return withMember(r, "capabilities", caps)
}

// listTools2025 adds execution.taskSupport, which the SDK's type does not have.
func (s *Server) listTools2025(r *mcp.ListToolsResult) (mcp.Result, error) {
	set := s.routes.load()
	tools := make([]any, len(r.Tools))
	for i, t := range r.Tools {
		tools[i] = t
		route := set.newest[t.Name]
		if route == nil {
			continue
		}
		o, err := asObject(t)
		if err != nil {
			return nil, err
		}
		o["execution"] = map[string]any{"taskSupport": route.Support}
		tools[i] = o
	}
	return withMember(r, "tools", tools)
}

func asObject(v any) (map[string]any, error) {
	o := map[string]any{}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	if string(b) == "null" {
		return o, nil
	}
	return o, json.Unmarshal(b, &o)
}

// withMember is the result with one member replaced.
func withMember(res mcp.Result, name string, value any) (mcp.Result, error) {
	o, err := asObject(res)
	if err != nil {
		return nil, err
	}
	o[name] = value
	b, err := json.Marshal(o)
	return &rawResult{object: b}, err
}

// created2025 is revision 2025-11-25's answer of a call that became a task.
func created2025(t task2025) (mcp.Result, error) {
	b, err := json.Marshal(map[string]any{"task": t})
	return &rawResult{object: b}, err
}

func errTerminal2025(run *history.Run) error {
	return invalidParams("the task is over: it is %s", run.Status)
}

// taskResult2025 serves tasks/result: it waits for the end of the task, and asks its questions on the way.
func (s *Server) taskResult2025(ctx context.Context, session *mcp.ServerSession, p *taskParams) (*rawResult, error) {
	r := requestFrom(ctx)
	if !s.inflight.begin() {
		return nil, internalError("the server is shutting down")
	}
	defer s.inflight.end()
	v, err := s.taskView(ctx, r, p)
	if err != nil {
		return nil, s.protocolError(ctx, methodResult, err)
	}
	res, err := s.await2025(ctx, session, r, v)
	if err != nil {
		return nil, s.protocolError(ctx, methodResult, err)
	}
	return withRelatedTask(res, v.run.TaskID)
}

func (s *Server) await2025(ctx context.Context, session *mcp.ServerSession, r *request, v *view) (json.RawMessage, error) {
	changed, stop := s.engine.Watch(v.run.ID)
	defer stop()
	defer s.sessions.enterResult(v.run.TaskID)()
	w := &waiting{call: &call{request: r}, server: s, run: v.run}
	ctx, cancel := s.sessions.bind(ctx, session)
	defer w.asking.Wait()
	defer cancel()
	for {
		v, err := s.load(ctx, v.run.ID)
		if err != nil {
			return nil, err
		}
		w.run = v.run
		if status2025(v).Terminal() {
			return result2025(v)
		}
		s.askRelated(ctx, w, session, v)
		select {
		case <-changed:
		case <-s.inflight.drain:
			return nil, internalError("the server is shutting down; ask again")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *Server) askRelated(ctx context.Context, w *waiting, session *mcp.ServerSession, v *view) {
	for i := range v.questions {
		in := v.questions[i]
		if w.asked[in.Key] || !acceptedBy(w.accepts, &in) {
			continue
		}
		if w.asked == nil {
			w.asked = map[string]bool{}
		}
		w.asked[in.Key] = true
		w.asking.Go(func() {
			s.askAndAnswer(ctx, session, w.request, v.run, in, relatedMeta(v.run.TaskID))
		})
	}
}

func withRelatedTask(object json.RawMessage, taskID string) (*rawResult, error) {
	r := &rawResult{object: object}
	r.Meta = relatedMeta(taskID)
	return r, nil
}

type listParams2025 struct {
	mcp.ParamsBase
	Cursor string `json:"cursor,omitempty"`
}

// listTasks2025 serves tasks/list, for the caller's own tasks.
func (s *Server) listTasks2025(ctx context.Context, _ *mcp.ServerSession, p *listParams2025) (*rawResult, error) {
	const page = 50
	r := requestFrom(ctx)
	cursor := ""
	if p != nil {
		cursor = p.Cursor
	}
	runs, next, err := s.lister().RunsOf(ctx, r.caller.Tenant, r.caller.Principal, cursor, page)
	if errors.Is(err, history.ErrInvalid) {
		return nil, invalidParams("cursor: not one that a page came with")
	}
	if err != nil {
		return nil, s.protocolError(ctx, methodList, err)
	}
	tasks := []task2025{}
	for i := range runs {
		if !owns(r.caller, &runs[i]) {
			continue
		}
		v, err := s.view(ctx, runs[i])
		if err != nil {
			return nil, s.protocolError(ctx, methodList, err)
		}
		tasks = append(tasks, project2025(v))
	}
	out := map[string]any{"tasks": tasks}
	if next != "" {
		out["nextCursor"] = next
	}
	return s.encode(out)
}

// forgetClosed drops what a session counted of questions that it cannot be asked any more.
func (s *Server) forgetClosed(session *mcp.ServerSession, v *view) {
	open := v.questions
	if status2025(v) != InputRequired {
		open = nil
	}
	s.sessions.forget(session, v.run.TaskID, open)
}

// elicitOnPoll2025 asks the questions that a polling client has seen twice, on the session's own stream.
func (s *Server) elicitOnPoll2025(session *mcp.ServerSession, r *request, v *view) {
	s.forgetClosed(session, v)
	if status2025(v) != InputRequired {
		return
	}
	for i := range v.questions {
		in := v.questions[i]
		if !acceptedBy(r.accepts, &in) || !s.sessions.due(session, v.run.TaskID, in.Key) {
			continue
		}
		// A fresh context: one that stems from the request would send the question on the request's stream.
		ctx, cancel := s.sessions.bind(context.Background(), session)
		s.sessions.asking.Go(func() {
			defer cancel()
			if !s.askAndAnswer(ctx, session, r, v.run, in, relatedMeta(v.run.TaskID)) {
				s.sessions.lost(session, v.run.TaskID, in.Key)
			}
		})
	}
}
