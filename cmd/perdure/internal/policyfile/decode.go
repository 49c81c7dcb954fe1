package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
	"github.com/perdure/perdure/history"
)

// rule is a rule and where it stands.
type rule struct {
	history.RetentionRule
	at place
	// keeps says that the rule has a keep: without one it leaves each run's start to say it.
	keeps bool
}

// place is a position in the file.
type place struct {
	offset int64
	where  string // "", or for example rules[2].keep
}

// decoder reads a file token by token, so that each mistake has its line. Syntax ends it; of other mistakes it takes all.
type decoder struct {
	file     string
	data     []byte
	json     *json.Decoder
	problems toolfile.Problems

	exports   string
	exportsAt place
	rules     []rule
}

func decode(file string, data []byte) *decoder {
	d := &decoder{file: file, data: data, json: json.NewDecoder(bytes.NewReader(data))}
	d.json.UseNumber()
	if err := d.top(); err != nil {
		d.syntax(err)
		return d
	}
	d.check()
	return d
}

func (d *decoder) syntax(err error) {
	at := d.json.InputOffset()
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		at = d.past(max(0, syntax.Offset-1))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		at, err = int64(len(d.data)), errors.New("the file ends too early")
	}
	d.wrong(place{offset: at}, "not JSON: "+err.Error(), "see docs/retention.md")
}

// wrong notes a mistake, and what would be right.
func (d *decoder) wrong(at place, message, hint string) {
	before := d.data[:min(at.offset, int64(len(d.data)))]
	line := bytes.LastIndexByte(before, '\n') + 1
	d.problems = append(d.problems, toolfile.Problem{
		File: d.file, Line: bytes.Count(before, []byte{'\n'}) + 1, Column: utf8.RuneCount(before[line:]) + 1,
		Where: at.where, Message: message, Hint: hint,
	})
}

// here is where the next token begins.
func (d *decoder) here(where string) place {
	return place{offset: d.past(d.json.InputOffset()), where: where}
}

// past skips what stands between tokens.
func (d *decoder) past(at int64) int64 {
	for at < int64(len(d.data)) && strings.IndexByte(" \t\r\n,:", d.data[at]) >= 0 {
		at++
	}
	return at
}

func (d *decoder) top() error {
	hasRules := false
	err := d.object("", []string{"exports", "rules"}, func(name string, at place) error {
		if name == "exports" {
			d.exportsAt = at
			text, ok, err := d.text(at, "a path, such as \"exports.jsonl\"")
			if ok && text == "" {
				d.wrong(at, "the path is empty", "leave exports out where nothing is exported")
			}
			d.exports = text
			return err
		}
		hasRules = true
		return d.list(at, d.rule)
	})
	if err != nil {
		return err
	}
	if !hasRules && len(d.problems) == 0 {
		d.wrong(place{}, "it has no rules", `write {"rules": [{"keep": "30d"}]}`)
	}
	end := d.here("")
	if _, err := d.json.Token(); !errors.Is(err, io.EOF) {
		d.wrong(end, "something follows the end of the policy", "write one JSON object")
	}
	return nil
}

// object reads an object whose names must be known ones; field reads the value.
func (d *decoder) object(where string, known []string, field func(name string, at place) error) error {
	at := d.here(where)
	if ok, err := d.open('{', at, "an object with "+strings.Join(known, ", ")); !ok {
		return err
	}
	var seen []string
	for d.json.More() {
		key := d.here(where)
		t, err := d.json.Token()
		if err != nil {
			return err
		}
		name := t.(string) // the decoder takes nothing else here
		switch {
		case !slices.Contains(known, name):
			d.wrong(key, fmt.Sprintf("unknown name %q", name), "known here: "+strings.Join(known, ", "))
			err = d.skip()
		case slices.Contains(seen, name):
			d.wrong(key, fmt.Sprintf("%q is there twice", name), "leave one out")
			err = d.skip()
		default:
			err = field(name, d.here(strings.TrimPrefix(where+"."+name, ".")))
		}
		if err != nil {
			return err
		}
		seen = append(seen, name)
	}
	_, err := d.json.Token() // the end
	return err
}

func (d *decoder) list(at place, item func(where string) error) error {
	if ok, err := d.open('[', at, "a list of rules"); !ok {
		return err
	}
	for n := 1; d.json.More(); n++ {
		if err := item(fmt.Sprintf("%s[%d]", at.where, n)); err != nil {
			return err
		}
	}
	_, err := d.json.Token() // the end
	return err
}

// open takes the beginning of an object or a list; another value is a mistake, and skipped.
func (d *decoder) open(want byte, at place, hint string) (bool, error) {
	if at.offset < int64(len(d.data)) && d.data[at.offset] != want {
		if err := d.skip(); err != nil {
			return false, err
		}
		d.wrong(at, "this is another kind of value", "want "+hint)
		return false, nil
	}
	_, err := d.json.Token()
	return err == nil, err
}

func (d *decoder) skip() error {
	var any json.RawMessage
	return d.json.Decode(&any)
}

// text reads a text; ok is false where something else is there, which is a mistake.
func (d *decoder) text(at place, hint string) (text string, ok bool, err error) {
	var raw json.RawMessage
	if err := d.json.Decode(&raw); err != nil {
		return "", false, err
	}
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		d.wrong(at, fmt.Sprintf("%s is no text", raw), "want "+hint)
		return "", false, nil
	}
	return text, true, nil
}

func (d *decoder) rule(where string) error {
	r, was := rule{at: d.here(where)}, len(d.problems)
	err := d.object(where, []string{"tool", "tenant", "keep", "exportFirst", "keepTombstones", "keepGenerations"}, func(name string, at place) (err error) {
		switch name {
		case "tool":
			var ok bool
			if r.Workflow, ok, err = d.text(at, "the name of a tool"); ok && r.Workflow == "" {
				d.wrong(at, "the name is empty", "leave tool out for the runs of all tools")
			}
		case "tenant":
			var tenant string
			tenant, _, err = d.text(at, "the name of a tenant; \"\" for callers without one")
			r.Tenant = &tenant
		case "keep":
			r.keeps = true
			r.Keep, err = d.span(at)
		case "keepTombstones":
			r.KeepTombstones, err = d.span(at)
		case "keepGenerations":
			r.KeepGenerations, err = d.span(at)
		case "exportFirst":
			r.ExportFirst, err = d.boolean(at)
		}
		return err
	})
	if err == nil && len(d.problems) == was {
		d.rules = append(d.rules, r)
	}
	return err
}

// span reads a span of time; forever is 0.
func (d *decoder) span(at place) (time.Duration, error) {
	const hint = `a time such as "12h" or "30d", or "forever"`
	text, ok, err := d.text(at, hint)
	if !ok || text == "forever" {
		return 0, err
	}
	span, err := toolfile.ParseDuration(text)
	if err != nil {
		d.wrong(at, err.Error(), "want "+hint)
	} else if span == 0 {
		d.wrong(at, "no time at all", "want "+hint)
	}
	return time.Duration(span), nil
}

func (d *decoder) boolean(at place) (bool, error) {
	var raw json.RawMessage
	if err := d.json.Decode(&raw); err != nil {
		return false, err
	}
	if text := string(raw); text != "true" && text != "false" {
		d.wrong(at, text+" is neither true nor false", "want true or false, without quotes")
	}
	return string(raw) == "true", nil
}
