package workflow

import (
	"encoding/json"
)

// Question is what a run asks a person or a client. Its JSON form is the body of an interrupt with method
// history.MethodQuestion, fixed when the question is raised.
type Question struct {
	// Message is what the person reads. Required.
	Message string `json:"message"`
	// Proposal is shown with the message: what is to be decided on. It is any value that encodes to JSON.
	Proposal any `json:"proposal,omitempty"`
	// Approval marks a question whose answer is a Decision: approve, edit or reject.
	Approval bool `json:"approval,omitempty"`
	// Schema is the JSON Schema of the answer's content. Ask fills it in from the answer's Go type: an object whose
	// properties are strings, numbers, booleans or enumerations (the subset that MCP elicitation forms can show).
	Schema json.RawMessage `json:"schema,omitempty"`
	// ProposalSchema is the JSON Schema of an edited proposal. Ask fills it in from the proposal's Go type.
	ProposalSchema json.RawMessage `json:"proposalSchema,omitempty"`
}

// Action is what a person did with a question.
type Action string

const (
	// Accept gives the answer.
	Accept Action = "accept"
	// Decline refuses to answer: Ask returns ErrDeclined. It rejects an approval.
	Decline Action = "decline"
	// Dismiss neither answers nor refuses. The question is asked again under a new key, a bounded number of
	// times, and is then left for an operator.
	Dismiss Action = "dismiss"
)

// Answer is the payload that closes an interrupt.
type Answer struct {
	Action Action `json:"action"`
	// Content is the answer itself where Action is Accept; it fits the question's schema.
	Content json.RawMessage `json:"content,omitempty"`
	// Reason says why, where Action is Decline. Optional.
	Reason string `json:"reason,omitempty"`
}

// Verdict is the outcome of an approval.
type Verdict string

const (
	// Approve takes the proposal as it is.
	Approve Verdict = "approve"
	// Edit takes it with the changes that Decision.Value has.
	Edit Verdict = "edit"
	// Reject refuses it; Decision.Reason says why.
	Reject Verdict = "reject"
)

// Decision answers a question with Approval set.
type Decision struct {
	Decision Verdict `json:"decision"`
	// Value is the edited proposal as JSON text, where Decision is Edit; it fits the proposal's shape.
	Value string `json:"value,omitempty"`
	// Reason says why; required where Decision is Reject.
	Reason string `json:"reason,omitempty"`
}
