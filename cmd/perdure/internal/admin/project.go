package admin

import (
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

func runOf(r *history.Run, hasCode bool) Run {
	out := Run{
		ID: r.ID.String(), Key: r.Key, Tenant: r.Tenant, Principal: r.Principal, Workflow: r.Workflow, Version: r.Version, Tool: r.Route, Tags: r.Tags,
		Status: r.Status, Reason: r.Reason, Message: r.Message, Questions: r.Questions, Events: r.Seq,
		Created: r.CreatedAt.Std(), Updated: r.UpdatedAt.Std(), Closed: r.ClosedAt.Std(), Deadline: r.Deadline.Std(),
		CancelRequested: r.CancelRequested.Std(), Failure: r.Failure,
		ConcurrencyKey: r.ConcurrencyKey, ConcurrencyLimit: r.ConcurrencyLimit,
	}
	if r.Origin != (history.RunID{}) {
		out.Origin, out.OriginSeq = r.Origin.String(), r.OriginSeq
	}
	if out.Key == out.ID {
		out.Key = ""
	}
	if !hasCode && !r.Status.Terminal() && out.Reason == "" {
		out.Reason = fmt.Sprintf("this server has no code for %s v%d: the run waits for one that has", r.Workflow, r.Version)
	}
	return out
}

func eventOf(e *history.Event) Event {
	return Event{
		Seq: e.Seq, Kind: Kind(e.Kind), At: e.At.Std(), Epoch: e.Token.Epoch, Generation: e.Generation,
		Position: e.Position, Op: e.Op, Name: e.Name, Names: e.Names, Attempt: e.Attempt, Due: e.Due.Std(),
		Key: e.Key, Version: e.Version, Message: e.Message, By: e.By, Failure: e.Failure,
		Payload: rawJSON(e.Payload), Erased: e.PayloadErased, Sealed: e.Sealed,
	}
}

// rawJSON passes JSON on, and shows what is none as a text.
func rawJSON(b []byte) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	if json.Valid(b) {
		return b
	}
	text, err := json.Marshal(string(b))
	if err != nil {
		return nil // a string always encodes
	}
	return text
}

func questionOf(r *history.Run, in *history.Interrupt) Question {
	q := Question{
		Run: r.ID.String(), Key: in.Key, Workflow: r.Workflow, Tool: r.Route, Position: in.Position, Method: in.Method,
		Opened: in.OpenedAt.Std(), Deadline: in.Deadline.Std(), OperatorOnly: in.OperatorOnly,
	}
	if in.Sealed != nil {
		q.Sealed, q.Message = in.Sealed, "("+in.Sealed.String()+")"
		return q
	}
	var body struct {
		Message  string          `json:"message"`
		Approval bool            `json:"approval"`
		Proposal json.RawMessage `json:"proposal"`
		Schema   json.RawMessage `json:"schema"`
	}
	if in.Method != history.MethodQuestion || json.Unmarshal(in.Body, &body) != nil {
		q.Body = rawJSON(in.Body)
		return q
	}
	q.Message, q.Approval, q.Proposal, q.Schema = body.Message, body.Approval, body.Proposal, body.Schema
	return q
}

func signalOf(i *history.InboxItem) Signal {
	return Signal{
		Seq: i.Seq, Name: i.Name, ID: i.Key, Accepted: i.AcceptedAt.Std(), By: i.By, Payload: rawJSON(i.Payload),
		Erased: i.Erased, Sealed: i.Sealed,
	}
}

func answerOf(a AnswerRequest) workflow.Answer {
	return workflow.Answer{Action: workflow.Action(a.Action), Content: a.Content, Reason: a.Reason}
}
