package toolflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/cmd/perdure/internal/httpstep"
	"github.com/perdure/perdure/cmd/perdure/internal/runstep"
	"github.com/perdure/perdure/cmd/perdure/internal/template"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
	"github.com/perdure/perdure/history"
)

// Record makes what is recorded of a run or http step from its result as expressions see it, so that an operator can put
// another one in its place. The result is an object with some of the fields that docs/tool-files.md lists; value may stand
// for the output that it is read from. Fields that are left out are those of a step that went well and said nothing.
func (f *Flow) Record(at history.Position, result json.RawMessage) (json.RawMessage, error) {
	name := nameAt(at)
	i := slices.IndexFunc(f.tool.Steps, func(s *toolfile.Step) bool { return s.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("tool %s has no step %q", f.tool.Name, name)
	}
	s := f.tool.Steps[i]
	var known []string
	switch {
	case s.Run != nil:
		known = []string{"value", "stdout", "stderr", "exit_code", "truncated", "error"}
	case s.HTTP != nil:
		known = []string{"value", "status", "headers", "body", "truncated", "error"}
	default:
		return nil, stepError(s, fmt.Errorf("it is a step of kind %s: only the results of run and http steps can be replaced", s.Kind()))
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(result, &given); err != nil || given == nil {
		return nil, stepError(s, fmt.Errorf("its result is an object, with some of %s", strings.Join(known, ", ")))
	}
	for _, field := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, field) {
			return nil, stepError(s, fmt.Errorf("its result has no field %q: there are %s", field, strings.Join(known, ", ")))
		}
	}
	record, err := recordOf(s, given)
	if err != nil {
		return nil, stepError(s, err)
	}
	data, err := encode(record)
	if err != nil {
		return nil, stepError(s, err)
	}
	_, err = resultOf(s, data) // the run would meet it
	return data, err
}

// nameAt is the name of the step at a position: count of count#0, and of each#0[3]/count#0.
func nameAt(at history.Position) string {
	text := string(at)
	name, _, _ := strings.Cut(text[strings.LastIndexByte(text, '/')+1:], "#")
	return name
}

func recordOf(s *toolfile.Step, given map[string]json.RawMessage) (effectRecord, error) {
	var record effectRecord
	parse, output := "", "stdout"
	if s.HTTP != nil {
		parse, output = s.HTTP.Parse, "body"
		record.HTTP = &httpstep.Result{Status: 200}
	} else {
		parse = s.Run.Parse
		record.Run = &runstep.Result{}
	}
	if value, ok := given["value"]; ok {
		if _, twice := given[output]; twice {
			return record, fmt.Errorf("value is read from %s: give one of them", output)
		}
		text, err := outputOf(parse, value)
		if err != nil {
			return record, err
		}
		given = maps.Clone(given)
		delete(given, "value")
		given[output] = text
	}
	if text, ok := given["error"]; ok {
		if err := json.Unmarshal(text, &record.Error); err != nil {
			return record, errors.New("error must be a text")
		}
	}
	fields, err := encode(given)
	if err != nil {
		return record, err
	}
	var into any = record.Run
	if s.HTTP != nil {
		into = record.HTTP
	}
	if err := json.Unmarshal(fields, into); err != nil {
		return record, err
	}
	return record, nil
}

// outputOf is an output, as a JSON text, that is read as the value.
func outputOf(parse string, value json.RawMessage) (json.RawMessage, error) {
	switch parse {
	case toolfile.ParseJSON:
		return encode(string(value))
	case toolfile.ParseLines:
		var lines []string
		if err := json.Unmarshal(value, &lines); err != nil {
			return nil, errors.New("value must be a list of texts, as parse is lines")
		}
		text := ""
		if len(lines) > 0 {
			text = strings.Join(lines, "\n") + "\n"
		}
		if !slices.Equal(template.SplitLines(text), lines) {
			return nil, errors.New("value: a line cannot hold a line end")
		}
		return encode(text)
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return nil, errors.New("value must be a text; for JSON the step says parse: json")
	}
	return encode(text)
}
