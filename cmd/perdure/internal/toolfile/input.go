package toolfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure/cmd/perdure/internal/template"
	"github.com/perdure/perdure/workflow/schemafit"
)

// ErrInput marks arguments that do not fit a tool's schema.
var ErrInput = errors.New("the arguments do not fit")

// maxInputError bounds the text of an error about arguments, which quotes them.
const maxInputError = 500

// DecodeInput reads a call's arguments, fills in the schema's defaults and validates. Missing arguments are an empty
// object. The result is what input stands for in expressions. Its error wraps ErrInput and is safe to show the caller.
func (t *Tool) DecodeInput(data json.RawMessage) (map[string]any, error) {
	if len(data) == 0 {
		data = json.RawMessage(`{}`)
	}
	value, err := template.Decode(schemafit.Spell(t.schema.Schema(), data))
	if err != nil {
		return nil, inputError(err)
	}
	input, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%w: they must be an object", ErrInput)
	}
	if err := t.schema.ApplyDefaults(&input); err != nil {
		return nil, inputError(err)
	}
	if err := schemafit.Check(t.schema, input); err != nil {
		return nil, inputError(err)
	}
	// Defaults come in as the schema library decodes them: bring their numbers into our kinds.
	encoded, err := json.Marshal(input)
	if err != nil {
		return nil, inputError(err)
	}
	value, err = template.Decode(encoded)
	if err != nil {
		return nil, inputError(err)
	}
	return value.(map[string]any), nil
}

func inputError(err error) error {
	message := []rune(firstLine(err.Error()))
	if len(message) > maxInputError {
		message = append(message[:maxInputError], '…')
	}
	return fmt.Errorf("%w: %s", ErrInput, string(message))
}

// ParseOutput turns an output into a step's value, as Parse of its definition says.
func ParseOutput(parse, output string) (any, error) {
	switch parse {
	case ParseJSON:
		value, err := template.Decode([]byte(output))
		if err != nil {
			return nil, fmt.Errorf("the output is not JSON: %s", firstLine(err.Error()))
		}
		return value, nil
	case ParseLines:
		lines := []any{}
		for _, line := range template.SplitLines(output) {
			lines = append(lines, line)
		}
		return lines, nil
	}
	return strings.TrimSuffix(strings.TrimSuffix(output, "\n"), "\r"), nil
}
