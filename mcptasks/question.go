package mcptasks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// inputRequest renders an open question for a client. It is a pure function of the question's body, so the bytes under
// a key are the same at every poll: clients refuse a question that changes.
func inputRequest(in *history.Interrupt) (InputRequest, error) {
	if err := in.Readable(); err != nil {
		return InputRequest{}, err
	}
	if in.Method != history.MethodQuestion {
		params := json.RawMessage(in.Body)
		if len(params) == 0 {
			params = json.RawMessage("{}") // the extension requires them, also of roots/list
		}
		return InputRequest{Method: in.Method, Params: params}, nil
	}
	q, err := questionOf(in)
	if err != nil {
		return InputRequest{}, err
	}
	form := elicitForm{Mode: "form", Message: q.Message, RequestedSchema: q.Schema}
	if q.Proposal != nil {
		form.Message += "\n\n" + proposalText(q.Proposal)
	}
	switch {
	case q.Approval:
		form.RequestedSchema = approvalSchema()
	case len(q.Schema) == 0:
		form.RequestedSchema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	params, err := json.Marshal(form)
	if err != nil {
		return InputRequest{}, fmt.Errorf("question %s: %w", in.Key, err)
	}
	return InputRequest{Method: methodElicit, Params: params}, nil
}

// elicitForm is the parameters of elicitation/create in form mode, in this order of fields.
type elicitForm struct {
	Mode            string          `json:"mode"`
	Message         string          `json:"message"`
	RequestedSchema json.RawMessage `json:"requestedSchema"`
}

// approvalSchema is the form of a workflow.Decision. Forms are flat: an edited proposal is JSON text in one field.
func approvalSchema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{` +
		`"decision":{"type":"string","title":"Decision","enum":["approve","edit","reject"]},` +
		`"value":{"type":"string","title":"Edited value","description":"To edit: the changed proposal, as JSON."},` +
		`"reason":{"type":"string","title":"Reason","description":"To reject: why."}` +
		`},"required":["decision"]}`)
}

const maxProposalText = 16 << 10

// proposalText shows a proposal as indented JSON, shortened where it is long.
func proposalText(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil { // it was decoded from JSON
		return fmt.Sprint(v)
	}
	s := strings.TrimSpace(b.String())
	if len(s) > maxProposalText {
		s = strings.ToValidUTF8(s[:maxProposalText], "") + "\n… (shortened)"
	}
	return s
}

func questionOf(in *history.Interrupt) (workflow.Question, error) {
	var q workflow.Question
	dec := json.NewDecoder(bytes.NewReader(in.Body))
	dec.UseNumber() // numbers of a proposal are shown as they were written
	if err := dec.Decode(&q); err != nil {
		return q, fmt.Errorf("question %s: %w", in.Key, err)
	}
	return q, nil
}

// acceptedBy reports whether the client with these declarations can answer the question. For a run, both are
// fixed, so a client sees either all polls with a question or none.
func acceptedBy(accepts []string, in *history.Interrupt) bool {
	method := in.Method
	if method == methodElicit && elicitMode(in.Body) == "url" {
		method = acceptsURL
	}
	return !in.OperatorOnly && slices.Contains(accepts, method)
}

func elicitMode(params []byte) string {
	var p struct {
		Mode string `json:"mode"`
		URL  string `json:"url"`
	}
	if json.Unmarshal(params, &p) == nil && (p.Mode == "url" || p.Mode == "" && p.URL != "") {
		return "url"
	}
	return "form"
}

// isApproval reports whether the question asks for a decision that a model must not take by itself.
func isApproval(in *history.Interrupt) bool {
	if in.Method != history.MethodQuestion {
		return false
	}
	q, err := questionOf(in)
	return err != nil || q.Approval
}
