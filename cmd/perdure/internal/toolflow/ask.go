package toolflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure/cmd/perdure/internal/template"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// askRecord is what became of a question.
type askRecord struct {
	Decision string          `json:"decision"`
	Reason   string          `json:"reason,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
}

// Decisions beside those of workflow.Verdict.
const (
	answered = "answer"
	declined = "decline"
	timedOut = "timeout"
)

func (r *run) ask(ctx workflow.Context, s *toolfile.Step, scope template.Scope) (json.RawMessage, error) {
	message, err := r.tool.Template(s.Ask.Message).Text(scope, nil, nil)
	if err != nil {
		return nil, stepError(s, fmt.Errorf("message: %w", err))
	}
	var record askRecord
	if s.Ask.Approve != nil {
		record, err = r.approve(ctx, s, message, scope)
	} else {
		record, err = r.form(ctx, s, message)
	}
	switch {
	case errors.Is(err, workflow.ErrTimeout) && s.Ask.OnTimeout == toolfile.Continue:
		return encode(askRecord{Decision: timedOut})
	case err != nil:
		return nil, stepError(s, err)
	}
	refused := record.Decision == declined || record.Decision == string(workflow.Reject)
	if refused && s.Ask.OnDecline == toolfile.Fail {
		if record.Reason != "" {
			return nil, stepError(s, fmt.Errorf("%w: %s", workflow.ErrDeclined, record.Reason))
		}
		return nil, stepError(s, workflow.ErrDeclined)
	}
	return encode(record)
}

// form asks for fields.
func (r *run) form(ctx workflow.Context, s *toolfile.Step, message string) (askRecord, error) {
	body, err := encode(workflow.Question{Message: message, Schema: s.Ask.Fields})
	if err != nil {
		return askRecord{}, err
	}
	// Raise and not AskRaw: the reason of a refusal is part of the result.
	answer, err := workflow.Raise(ctx, s.Name, history.MethodQuestion, body, within(s.Ask.Deadline)...)
	if err != nil {
		return askRecord{}, err
	}
	if answer.Action != workflow.Accept {
		return askRecord{Decision: declined, Reason: answer.Reason}, nil
	}
	return askRecord{Decision: answered, Value: answer.Content}, nil
}

// approve asks to approve, edit or reject a proposal. The value is the proposal as it was approved.
func (r *run) approve(ctx workflow.Context, s *toolfile.Step, message string, scope template.Scope) (askRecord, error) {
	proposal, err := fill(r.tool, s.Ask.Approve, scope, nil)
	if err != nil {
		return askRecord{}, fmt.Errorf("approve: %w", err)
	}
	shape, err := encode(shapeOf(proposal))
	if err != nil {
		return askRecord{}, fmt.Errorf("approve: %w", err)
	}
	question := workflow.Question{Message: message, Proposal: proposal, ProposalSchema: shape}
	decision, err := workflow.Ask[workflow.Decision](ctx, s.Name, question, within(s.Ask.Deadline)...)
	if err != nil {
		return askRecord{}, err
	}
	record := askRecord{Decision: string(decision.Decision), Reason: decision.Reason}
	switch decision.Decision {
	case workflow.Approve:
		record.Value, err = encode(proposal)
	case workflow.Edit:
		record.Value = json.RawMessage(decision.Value)
	}
	return record, err
}

// shapeOf is the JSON Schema that an edited proposal must fit: the same fields with values of the same types.
func shapeOf(value any) map[string]any {
	switch v := value.(type) {
	case bool:
		return map[string]any{"type": "boolean"}
	case int64, uint64:
		return map[string]any{"type": "integer"}
	case float64:
		return map[string]any{"type": "number"}
	case string:
		return map[string]any{"type": "string"}
	case []any:
		return map[string]any{"type": "array"}
	case map[string]any:
		properties, required := map[string]any{}, []string{}
		for name, field := range v {
			properties[name] = shapeOf(field)
			required = append(required, name)
		}
		slices.Sort(required)
		return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	}
	return map[string]any{}
}
