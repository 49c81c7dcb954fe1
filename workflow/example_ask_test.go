package workflow_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/workflow"
)

// A question to a person or a client. The form comes from the type of the answer.
func ExampleAsk() {
	type seat struct {
		Row    int    `json:"row"`
		Window bool   `json:"window"`
		Note   string `json:"note,omitempty"`
	}
	w := workflow.Define("book", 1, func(ctx workflow.Context, _ int) (string, error) {
		s, err := workflow.Ask[seat](ctx, "seat", workflow.Question{Message: "Which seat?"}, workflow.Within(24*time.Hour))
		switch {
		case errors.Is(err, workflow.ErrDeclined), errors.Is(err, workflow.ErrTimeout):
			return "any seat", nil
		case err != nil:
			return "", err
		}
		return fmt.Sprintf("row %d", s.Row), nil
	})
	play(w, 0, answer(workflow.Answer{Action: workflow.Accept, Content: []byte(`{"row":12,"window":true}`)}))
	play(w, 0, answer(workflow.Answer{Action: workflow.Decline}))
	// Output:
	// row 12
	// any seat
}

// An approval: the person approves the proposal, edits it, or rejects it.
func ExampleAsk_approval() {
	type refund struct {
		Cents int `json:"cents"`
	}
	w := workflow.Define("refund", 1, func(ctx workflow.Context, cents int) (string, error) {
		d, err := workflow.Ask[workflow.Decision](ctx, "approve", workflow.Question{Message: "Refund?", Proposal: refund{cents}})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %s%s", d.Decision, d.Value, d.Reason), nil
	})
	play(w, 500, answer(workflow.Answer{Action: workflow.Accept, Content: []byte(`{"decision":"edit","value":"{\"cents\":300}"}`)}))
	play(w, 500, answer(workflow.Answer{Action: workflow.Accept, Content: []byte(`{"decision":"reject","reason":"too late"}`)}))
	// Output:
	// edit {"cents":300}
	// reject too late
}
