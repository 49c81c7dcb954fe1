package workflow_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/perdure/perdure/workflow"
)

// TestAnswerErrorsSayWhatWouldBeRight holds the texts that a person reads who answered wrongly.
func TestAnswerErrorsSayWhatWouldBeRight(t *testing.T) {
	form := &workflow.Question{Schema: json.RawMessage(`{"type":"object","properties":{"level":{"type":"string","enum":["fast","best"]},"count":{"type":"integer"}},"required":["level"],"additionalProperties":false}`)}
	approval := &workflow.Question{Approval: true, ProposalSchema: json.RawMessage(`{"type":"object","properties":{"cents":{"type":"integer"}}}`)}
	for _, tc := range []struct {
		question      *workflow.Question
		content       string
		field, reason string
	}{
		{form, `{"level":"medium"}`, "level", `"medium" is not one of fast, best`},
		{form, `{"level":"fast","count":"two"}`, "count", `"two" is a string, want an integer`},
		{form, `{}`, "level", "is missing"},
		{form, `{"level":"fast","colour":"red"}`, "colour", "is not known: there is count, level"},
		{form, `[]`, "content", "is an array, want an object"},
		{form, ``, "content", "is missing"},
		{approval, `{"decision":"edit","value":"{\"cents\":\"many\"}"}`, "value.cents", `"many" is a string, want an integer`},
		{approval, `{"decision":"edit","value":"5"}`, "value", "5 is an integer, want an object"},
		{approval, `{"decision":"maybe"}`, "decision", `"maybe" is not one of approve, edit, reject`},
	} {
		_, err := tc.question.Check(workflow.Answer{Action: workflow.Accept, Content: []byte(tc.content)})
		var unfit *workflow.AnswerError
		if !errors.As(err, &unfit) {
			t.Errorf("%s: %v, want an *AnswerError", tc.content, err)
			continue
		}
		if unfit.Field != tc.field || unfit.Reason != tc.reason {
			t.Errorf("%s: %q %q, want %q %q", tc.content, unfit.Field, unfit.Reason, tc.field, tc.reason)
		}
	}
}
