package toolfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/perdure/perdure/cmd/perdure/internal/template"
)

// Canonical returns the tool's definition in its one form: compact JSON, fields in the order of the model, maps in
// key order. Equal definitions have equal bytes, wherever their comments, defaults and layout differ.
func (t *Tool) Canonical() []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(t); err != nil {
		panic(fmt.Sprintf("toolfile: tool %s cannot be JSON: %v", t.Name, err)) // loading has proved every raw value
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// Digest names the definition: the SHA-256 of its canonical form, in hexadecimal.
func (t *Tool) Digest() string {
	sum := sha256.Sum256(t.Canonical())
	return hex.EncodeToString(sum[:])
}

// ParseCanonical reads a canonical form, as a run pins it, and proves it as Load does. Its error is a Problems where
// the definition is at fault.
func ParseCanonical(data []byte) (*Tool, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	tool := &Tool{}
	if err := decoder.Decode(tool); err != nil {
		return nil, fmt.Errorf("stored tool definition: %w", err)
	}
	if tool.Format < 1 || tool.Format > Format {
		return nil, fmt.Errorf("stored tool definition %s has format %d; this program reads 1 to %d", tool.Name, tool.Format, Format)
	}
	for i, step := range tool.Steps {
		if step == nil || step.Kind() == "" {
			return nil, fmt.Errorf("stored tool definition %s: step %d does nothing", tool.Name, i)
		}
	}
	engine, err := template.New()
	if err != nil {
		return nil, err
	}
	c := newChecker(engine, &tool.compiled, tool.Secrets, map[string]bool{})
	c.tool(tool)
	var problems Problems
	for _, f := range c.findings {
		if !f.warning {
			problems = append(problems, Problem{File: "stored definition", Where: f.where, Message: f.message, Hint: f.hint})
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return tool, nil
}

// keepUsedSecrets leaves only the secrets that the tool's texts name, so that another tool's secret does not change
// this one's digest.
func (t *Tool) keepUsedSecrets() {
	named := map[string]bool{}
	for _, tmpl := range t.templates {
		for _, s := range tmpl.Secrets() {
			named[s.Name] = true
		}
	}
	t.Secrets = maps.Clone(t.Secrets)
	maps.DeleteFunc(t.Secrets, func(name string, _ SecretSource) bool { return !named[name] })
}
