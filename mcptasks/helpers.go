package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// The helper tools serve clients that do not declare tasks, once an ordinary result has named one.
const (
	toolTaskStatus  = "task_status"
	toolTaskRespond = "task_respond"
	toolTaskCancel  = "task_cancel"
)

func helperToolNames() []string { return []string{toolTaskStatus, toolTaskRespond, toolTaskCancel} }

func isHelperTool(name string) bool {
	return name == toolTaskStatus || name == toolTaskRespond || name == toolTaskCancel
}

func (s *Server) addHelperTools() {
	no := false
	mcp.AddTool(s.mcp, &mcp.Tool{
		Name:        toolTaskStatus,
		Description: "Shows how a task stands that another tool has started, with its open questions, and its result once it is finished. It waits up to waitSeconds for a change.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no},
	}, s.taskStatus)
	mcp.AddTool(s.mcp, &mcp.Tool{
		Name:        toolTaskRespond,
		Description: "Answers an open question of a task. Decisions that need a person's approval are not taken here, except where the server allows it.",
		Annotations: &mcp.ToolAnnotations{OpenWorldHint: &no},
	}, s.taskRespond)
	mcp.AddTool(s.mcp, &mcp.Tool{
		Name:        toolTaskCancel,
		Description: "Requests that a task be cancelled. The task stops at its next step, after its clean-up.",
		Annotations: &mcp.ToolAnnotations{OpenWorldHint: &no, IdempotentHint: true},
	}, s.taskCancel)
}

type statusInput struct {
	TaskID      string `json:"taskId" jsonschema:"the task's id"`
	WaitSeconds int    `json:"waitSeconds,omitempty" jsonschema:"how long to wait for the task to change, 0 to 40 seconds; default 20"`
}

type statusOutput struct {
	TaskID    string           `json:"taskId"`
	Status    TaskStatus       `json:"status" jsonschema:"working, input_required, completed, failed or cancelled"`
	Message   string           `json:"message,omitempty"`
	Questions []helperQuestion `json:"questions,omitempty"`
	Result    any              `json:"result,omitempty" jsonschema:"the tool's result, where the task is completed"`
	Error     string           `json:"error,omitempty" jsonschema:"why the task failed"`
}

type helperQuestion struct {
	Key     string `json:"key"`
	Message string `json:"message"`
	Schema  any    `json:"schema,omitempty" jsonschema:"the JSON Schema of the answer's content"`
	Person  bool   `json:"person,omitempty" jsonschema:"a person must answer this question"`
	Hint    string `json:"hint,omitempty" jsonschema:"where a person can answer"`
}

func (s *Server) taskStatus(ctx context.Context, _ *mcp.CallToolRequest, in statusInput) (*mcp.CallToolResult, statusOutput, error) {
	run, err := s.helperTask(ctx, in.TaskID)
	if err != nil {
		return nil, statusOutput{}, err
	}
	if err := s.awaitChange(ctx, &run, helperWait(in.WaitSeconds)); err != nil {
		return nil, statusOutput{}, s.protocolError(ctx, toolTaskStatus, err)
	}
	v, err := s.load(ctx, run.ID)
	if err != nil {
		return nil, statusOutput{}, s.protocolError(ctx, toolTaskStatus, err)
	}
	out, err := s.helperStatus(v)
	if err != nil {
		return nil, statusOutput{}, s.protocolError(ctx, toolTaskStatus, err)
	}
	return nil, out, nil
}

func helperWait(seconds int) time.Duration {
	if seconds == 0 {
		seconds = 20
	}
	return time.Duration(min(max(seconds, 0), 40)) * time.Second
}

