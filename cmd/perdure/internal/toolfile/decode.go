package toolfile

import (
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// decoder turns nodes into the model. Each method reports what is wrong with its node and returns what it could make
// of it, so that one pass finds all mistakes.
type decoder struct {
	*source
	dir   string // relative paths start here
	where string // the tool and step at hand, for problems
}

func (d decoder) wrong(n *node, message, hint string) {
	d.at(n, d.where, message, hint)
}

// object checks that n is a mapping with known keys.
func (d decoder) object(n *node, what string, known ...string) bool {
	if n.kind != object {
		d.wrong(n, fmt.Sprintf("%s must be a mapping, not %s", what, n.kind), "known here: "+strings.Join(known, ", "))
		return false
	}
	for _, f := range n.fields {
		if name := f.key.value.(string); !slices.Contains(known, name) {
			d.wrong(f.key, fmt.Sprintf("unknown key %q", name), meant(name, known))
		}
	}
	return true
}

// text reads a text. A missing node gives "".
func (d decoder) text(n *node, what string) string {
	if n == nil {
		return ""
	}
	if n.kind != text {
		hint := "write a text"
		if n.kind == integer || n.kind == float || n.kind == boolean {
			hint = fmt.Sprintf("put it in quotes: %q", n.source)
		}
		d.wrong(n, fmt.Sprintf("%s must be a text, not %s", what, n.kind), hint)
		return ""
	}
	return n.value.(string)
}

// literal reads a text that must not hold a template.
func (d decoder) literal(n *node, what string) string {
	value := d.text(n, what)
	if at := strings.Index(value, "${"); at >= 0 {
		line, column := d.inside(n, at)
		d.report(line, column, d.where, what+" cannot hold a template", "write it out: only arguments, values and texts are filled in")
		return ""
	}
	return value
}

// scalar reads a text, number or boolean as the text that stands in the file.
func (d decoder) scalar(n *node, what string) string {
	switch n.kind {
	case text:
		return n.value.(string)
	case integer, float, boolean:
		return n.source
	}
	d.wrong(n, fmt.Sprintf("%s must be a text, not %s", what, n.kind), "")
	return ""
}

// texts reads a mapping of names to scalars.
func (d decoder) texts(n *node, what string) map[string]string {
	if n == nil {
		return nil
	}
	if n.kind != object {
		d.wrong(n, fmt.Sprintf("%s must be a mapping of names to texts, not %s", what, n.kind), "")
		return nil
	}
	out := map[string]string{}
	for _, f := range n.fields {
		out[f.key.value.(string)] = d.scalar(f.value, what+" "+f.key.value.(string))
	}
	return out
}

func (d decoder) boolean(n *node, what string) bool {
	if n == nil {
		return false
	}
	if n.kind != boolean {
		d.wrong(n, fmt.Sprintf("%s must be true or false, not %s", what, n.kind), "write it without quotes; yes and no are texts")
		return false
	}
	return n.value.(bool)
}

// number reads an integer from low to high; a missing node gives the fallback.
func (d decoder) number(n *node, what string, low, high, fallback int) int {
	if n == nil {
		return fallback
	}
	value, ok := asInt(n)
	if low == high && value != low {
		d.wrong(n, fmt.Sprintf("%s must be %d", what, low), "")
		return fallback
	}
	if !ok || value < low || value > high {
		d.wrong(n, fmt.Sprintf("%s must be a whole number from %d to %d", what, low, high), "")
		return fallback
	}
	return value
}

func asInt(n *node) (int, bool) {
	if n.kind != integer {
		return 0, false
	}
	switch v := n.value.(type) {
	case int64:
		return int(v), true
	case uint64:
		return int(v), v <= math.MaxInt
	}
	return 0, false
}

// duration reads a span of time above 0; a missing node gives the fallback.
func (d decoder) duration(n *node, what string, fallback Duration) Duration {
	if n == nil {
		return fallback
	}
	if n.kind != text {
		hint := "write for example 30s, 10m, 2h or 7d"
		if n.kind == integer {
			hint = fmt.Sprintf("say of what: %ss, %sm, %sh", n.source, n.source, n.source)
		}
		d.wrong(n, what+" needs a unit", hint)
		return fallback
	}
	value, err := ParseDuration(n.value.(string))
	if err != nil {
		message, hint, _ := strings.Cut(err.Error(), "; ")
		d.wrong(n, fmt.Sprintf("%s: %s", what, message), hint)
		return fallback
	}
	if value == 0 {
		d.wrong(n, what+" must be longer than 0", "")
		return fallback
	}
	return value
}

// choice reads one of several words; a missing node gives the first.
func (d decoder) choice(n *node, what string, words ...string) string {
	if n == nil {
		return words[0]
	}
	value, _ := n.value.(string)
	if !slices.Contains(words, value) {
		hint := "write " + oneOf(words)
		d.wrong(n, fmt.Sprintf("%s cannot be %q", what, n.source), hint)
		return words[0]
	}
	return value
}

var sizeForm = regexp.MustCompile(`^(\d{1,9})(B|KiB|MiB)?$`)

// size reads a number of bytes: 65536, 64KiB, 1MiB.
func (d decoder) size(n *node, what string, highest, fallback int) int {
	if n == nil {
		return fallback
	}
	parts := sizeForm.FindStringSubmatch(d.scalar(n, what))
	if parts == nil {
		d.wrong(n, what+" is not a size", "write for example 65536, 64KiB or 1MiB")
		return fallback
	}
	value, err := strconv.Atoi(parts[1])
	if err != nil {
		d.wrong(n, what+" is not a size", err.Error())
		return fallback
	}
	value *= map[string]int{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[parts[2]]
	if value < 1 || value > highest {
		d.wrong(n, fmt.Sprintf("%s must be from 1 to %d bytes", what, highest), "")
		return fallback
	}
	return value
}

// path makes a path of the file absolute.
func (d decoder) path(value string) string {
	if value == "" || filepath.IsAbs(value) {
		return value
	}
	return filepath.Join(d.dir, value)
}

func (d decoder) file(root *node) *File {
	file := &File{Name: d.name}
	if !d.object(root, "the file", "version", "secrets", "allow_private", "notify", "tools") {
		return file
	}
	d.number(root.get("version"), "version", 1, 1, 1)
	secrets := d.secrets(root.get("secrets"))
	private := d.private(root.get("allow_private"))
	if n := root.get("notify"); n != nil {
		file.Notify = d.notify(n)
		file.Notify.Secrets, file.Notify.AllowPrivate = secrets, private
	}
	tools := root.get("tools")
	if tools == nil {
		d.wrong(root, "tools is missing", "list at least one tool under tools:")
		return file
	}
	if tools.kind != list || len(tools.items) == 0 {
		d.wrong(tools, "tools must be a list of at least one tool", "begin each with - name:")
		return file
	}
	for _, n := range tools.items {
		tool := d.tool(n)
		tool.Secrets, tool.AllowPrivate = secrets, private
		file.Tools = append(file.Tools, tool)
	}
	return file
}

var (
	secretForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	toolForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)
	stepForm   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
)

func (d decoder) secrets(n *node) map[string]SecretSource {
	if n == nil {
		return nil
	}
	if n.kind != object {
		d.wrong(n, fmt.Sprintf("secrets must be a mapping, not %s", n.kind), "write for example TOKEN: {env: MY_TOKEN}")
		return nil
	}
	out := map[string]SecretSource{}
	for _, f := range n.fields {
		name := f.key.value.(string)
		d.where = "secret " + name
		if !secretForm.MatchString(name) {
			d.wrong(f.key, "a secret's name has letters, digits and _", "")
		}
		out[name] = d.secret(f.value)
	}
	return out
}

func (d decoder) secret(n *node) SecretSource {
	if !d.object(n, "a secret", "env", "file") {
		return SecretSource{}
	}
	s := SecretSource{
		Env:  d.literal(n.get("env"), "env"),
		File: d.path(d.literal(n.get("file"), "file")),
	}
	if (n.get("env") == nil) == (n.get("file") == nil) {
		d.wrong(n, "a secret comes from one place", "give env: VARIABLE or file: PATH")
	}
	return s
}

// private reads the private addresses that may be reached. Names are refused: what they mean may change between the
// check and the connection.
func (d decoder) private(n *node) []string {
	if n == nil {
		return nil
	}
	if n.kind != list {
		d.wrong(n, fmt.Sprintf("allow_private must be a list, not %s", n.kind), "write for example [127.0.0.1:8080, 10.0.0.0/8]")
		return nil
	}
	var out []string
	for _, item := range n.items {
		value := d.scalar(item, "an address")
		_, plain := netip.ParseAddr(value)
		_, port := netip.ParseAddrPort(value)
		_, prefix := netip.ParsePrefix(value)
		if plain != nil && port != nil && prefix != nil {
			d.wrong(item, fmt.Sprintf("%q is not an address", value), "write ADDRESS, ADDRESS:PORT or ADDRESS/BITS with numbers, for example 127.0.0.1:8080")
			continue
		}
		out = append(out, value)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (d decoder) tool(n *node) *Tool {
	t := &Tool{Format: Format}
	if !d.object(n, "a tool", "name", "title", "description", "input", "steps", "result", "retention", "deadline", "sync_wait", "concurrency") {
		return t
	}
	if name := n.get("name"); name == nil {
		d.wrong(n, "a tool needs a name", "")
	} else if t.Name = d.literal(name, "a tool's name"); t.Name != "" {
		d.where = "tool " + t.Name
		if !toolForm.MatchString(t.Name) {
			d.wrong(name, "a tool's name has 1 to 128 letters, digits, _, - and .", "")
		}
	}
	t.Title = d.literal(n.get("title"), "title")
	t.Description = d.literal(n.get("description"), "description")
	if n.get("description") == nil {
		d.wrong(n, "a tool needs a description", "say in a sentence what it does: that is how a client chooses it")
	}
	t.Input = d.input(n.get("input"))
	if result := n.get("result"); result != nil {
		t.Result = result.encode()
	}
	t.Retention = d.retention(n.get("retention"))
	t.Deadline = d.duration(n.get("deadline"), "deadline", 0)
	if wait := n.get("sync_wait"); wait != nil {
		value := d.duration(wait, "sync_wait", 0)
		t.SyncWait = &value
	}
	t.Concurrency = d.concurrency(n.get("concurrency"))
	t.Steps = d.steps(n)
	return t
}

// maxConcurrency bounds a limit: more is no bound.
const maxConcurrency = 1_000_000

// concurrency reads a limit for the tool as a whole, or a limit for each key.
func (d decoder) concurrency(n *node) *Concurrency {
	if n == nil {
		return nil
	}
	if n.kind != object {
		return &Concurrency{Key: "${run.tool}", Limit: d.number(n, "concurrency", 1, maxConcurrency, 1)}
	}
	if !d.object(n, "concurrency", "key", "limit") {
		return nil
	}
	if n.get("key") == nil {
		d.wrong(n, "concurrency needs a key", `write for example {key: "${input.account}", limit: 1}, or a number for the tool as a whole`)
	}
	return &Concurrency{Key: d.text(n.get("key"), "key"), Limit: d.number(n.get("limit"), "limit", 1, maxConcurrency, 1)}
}

func (d decoder) retention(n *node) *Duration {
	if n == nil {
		return nil
	}
	value := Forever
	if n.value != "forever" {
		value = d.duration(n, "retention", 0)
	}
	return &value
}

func (d decoder) steps(tool *node) []*Step {
	n := tool.get("steps")
	if n == nil || n.kind != list || len(n.items) == 0 {
		at := n
		if at == nil {
			at = tool
		}
		d.wrong(at, "a tool needs steps: a list of at least one", "begin each with - name:")
		return nil
	}
	var steps []*Step
	first := map[string]*node{}
	for _, item := range n.items {
		step := d.step(item, stepKinds)
		steps = append(steps, step)
		if step.Name == "" {
			continue
		}
		if before := first[step.Name]; before != nil {
			d.wrong(item.get("name"), fmt.Sprintf("a second step named %s", step.Name), fmt.Sprintf("the first is in line %d; names are unique in a tool", before.line))
			continue
		}
		first[step.Name] = item.get("name")
	}
	return steps
}
