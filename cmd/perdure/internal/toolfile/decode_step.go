package toolfile

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Defaults of steps, as docs/tool-files.md gives them.
const (
	defaultRunTimeout  = Duration(10 * time.Minute)
	defaultHTTPTimeout = Duration(30 * time.Second)
	defaultFirst       = Duration(time.Second)
	defaultLongest     = Duration(time.Minute)
	defaultOutput      = 64 << 10
	highestOutput      = 512 << 10
	maxAttempts        = 1000
	maxParallel        = 64
)

// stepKinds are the keys that say what a step does.
var stepKinds = []string{"run", "http", "ask", "sleep", "wait"}

// stepKeys says which kinds of step know a key.
var stepKeys = map[string][]string{
	"name": stepKinds, "status": stepKinds, "when": stepKinds, "foreach": stepKinds, "parallel": stepKinds,
	"timeout": {"run", "http"}, "retry": {"run", "http"}, "on_error": {"run", "http"},
	"parse": {"run", "http"}, "max_output": {"run", "http"},
	"run": {"run"}, "env": {"run"}, "pass_env": {"run"}, "dir": {"run"}, "stdin": {"run"}, "allow_dash": {"run"}, "exit": {"run"},
	"http": {"http"}, "ask": {"ask"}, "sleep": {"sleep"}, "wait": {"wait"},
}

// elsewhere maps words that other tools use to ours.
var elsewhere = map[string]string{
	"if": "when", "command": "run", "cmd": "run", "exec": "run", "shell": "run", "script": "run", "loop": "foreach",
	"with_items": "foreach", "cwd": "dir", "working_directory": "dir", "id": "name", "retries": "retry",
	"request": "http", "url": "http", "signal": "wait", "prompt": "ask", "approve": "ask", "environment": "env",
}

// inside are keys that belong into what the step does, and not beside it.
var inside = map[string][]string{
	"ask":  {"message", "approve", "fields", "deadline", "on_decline", "on_timeout"},
	"wait": {"signal", "deadline", "on_timeout"},
	"http": {"method", "url", "query", "headers", "json", "body", "expect"},
}

func (d decoder) step(n *node, kinds []string) *Step {
	step := &Step{}
	if n.kind != object {
		d.wrong(n, fmt.Sprintf("a step must be a mapping, not %s", n.kind), "begin it with - name:")
		return step
	}
	step.Name = d.stepName(n.get("name"), n)
	if step.Name != "" {
		d.where = strings.TrimPrefix(d.where+", step "+step.Name, ", ")
	}
	kind := d.kind(n, kinds)
	d.stepKeys(n, kind)
	step.Status = d.text(n.get("status"), "status")
	step.When = d.condition(n.get("when"))
	d.foreach(step, n)
	if kind == "run" || kind == "http" {
		fallback := defaultRunTimeout
		if kind == "http" {
			fallback = defaultHTTPTimeout
		}
		step.Timeout = d.duration(n.get("timeout"), "timeout", fallback)
		step.Retry = d.retry(n.get("retry"))
		step.OnError = d.choice(n.get("on_error"), "on_error", Fail, Continue)
	}
	switch kind {
	case "run":
		step.Run = d.run(n)
	case "http":
		step.HTTP = d.http(n)
	case "ask":
		step.Ask = d.ask(n.get("ask"))
	case "sleep":
		step.Sleep = d.sleep(n.get("sleep"))
	case "wait":
		step.Wait = d.wait(n.get("wait"))
	}
	return step
}

func (d decoder) stepName(name, step *node) string {
	if name == nil {
		d.wrong(step, "a step needs a name", "")
		return ""
	}
	value := d.literal(name, "a step's name")
	if value != "" && !stepForm.MatchString(value) {
		d.wrong(name, fmt.Sprintf("%q cannot name a step", value), "use up to 64 letters, digits and _, so that ${steps.NAME} can be written")
		return ""
	}
	return value
}