// awaitChange waits until the run has changed for a client, is over, has a question, or the time has passed.
func (s *Server) awaitChange(ctx context.Context, run *history.Run, wait time.Duration) error {
	changed, stop := s.engine.Watch(run.ID)
	defer stop()
	bound := time.NewTimer(wait)
	defer bound.Stop()
	for {
		now, err := s.engine.Run(ctx, run.ID)
		if err != nil {
			return err
		}
		if now.Status.Terminal() || now.Questions > 0 || now.UpdatedAt != run.UpdatedAt {
			return nil
		}
		select {
		case <-changed:
		case <-bound.C:
			return nil
		case <-s.inflight.drain:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Server) helperStatus(v *view) (statusOutput, error) {
	d, err := s.project(v)
	if err != nil {
		return statusOutput{}, err
	}
	out := statusOutput{TaskID: d.TaskID, Status: d.Status, Message: d.StatusMessage}
	if d.Error != nil {
		out.Error = d.Error.Message
	}
	if len(d.Result) > 0 {
		out.Result = d.Result
	}
	if d.Status != InputRequired {
		return out, nil
	}
	for i := range v.questions {
		in := &v.questions[i]
		q, ok := d.InputRequests[in.Key]
		if !ok {
			continue
		}
		h, err := s.helperQuestion(v, in, q)
		if err != nil {
			return out, err
		}
		out.Questions = append(out.Questions, h)
	}
	return out, nil
}

func (s *Server) helperQuestion(v *view, in *history.Interrupt, q InputRequest) (helperQuestion, error) {
	var form struct {
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"requestedSchema"`
	}
	if len(q.Params) > 0 {
		if err := json.Unmarshal(q.Params, &form); err != nil {
			return helperQuestion{}, fmt.Errorf("question %s: %w", in.Key, err)
		}
	}
	h := helperQuestion{Key: in.Key, Message: form.Message}
	if len(form.Schema) > 0 {
		h.Schema = form.Schema
	}
	if s.needsPerson(v.route, in) {
		h.Person, h.Hint = true, s.opts.AnswerHint
	}
	return h, nil
}

// needsPerson reports whether a model may not answer the question through task_respond: approvals, except where the
// route allows it, and everything that is no typed question.
func (s *Server) needsPerson(route *boundRoute, in *history.Interrupt) bool {
	if in.Method != history.MethodQuestion {
		return true
	}
	return isApproval(in) && (route == nil || !route.ModelMayApprove)
}

type respondInput struct {
	TaskID  string         `json:"taskId" jsonschema:"the task's id"`
	Key     string         `json:"key" jsonschema:"the question's key, as task_status shows it"`
	Action  string         `json:"action,omitempty" jsonschema:"accept (default) or decline"`
	Content map[string]any `json:"content,omitempty" jsonschema:"the answer, fitting the question's schema; with accept"`
	Reason  string         `json:"reason,omitempty" jsonschema:"why; with decline"`
}

type respondOutput struct {
	Recorded bool   `json:"recorded" jsonschema:"whether this answer was recorded"`
	Message  string `json:"message"`
}

func (s *Server) taskRespond(ctx context.Context, _ *mcp.CallToolRequest, in respondInput) (*mcp.CallToolResult, respondOutput, error) {
	run, err := s.helperTask(ctx, in.TaskID)
	if err != nil {
		return nil, respondOutput{}, err
	}
	open, err := s.engine.Interrupts(ctx, run.ID)
	if err != nil {
		return nil, respondOutput{}, s.protocolError(ctx, toolTaskRespond, err)
	}
	for i := range open {
		if open[i].Key == in.Key && acceptedBy(run.Accepts, &open[i]) {
			out, err := s.respond(ctx, &run, &open[i], in)
			return nil, out, err
		}
	}
	return nil, respondOutput{Message: "No question with this key is open: it was answered before, or never asked."}, nil
}

func (s *Server) respond(ctx context.Context, run *history.Run, q *history.Interrupt, in respondInput) (respondOutput, error) {
	if s.needsPerson(s.routes.of(run), q) {
		return respondOutput{Message: "This question is for a person, and was not answered. " + s.opts.AnswerHint}, nil
	}
	a := workflow.Answer{Action: workflow.Accept}
	switch in.Action {
	case "", "accept":
		b, err := json.Marshal(in.Content)
		if err != nil {
			return respondOutput{}, fmt.Errorf("content: %w", err)
		}
		a.Content = b
	case "decline":
		a.Action, a.Reason = workflow.Decline, in.Reason
	default:
		return respondOutput{}, fmt.Errorf("action is %q, want accept or decline", in.Action)
	}
	err := s.engine.Answer(ctx, run.ID, q.Key, a, run.Principal)
	switch {
	case errors.Is(err, history.ErrAnswered), errors.Is(err, history.ErrNotFound):
		return respondOutput{Message: "The question was answered before."}, nil
	case err != nil:
		return respondOutput{}, s.toolError(ctx, toolTaskRespond, err)
	}
	return respondOutput{Recorded: true, Message: "The answer is recorded."}, nil
}

type cancelInput struct {
	TaskID string `json:"taskId" jsonschema:"the task's id"`
}

type cancelOutput struct {
	TaskID  string `json:"taskId"`
	Message string `json:"message"`
}

func (s *Server) taskCancel(ctx context.Context, _ *mcp.CallToolRequest, in cancelInput) (*mcp.CallToolResult, cancelOutput, error) {
	run, err := s.helperTask(ctx, in.TaskID)
	if err != nil {
		return nil, cancelOutput{}, err
	}
	out := cancelOutput{TaskID: in.TaskID, Message: "The task is asked to stop."}
	if run.Status.Terminal() {
		out.Message = "The task was over already."
	}
	if _, err := s.engine.Cancel(ctx, run.ID, run.Principal, "cancelled by the client"); err != nil {
		return nil, cancelOutput{}, s.protocolError(ctx, toolTaskCancel, err)
	}
	return nil, out, nil
}

// helperTask finds a task of the caller's. For a model, a wrong id is an error of the tool, which it can mend.
func (s *Server) helperTask(ctx context.Context, id string) (history.Run, error) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return history.Run{}, internalError("internal error")
	}
	run, err := s.taskByID(ctx, c.caller, id)
	if isTaskNotFound(err) {
		return run, errors.New("task not found")
	}
	if err != nil {
		return run, s.protocolError(ctx, "helper tool", err)
	}
	return run, nil
}

// toolError is a tool error with the text of an answer that does not fit, and a protocol error otherwise.
func (s *Server) toolError(ctx context.Context, op string, err error) error {
	var unfit *workflow.AnswerError
	if errors.As(err, &unfit) {
		return unfit
	}
	return s.protocolError(ctx, op, err)
}
