package toolflow

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure/cmd/perdure/internal/httpstep"
	"github.com/perdure/perdure/cmd/perdure/internal/runstep"
	"github.com/perdure/perdure/cmd/perdure/internal/template"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
)

// resultOf derives what expressions see of a step from what was recorded of it.
func resultOf(s *toolfile.Step, record json.RawMessage) (map[string]any, error) {
	result, err := fields(s, record)
	if err != nil {
		return nil, stepError(s, fmt.Errorf("its recorded result: %w", err))
	}
	result["skipped"] = false
	return result, nil
}

func fields(s *toolfile.Step, record json.RawMessage) (map[string]any, error) {
	switch {
	case s.Run != nil, s.HTTP != nil:
		return effectFields(s, record)
	case s.Ask != nil:
		var a askRecord
		if err := json.Unmarshal(record, &a); err != nil {
			return nil, err
		}
		value, err := decodeOptional(a.Value)
		return map[string]any{"decision": a.Decision, "reason": a.Reason, "value": value}, err
	case s.Wait != nil:
		var w waitRecord
		if err := json.Unmarshal(record, &w); err != nil {
			return nil, err
		}
		value, err := decodeOptional(w.Payload)
		return map[string]any{"timed_out": w.TimedOut, "value": value}, err
	}
	return map[string]any{"value": nil}, nil
}

func decodeOptional(raw json.RawMessage) (any, error) {
	if raw == nil {
		return nil, nil
	}
	return template.Decode(raw)
}

// effectRecord is what is recorded of a run or http step: one of the two results, or why there is none.
type effectRecord struct {
	Run   *runstep.Result  `json:"run,omitempty"`
	HTTP  *httpstep.Result `json:"http,omitempty"`
	Error string           `json:"error,omitempty"`
}

func effectFields(s *toolfile.Step, record json.RawMessage) (map[string]any, error) {
	var e effectRecord
	if err := json.Unmarshal(record, &e); err != nil {
		return nil, err
	}
	result := map[string]any{"failed": e.Error != "", "error": e.Error, "value": nil}
	var err error
	switch {
	case e.Run != nil:
		result["exit_code"], result["truncated"] = int64(e.Run.ExitCode), e.Run.Truncated
		result["stdout"], result["stderr"] = e.Run.Stdout, e.Run.Stderr
		if e.Error == "" {
			result["value"], err = toolfile.ParseOutput(s.Run.Parse, e.Run.Stdout)
		}
	case e.HTTP != nil:
		headers := map[string]any{}
		for name, value := range e.HTTP.Headers {
			headers[name] = value
		}
		result["status"], result["headers"] = int64(e.HTTP.Status), headers
		result["body"], result["truncated"] = e.HTTP.Body, e.HTTP.Truncated
		if e.Error == "" {
			result["value"], err = toolfile.ParseOutput(s.HTTP.Parse, e.HTTP.Body)
		}
	}
	return result, err
}

// collect is the result of a foreach: the items' results, and their values.
func collect(s *toolfile.Step, records []json.RawMessage) (map[string]any, error) {
	items, values := make([]any, len(records)), make([]any, len(records))
	for i, record := range records {
		result, err := resultOf(s, record)
		if err != nil {
			return nil, err
		}
		items[i], values[i] = result, result["value"]
	}
	return map[string]any{"items": items, "value": values, "skipped": false}, nil
}

// encode writes JSON without HTML escapes.
func encode(value any) (json.RawMessage, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
