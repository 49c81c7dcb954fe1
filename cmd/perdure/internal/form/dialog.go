package form

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/perdure/perdure/cmd/perdure/internal/present"
)

// Dialog asks a person in a terminal, one question at a time. It is safe for concurrent use.
type Dialog struct {
	out   io.Writer
	lines <-chan string

	mu sync.Mutex // held by the question that is being asked
}

// NewDialog reads answers from in, by lines, until its end.
func NewDialog(in io.Reader, out io.Writer) *Dialog {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return &Dialog{out: out, lines: lines}
}

// Answer is what a person did with a question.
type Answer struct {
	// Action is accept, decline or cancel, as MCP names them.
	Action  string
	Content map[string]any
	Reason  string
}

// The actions.
const (
	Accept  = "accept"
	Decline = "decline"
	Leave   = "cancel"
)

// errLeave says that the person leaves the question open.
var errLeave = errors.New("left open")

// Approval asks for a decision: approve, edit or reject.
func (d *Dialog) Approval(ctx context.Context, message string) (Answer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, "\n%s\n", present.Safe(message))
	for {
		text, err := d.line(ctx, "approve, edit, reject, or leave it open? [a/e/r/l] ")
		if err != nil {
			return left(err)
		}
		content := map[string]any{}
		switch strings.ToLower(text) {
		case "a", "approve", "y", "yes":
			content["decision"] = "approve"
		case "e", "edit":
			content["decision"] = "edit"
			content["value"], err = d.json(ctx, "the changed proposal, as JSON on one line: ")
		case "r", "reject", "n", "no":
			content["decision"] = "reject"
			content["reason"], err = d.some(ctx, "why? ")
		case "l", "leave":
			err = errLeave
		default:
			continue
		}
		if err != nil {
			return left(err)
		}
		return Answer{Action: Accept, Content: content}, nil
	}
}

// Form asks for the fields of an object schema.
func (d *Dialog) Form(ctx context.Context, message string, schema json.RawMessage) (Answer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, "\n%s\n", present.Safe(message))
	for {
		text, err := d.line(ctx, "answer, decline, or leave it open? [Enter/d/l] ")
		if err != nil {
			return left(err)
		}
		switch strings.ToLower(text) {
		case "", "a", "answer", "y", "yes":
			content, err := d.fields(ctx, schema)
			if err != nil {
				return left(err)
			}
			return Answer{Action: Accept, Content: content}, nil
		case "d", "decline", "n", "no":
			reason, err := d.line(ctx, "why (optional)? ")
			if err != nil {
				return left(err)
			}
			return Answer{Action: Decline, Reason: reason}, nil
		case "l", "leave":
			return left(errLeave)
		}
	}
}

// left makes the answer of a person who leaves, or who is gone: the question stays open.
func left(err error) (Answer, error) {
	if errors.Is(err, errLeave) || errors.Is(err, io.EOF) {
		return Answer{Action: Leave}, nil
	}
	return Answer{}, err
}

func (d *Dialog) fields(ctx context.Context, schema json.RawMessage) (map[string]any, error) {
	content := map[string]any{}
	for _, f := range fields(schema) {
		v, given, err := d.field(ctx, &f)
		if err != nil {
			return nil, err
		}
		if given {
			content[f.name] = v
		}
	}
	return content, nil
}

// field asks for one field until the answer has its type.
func (d *Dialog) field(ctx context.Context, f *field) (v any, given bool, err error) {
	if text := strings.TrimSpace(f.Title + " " + f.Description); text != "" {
		fmt.Fprintln(d.out, "  "+present.Clip(text, 200))
	}
	for i, choice := range f.Enum {
		fmt.Fprintf(d.out, "  %d) %s\n", i+1, present.Short(choice, 80))
	}
	for {
		text, err := d.line(ctx, "  "+present.Clip(f.name, 64)+f.notes()+": ")
		if err != nil {
			return nil, false, err
		}
		switch {
		case text == "" && f.Default != nil:
			return f.Default, true, nil
		case text == "" && !f.required:
			return nil, false, nil
		case text == "" && f.Type != "string":
			continue
		case len(f.Enum) > 0:
			if v := f.choice(text); v != nil {
				return v, true, nil
			}
			continue
		}
		if v, err = f.value(text); err == nil {
			return v, true, nil
		}
		fmt.Fprintln(d.out, "  "+present.Clip(err.Error(), 200))
	}
}

func (f *field) notes() string {
	switch {
	case f.Default != nil:
		return " [" + present.Short(f.Default, 40) + "]"
	case !f.required:
		return " (optional)"
	case f.Type == "boolean":
		return " [y/n]"
	}
	return ""
}

// choice finds one of the enumerated values by its number or its text.
func (f *field) choice(text string) json.RawMessage {
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(f.Enum) {
		return f.Enum[n-1]
	}
	for _, e := range f.Enum {
		var s string
		if json.Unmarshal(e, &s) == nil && s == text || string(e) == text {
			return e
		}
	}
	return nil
}

// some asks until there is an answer.
func (d *Dialog) some(ctx context.Context, prompt string) (string, error) {
	for {
		text, err := d.line(ctx, prompt)
		if err != nil || text != "" {
			return text, err
		}
	}
}

// json asks until the answer is JSON.
func (d *Dialog) json(ctx context.Context, prompt string) (string, error) {
	for {
		text, err := d.some(ctx, prompt)
		if err != nil || json.Valid([]byte(text)) {
			return text, err
		}
		fmt.Fprintln(d.out, "that is not JSON")
	}
}

func (d *Dialog) line(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(d.out, prompt)
	select {
	case text, ok := <-d.lines:
		if !ok {
			fmt.Fprintln(d.out)
			return "", io.EOF
		}
		return strings.TrimSpace(text), nil
	case <-ctx.Done():
		fmt.Fprintln(d.out, "\n(no longer open)")
		return "", ctx.Err()
	}
}
