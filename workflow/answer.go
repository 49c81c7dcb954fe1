package workflow

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/perdure/perdure/workflow/schemafit"
)

// AnswerError says why an answer does not fit its question. The question stays open.
type AnswerError struct {
	// Field is where the answer is wrong: a field of its content, such as "level", or "action" or "content".
	Field  string
	Reason string
}

func (e *AnswerError) Error() string {
	if e.Field == "" {
		return "the answer does not fit the question: " + e.Reason
	}
	return fmt.Sprintf("the answer does not fit the question: %s: %s", e.Field, e.Reason)
}

// Check reports whether the answer fits the question, and returns it in its stored form. The error is an *AnswerError.
func (q *Question) Check(a Answer) (Answer, error) {
	switch a.Action {
	case Accept:
	case Decline, Dismiss:
		a.Content = nil
		return a, nil
	default:
		return a, &AnswerError{Field: "action", Reason: fmt.Sprintf("%q is not one of accept, decline, dismiss", a.Action)}
	}
	if q.Approval {
		return q.checkDecision(a)
	}
	if len(a.Content) == 0 {
		return a, &AnswerError{Field: "content", Reason: "is missing"}
	}
	content, err := fit(q.Schema, a.Content)
	if err != nil {
		return a, unfit("", err)
	}
	a.Content = content
	return a, nil
}

// checkDecision applies the rules of an approval: an edit needs the value, a rejection a reason.
func (q *Question) checkDecision(a Answer) (Answer, error) {
	var d Decision
	if err := json.Unmarshal(a.Content, &d); err != nil {
		return a, &AnswerError{Field: "content", Reason: "want an object with decision, and value or reason: " + err.Error()}
	}
	switch d.Decision {
	case Approve:
		d.Value = ""
	case Edit:
		if d.Value == "" {
			return a, &AnswerError{Field: "value", Reason: "an edit needs the edited proposal, as JSON text"}
		}
		if !json.Valid([]byte(d.Value)) {
			return a, &AnswerError{Field: "value", Reason: "is not JSON"}
		}
		if q.ProposalSchema != nil {
			value, err := fit(q.ProposalSchema, []byte(d.Value))
			if err != nil {
				return a, unfit("value", err)
			}
			d.Value = string(value)
		}
	case Reject:
		d.Value = ""
		if d.Reason == "" {
			return a, &AnswerError{Field: "reason", Reason: "a rejection needs a reason"}
		}
	default:
		return a, &AnswerError{Field: "decision", Reason: fmt.Sprintf("%q is not one of approve, edit, reject", d.Decision)}
	}
	content, err := json.Marshal(d)
	if err != nil {
		return a, fmt.Errorf("encode decision: %w", err)
	}
	a.Content = content
	return a, nil
}

// unfit makes an *AnswerError of an error of fit. Fields of the content stand by their names, those of an edited
// proposal below "value".
func unfit(within string, err error) error {
	var misfit *schemafit.Misfit
	if !errors.As(err, &misfit) {
		return &AnswerError{Field: cmp.Or(within, "content"), Reason: err.Error()}
	}
	field := misfit.Field
	if within != "" && field != "" {
		field = within + "." + field
	}
	return &AnswerError{Field: cmp.Or(field, within, "content"), Reason: misfit.Reason}
}

// fit holds the value against the schema and returns it with its integers as Go reads them.
func fit(schema, value json.RawMessage) (json.RawMessage, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	r, err := s.Resolve(&jsonschema.ResolveOptions{})
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	v, err := schemafit.Decode(value)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if err := schemafit.Check(r, v); err != nil {
		return nil, err
	}
	return schemafit.Spell(&s, value), nil
}
