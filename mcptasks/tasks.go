package mcptasks

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// project shows a run to a client. A panic in a route's Result function is an error like any other.
func (s *Server) project(v *view) (d DetailedTask, err error) {
	defer recoverProjection(v, &err)
	return project(v)
}

func recoverProjection(v *view, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("projection of run %s: panic: %v", v.run.ID, p)
	}
}

// getTask serves tasks/get.
func (s *Server) getTask(ctx context.Context, session *mcp.ServerSession, p *taskParams) (*rawResult, error) {
	r := requestFrom(ctx)
	v, err := s.taskView(ctx, r, p)
	if err != nil {
		return nil, s.protocolError(ctx, methodGet, err)
	}
	if r.generation == generation2025 {
		s.elicitOnPoll2025(session, r, v)
		t := project2025(v)
		s.tellStatus(ctx, r, v, t)
		return s.encode(t)
	}
	d, err := s.project(v)
	if err != nil {
		return nil, s.protocolError(ctx, methodGet, err)
	}
	return s.encode(&getResult{ResultType: resultComplete, DetailedTask: d})
}

// taskView reads the task that the parameters name.
func (s *Server) taskView(ctx context.Context, r *request, p *taskParams) (*view, error) {
	if p == nil {
		return nil, errTaskNotFound()
	}
	run, err := s.taskByID(ctx, r.caller, taskID(p.TaskID))
	if err != nil {
		return nil, err
	}
	return s.view(ctx, run)
}

// updateTask serves tasks/update. What it acknowledges is durable.
func (s *Server) updateTask(ctx context.Context, _ *mcp.ServerSession, p *updateParams) (*rawResult, error) {
	r := requestFrom(ctx)
	if p == nil {
		return nil, errTaskNotFound()
	}
	run, err := s.taskByID(ctx, r.caller, taskID(p.TaskID))
	if err != nil {
		return nil, s.protocolError(ctx, methodUpdate, err)
	}
	var responses map[string]json.RawMessage
	if json.Unmarshal(p.InputResponses, &responses) != nil || responses == nil {
		return nil, invalidParams("inputResponses: want an object that maps the keys of inputRequests to their responses")
	}
	if err := s.answer(ctx, &run, run.Accepts, responses); err != nil {
		return nil, s.protocolError(ctx, methodUpdate, err)
	}
	return s.encode(&ackResult{ResultType: resultComplete})
}

// cancelTask serves tasks/cancel. It acknowledges the request, not the end: work stops at its next durable operation.
func (s *Server) cancelTask(ctx context.Context, _ *mcp.ServerSession, p *taskParams) (*rawResult, error) {
	r := requestFrom(ctx)
	if p == nil {
		return nil, errTaskNotFound()
	}
	run, err := s.taskByID(ctx, r.caller, taskID(p.TaskID))
	if err != nil {
		return nil, s.protocolError(ctx, methodCancel, err)
	}
	if r.generation == generation2025 && run.Status.Terminal() {
		return nil, errTerminal2025(&run)
	}
	run, err = s.engine.Cancel(ctx, run.ID, r.caller.Principal, "cancelled by the client")
	if err != nil {
		return nil, s.protocolError(ctx, methodCancel, err)
	}
	if r.generation != generation2025 {
		return s.encode(&ackResult{ResultType: resultComplete})
	}
	v, err := s.view(ctx, run)
	if err != nil {
		return nil, s.protocolError(ctx, methodCancel, err)
	}
	return s.encode(project2025(v))
}

// encode makes a result of any object. The SDK wants one concrete type for each custom method, and the generations
// differ.
func (s *Server) encode(v any) (*rawResult, error) {
	b, err := json.Marshal(v)
	if err != nil {
		s.opts.Logger.Error("a result does not encode", "type", fmt.Sprintf("%T", v), "error", err)
		return nil, internalError("internal error")
	}
	return &rawResult{object: b}, nil
}