func (d decoder) kind(n *node, kinds []string) string {
	var found []string
	for _, f := range n.fields {
		if name := f.key.value.(string); slices.Contains(kinds, name) {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 0:
		d.wrong(n, "the step does nothing", "give it one of "+oneOf(kinds))
		return ""
	case 1:
		return found[0]
	}
	d.wrong(n, fmt.Sprintf("the step has %s", strings.Join(found, " and ")), "a step does one thing: make it several")
	return found[0]
}

// stepKeys reports keys that no step, or not this kind of step, knows.
func (d decoder) stepKeys(n *node, kind string) {
	var known []string
	for key, kinds := range stepKeys {
		if kind == "" || slices.Contains(kinds, kind) {
			known = append(known, key)
		}
	}
	slices.Sort(known)
	for _, f := range n.fields {
		name := f.key.value.(string)
		switch kinds, ok := stepKeys[name]; {
		case slices.Contains(known, name), slices.Contains(stepKinds, name):
		case slices.Contains(inside[kind], name):
			d.wrong(f.key, fmt.Sprintf("%s stands beside %s", name, kind), fmt.Sprintf("write it inside: %s: {%s: …}", kind, name))
		case ok:
			d.wrong(f.key, fmt.Sprintf("%s does not go with a %s step", name, kind), "it belongs to "+oneOf(kinds))
		case elsewhere[name] != "":
			d.wrong(f.key, fmt.Sprintf("unknown key %q", name), fmt.Sprintf("did you mean %s?", elsewhere[name]))
		default:
			d.wrong(f.key, fmt.Sprintf("unknown key %q", name), meant(name, known))
		}
	}
}

// condition reads a when: an expression, with or without ${} around it.
func (d decoder) condition(n *node) string {
	if n == nil {
		return ""
	}
	if n.kind == boolean {
		return n.source
	}
	value := strings.TrimSpace(d.text(n, "when"))
	if value == "" {
		d.wrong(n, "when is empty", "write a condition, for example input.size > 0")
	}
	return value
}

func (d decoder) foreach(step *Step, n *node) {
	items, parallel := n.get("foreach"), n.get("parallel")
	if items == nil {
		if parallel != nil {
			d.wrong(parallel, "parallel without foreach", "say over which list: foreach: ${…}")
		}
		return
	}
	if items.kind != list && items.kind != text {
		d.wrong(items, fmt.Sprintf("foreach must be a list, not %s", items.kind), "write a list or one template that gives a list")
		return
	}
	step.ForEach = items.encode()
	step.Parallel = d.number(parallel, "parallel", 1, maxParallel, 1)
}

func (d decoder) retry(n *node) *Retry {
	if n == nil {
		return nil
	}
	r := &Retry{Max: 1, First: defaultFirst, Longest: defaultLongest, Factor: 2}
	if n.kind == integer {
		r.Max = d.number(n, "retry", 1, maxAttempts, 1)
		return r
	}
	if !d.object(n, "retry", "max", "first", "longest", "factor") {
		return r
	}
	if n.get("max") == nil {
		d.wrong(n, "retry needs max", "say how many attempts there are in all")
	}
	r.Max = d.number(n.get("max"), "max", 1, maxAttempts, 1)
	r.First = d.duration(n.get("first"), "first", defaultFirst)
	r.Longest = d.duration(n.get("longest"), "longest", max(defaultLongest, r.First))
	if r.Longest < r.First {
		d.wrong(n.get("longest"), "longest is shorter than first", "")
	}
	if f := n.get("factor"); f != nil {
		r.Factor = d.factor(f)
	}
	return r
}

func (d decoder) factor(n *node) float64 {
	value, ok := n.value.(float64)
	if whole, isInt := asInt(n); isInt {
		value, ok = float64(whole), true
	}
	if !ok || value < 1 || value > 100 {
		d.wrong(n, "factor must be a number from 1 to 100", "")
		return 2
	}
	return value
}

func (d decoder) ask(n *node) *Ask {
	a := &Ask{OnDecline: Fail, OnTimeout: Fail}
	if !d.object(n, "ask", "message", "approve", "fields", "deadline", "on_decline", "on_timeout") {
		return a
	}
	a.Message = d.text(n.get("message"), "message")
	if n.get("message") == nil || (a.Message == "" && n.get("message").kind == text) {
		d.wrong(n, "ask needs a message", "write what the person is to read")
	}
	approve, fields := n.get("approve"), n.get("fields")
	if (approve == nil) == (fields == nil) {
		d.wrong(n, "ask needs approve or fields", "approve: a proposal to approve, edit or reject; fields: what to fill in, for example fields: {go: boolean}")
	}
	if approve != nil {
		a.Approve = approve.encode()
	} else if fields != nil {
		a.Fields = d.form(fields)
	}
	a.Deadline = d.duration(n.get("deadline"), "deadline", 0)
	a.OnDecline = d.choice(n.get("on_decline"), "on_decline", Fail, Continue)
	a.OnTimeout = d.onTimeout(n, a.Deadline)
	return a
}

func (d decoder) onTimeout(n *node, deadline Duration) string {
	on := n.get("on_timeout")
	if on != nil && deadline == 0 && n.get("deadline") == nil {
		d.wrong(on, "on_timeout without a deadline", "say how long: deadline: 2h")
	}
	return d.choice(on, "on_timeout", Fail, Continue)
}

func (d decoder) sleep(n *node) *Sleep {
	if n.kind == text && strings.Contains(n.value.(string), "${") {
		return &Sleep{For: n.value.(string)}
	}
	return &Sleep{For: d.duration(n, "sleep", Duration(time.Second)).String()}
}

func (d decoder) wait(n *node) *Wait {
	w := &Wait{OnTimeout: Fail}
	name := n
	if n.kind != text {
		if !d.object(n, "wait", "signal", "deadline", "on_timeout") {
			return w
		}
		if name = n.get("signal"); name == nil {
			d.wrong(n, "wait needs a signal", "give its name: signal: paid")
			return w
		}
		w.Deadline = d.duration(n.get("deadline"), "deadline", 0)
		w.OnTimeout = d.onTimeout(n, w.Deadline)
	}
	w.Signal = d.literal(name, "a signal's name")
	if name.kind == text && !strings.Contains(name.value.(string), "${") && !toolForm.MatchString(w.Signal) {
		d.wrong(name, fmt.Sprintf("%q cannot name a signal", w.Signal), "use 1 to 128 letters, digits, _, - and .")
	}
	return w
}

// notify reads the hook: one run or http step without a name.
func (d decoder) notify(n *node) *Notify {
	d.where = "notify"
	if n.kind != object {
		d.wrong(n, fmt.Sprintf("notify must be a mapping, not %s", n.kind), "give it run or http")
		return &Notify{}
	}
	for _, key := range []string{"name", "status", "when", "foreach", "parallel", "on_error", "parse"} {
		if v := n.get(key); v != nil {
			d.wrong(v, key+" does not go with notify", "")
		}
	}
	named := *n
	named.fields = append([]field{{
		key:   &node{kind: text, value: "name"},
		value: &node{kind: text, value: "notify"},
	}}, n.fields...)
	d.where = ""
	hook := &Notify{Step: *d.step(&named, []string{"run", "http"})}
	if hook.HTTP != nil && n.get("http").get("method") == nil {
		hook.HTTP.Method = http.MethodPost // it carries the question
	}
	return hook
}
