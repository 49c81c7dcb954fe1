package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// decodeAnswer turns a client's response to the question into the engine's form. The engine checks it against the
// question; this checks only that it is a response to that method at all.
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
		return workflow.Answer{Action: workflow.Accept, Content: r.Content}, nil
	case "decline":
		return workflow.Answer{Action: workflow.Decline, Reason: declineReason(r.Content)}, nil
	case "cancel":
		return workflow.Answer{Action: workflow.Dismiss}, nil
	}
	return fail(`"action" to be one of accept, decline and cancel`)
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
	for i := range open {
		raw, given := responses[open[i].Key]
		if !given || !acceptedBy(accepts, &open[i]) {
			continue
		}
		a, err := decodeAnswer(&open[i], raw)
		if err != nil {
			return err
		}
		answers[open[i].Key] = a
	}
	var unfit []error
	for _, key := range slices.Sorted(maps.Keys(answers)) {
		err := s.engine.Answer(ctx, run.ID, key, answers[key], run.Principal)
		var bad *workflow.AnswerError
		switch {
		case err == nil, errors.Is(err, history.ErrAnswered), errors.Is(err, history.ErrNotFound), errors.Is(err, history.ErrTerminal):
		case errors.As(err, &bad):
			unfit = append(unfit, fmt.Errorf("inputResponses[%q]: %s", key, bad.Error()))
		default:
			return err
		}
	}
	if len(unfit) > 0 {
		return invalidParams("%s", errors.Join(unfit...).Error())
	}
	return nil
}
