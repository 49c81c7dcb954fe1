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

// TestIntegersOfAnswersAreSpelledAsGoReadsThem: JSON Schema takes 3.0 for an integer, encoding/json does not.
func TestIntegersOfAnswersAreSpelledAsGoReadsThem(t *testing.T) {
	q := workflow.Question{Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"f":{"type":"number"},"s":{"type":"string"}}}`)}
	for content, want := range map[string]string{
		`{"n":3}`:                             `{"n":3}`,
		`{ "n": 3.0 }`:                        `{"n":3}`,
		`{"n":1e2,"f":1.0,"s":"1.0"}`:         `{"f":1.0,"n":100,"s":"1.0"}`,
		`{"n":-0.0}`:                          `{"n":0}`,
		`{"n":9007199254740993}`:              `{"n":9007199254740993}`,
		`{"n":1e300}`:                         `{"n":1e300}`, // too large to be spelled exactly
		`{"f":2.50}`:                          `{"f":2.50}`,
		`{"n":12345678901234567890123456789}`: `{"n":12345678901234567890123456789}`,
	} {
		got, err := q.Check(workflow.Answer{Action: workflow.Accept, Content: json.RawMessage(content)})
		if err != nil || string(got.Content) != want {
			t.Errorf("%s: %s, %v; want %s", content, got.Content, err, want)
		}
	}
	if _, err := q.Check(workflow.Answer{Action: workflow.Accept, Content: json.RawMessage(`{"n":1.5}`)}); err == nil {
		t.Error("a fraction was taken for an integer")
	}
	edit := workflow.Question{Approval: true, ProposalSchema: q.Schema}
	got, err := edit.Check(workflow.Answer{Action: workflow.Accept, Content: json.RawMessage(`{"decision":"edit","value":"{\"n\":2.0}"}`)})
	if want := `{"decision":"edit","value":"{\"n\":2}"}`; err != nil || string(got.Content) != want {
		t.Errorf("an edit: %s, %v; want %s", got.Content, err, want)
	}
}
