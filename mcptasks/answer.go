package mcptasks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/schemafit"
)

// decodeAnswer turns a client's response to the question into the engine's form. A response that is none to that
// method at all is refused here, and so is one that does not fit a form of this protocol (*workflow.AnswerError); the
// engine checks what a workflow's own question asks for.
func decodeAnswer(in *history.Interrupt, raw json.RawMessage) (workflow.Answer, error) {
	fail := func(want string) (workflow.Answer, error) {
		return workflow.Answer{}, invalidParams("inputResponses[%q]: want %s", in.Key, want)
	}
	switch in.Method {
	case methodSample:
		var r struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(raw, &r) != nil || r.Role == "" || len(r.Content) == 0 {
			return fail(`a sampling result: an object with "role", "content" and "model"`)
		}
		return workflow.Answer{Action: workflow.Accept, Content: raw}, nil
	case methodRoots:
		var r struct {
			Roots []struct {
				URI string `json:"uri"`
			} `json:"roots"`
		}
		if json.Unmarshal(raw, &r) != nil || r.Roots == nil {
			return fail(`a list of roots: an object with "roots", an array`)
		}
		return workflow.Answer{Action: workflow.Accept, Content: raw}, nil
	}
	var r struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &r) != nil {
		return fail(`an elicitation result: an object with "action", one of accept, decline and cancel`)
	}
	switch r.Action {
	case "accept":
		return workflow.Answer{Action: workflow.Accept, Content: r.Content}, checkForm(in, r.Content)
	case "decline":
		return workflow.Answer{Action: workflow.Decline, Reason: declineReason(r.Content)}, nil
	case "cancel":
		return workflow.Answer{Action: workflow.Dismiss}, nil
	}
	return fail(`"action" to be one of accept, decline and cancel`)
}

// checkForm holds the content against the schema of an elicitation form; a page that is opened by URL gives none.
func checkForm(in *history.Interrupt, content json.RawMessage) error {
	if in.Method != methodElicit || elicitMode(in.Body) == "url" {
		return nil
	}
	var form struct {
		RequestedSchema *jsonschema.Schema `json:"requestedSchema"`
	}
	if err := json.Unmarshal(in.Body, &form); err != nil {
		return fmt.Errorf("question %s: %w", in.Key, err)
	}
	if form.RequestedSchema == nil {
		return nil
	}
	schema, err := form.RequestedSchema.Resolve(nil)
	if err != nil {
		return fmt.Errorf("question %s: %w", in.Key, err)
	}
	v, err := schemafit.Decode(content)
	if err != nil {
		return &workflow.AnswerError{Field: "content", Reason: "want an object that fits the requested schema"}
	}
	var misfit *schemafit.Misfit
	if err := schemafit.Check(schema, v); errors.As(err, &misfit) {
		return &workflow.AnswerError{Field: shorten(cmp.Or(misfit.Field, "content")), Reason: shorten(misfit.Reason)}
	}
	return nil
}

// declineReason takes the reason that some clients send along with a refusal.
func declineReason(content json.RawMessage) string {
	var c struct {
		Reason string `json:"reason"`
	}
	if len(content) == 0 || json.Unmarshal(content, &c) != nil {
		return ""
	}
	return c.Reason
}

// answer gives the client's responses to the run's open questions. Responses under other keys are ignored: those
// questions were answered before, or were never asked. A response that is no answer at all refuses the whole
// request; one that does not fit its question leaves that question open, and the others are recorded.
func (s *Server) answer(ctx context.Context, run *history.Run, accepts []string, responses map[string]json.RawMessage) error {
	if len(responses) == 0 || run.Status.Terminal() {
		return nil
	}
	open, err := s.engine.Interrupts(ctx, run.ID)
	if err != nil {
		return err
	}
	answers := map[string]workflow.Answer{}
	var unfit []error
	for i := range open {
		raw, given := responses[open[i].Key]
		if !given || !acceptedBy(accepts, &open[i]) {
			continue
		}
		a, err := decodeAnswer(&open[i], raw)
		var bad *workflow.AnswerError
		switch {
		case err == nil:
			answers[open[i].Key] = a
		case errors.As(err, &bad):
			unfit = append(unfit, misfit(open[i].Key, bad))
		default:
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		err := s.engine.Answer(ctx, run.ID, key, answers[key], run.Principal)
		var bad *workflow.AnswerError
		switch {
		case err == nil, errors.Is(err, history.ErrAnswered), errors.Is(err, history.ErrNotFound), errors.Is(err, history.ErrTerminal):
		case errors.As(err, &bad):
			unfit = append(unfit, misfit(key, bad))
		default:
			return err
		}
	}
	if len(unfit) > 0 {
		return invalidParams("%s", errors.Join(unfit...).Error())
	}
	return nil
}

func misfit(key string, bad *workflow.AnswerError) error {
	return fmt.Errorf("inputResponses[%q]: %w", key, bad)
}
