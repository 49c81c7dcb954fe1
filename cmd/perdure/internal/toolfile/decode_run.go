package toolfile

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func (d decoder) run(n *node) *Run {
	r := &Run{
		Dir:       d.path(d.literal(n.get("dir"), "dir")),
		Env:       d.env(n.get("env")),
		Pass:      d.pass(n.get("pass_env")),
		Stdin:     d.text(n.get("stdin"), "stdin"),
		AllowDash: d.boolean(n.get("allow_dash"), "allow_dash"),
		Parse:     d.choice(n.get("parse"), "parse", ParseText, ParseJSON, ParseLines),
		MaxOutput: d.size(n.get("max_output"), "max_output", highestOutput, defaultOutput),
	}
	if r.Dir == "" {
		r.Dir = d.dir
	}
	r.OK, r.Final = d.exit(n.get("exit"))
	argv := n.get("run")
	if argv.kind != list || len(argv.items) == 0 {
		d.wrong(argv, fmt.Sprintf("run must be a list, not %s", argv.kind), "there is no shell: write [program, argument, …]")
		return r
	}
	r.Program = d.program(argv.items[0])
	for _, item := range argv.items[1:] {
		r.Args = append(r.Args, d.scalar(item, "an argument"))
	}
	return r
}

// program reads the first element of run: a name for PATH, or a path, which is made absolute.
func (d decoder) program(n *node) string {
	if n.kind == boolean { // the programs true and false
		return n.source
	}
	value := d.literal(n, "the program")
	if n.kind == text && n.value == "" {
		d.wrong(n, "the program is empty", "")
	}
	if strings.ContainsRune(value, '/') || strings.ContainsRune(value, filepath.Separator) {
		return d.path(value)
	}
	return value
}

func (d decoder) env(n *node) map[string]string {
	out := d.texts(n, "env")
	if n == nil {
		return out
	}
	for _, f := range n.fields {
		d.envName(f.key)
	}
	return out
}

func (d decoder) envName(n *node) string {
	name := d.literal(n, "a variable's name")
	switch {
	case name == "" || strings.ContainsAny(name, "=\x00"):
		d.wrong(n, fmt.Sprintf("%q cannot name a variable", name), "")
	case strings.HasPrefix(name, "PERDURE_"):
		d.wrong(n, fmt.Sprintf("%s is set by the engine", name), "choose a name that does not begin with PERDURE_")
	}
	return name
}

func (d decoder) pass(n *node) []string {
	if n == nil {
		return nil
	}
	if n.kind != list {
		d.wrong(n, fmt.Sprintf("pass_env must be a list of names, not %s", n.kind), "")
		return nil
	}
	var out []string
	for _, item := range n.items {
		out = append(out, d.envName(item))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (d decoder) exit(n *node) (ok, final []int) {
	ok = []int{0}
	if n == nil || !d.object(n, "exit", "ok", "final") {
		return ok, nil
	}
	if v := n.get("ok"); v != nil {
		ok = d.codes(v, "ok")
	}
	final = d.codes(n.get("final"), "final")
	for _, code := range final {
		if slices.Contains(ok, code) {
			d.wrong(n.get("final"), fmt.Sprintf("exit code %d is in ok and in final", code), "")
		}
	}
	return ok, final
}

func (d decoder) codes(n *node, what string) []int {
	if n == nil {
		return nil
	}
	items := n.items
	if n.kind == integer {
		items = []*node{n}
	} else if n.kind != list || len(items) == 0 {
		d.wrong(n, what+" must be a list of exit codes", "write for example [0, 1]")
		return nil
	}
	var out []int
	for _, item := range items {
		out = append(out, d.number(item, "an exit code", 0, 255, 0))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var httpMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

func (d decoder) http(step *node) *HTTP {
	h := &HTTP{
		Method: http.MethodGet, Expect: []StatusRange{{200, 299}},
		Parse:     d.choice(step.get("parse"), "parse", ParseText, ParseJSON, ParseLines),
		MaxOutput: d.size(step.get("max_output"), "max_output", highestOutput, defaultOutput),
	}
	n := step.get("http")
	if !d.object(n, "http", "method", "url", "query", "headers", "json", "body", "expect") {
		return h
	}
	d.method(h, n)
	h.URL = d.text(n.get("url"), "url")
	if n.get("url") == nil {
		d.wrong(n, "http needs a url", "")
	}
	h.Query = d.texts(n.get("query"), "query")
	h.Headers = d.headers(n.get("headers"))
	d.body(h, n)
	if v := n.get("expect"); v != nil {
		h.Expect = d.expect(v)
	}
	return h
}

func (d decoder) method(h *HTTP, n *node) {
	v := n.get("method")
	if v == nil {
		if n.get("json") != nil || n.get("body") != nil {
			h.Method = http.MethodPost
		}
		return
	}
	method := strings.ToUpper(d.literal(v, "method"))
	if method != "" && !slices.Contains(httpMethods, method) {
		d.wrong(v, fmt.Sprintf("%q is not a method", v.source), "write "+oneOf(httpMethods))
		return
	}
	h.Method = method
}

func (d decoder) body(h *HTTP, n *node) {
	structured, plain := n.get("json"), n.get("body")
	if structured != nil && plain != nil {
		d.wrong(plain, "json and body together", "keep one of them")
	}
	if structured != nil {
		h.JSON = structured.encode()
	} else if plain != nil {
		value := d.text(plain, "body")
		h.Body = &value
	}
	if (structured != nil || plain != nil) && (h.Method == http.MethodGet || h.Method == http.MethodHead) {
		d.wrong(n, h.Method+" has no body", "use POST, PUT or PATCH, or query:")
	}
}

// connectionHeaders belong to the transport: a file that set them could smuggle a second request or another host.
var connectionHeaders = []string{
	"Connection", "Content-Length", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func (d decoder) headers(n *node) map[string]string {
	out := d.texts(n, "header")
	canonical := map[string]string{}
	if n == nil {
		return nil
	}
	for _, f := range n.fields {
		name := d.literal(f.key, "a header's name")
		if name == "" || strings.ContainsFunc(name, notToken) {
			d.wrong(f.key, fmt.Sprintf("%q cannot name a header", name), "")
			continue
		}
		if slices.Contains(connectionHeaders, http.CanonicalHeaderKey(name)) {
			d.wrong(f.key, fmt.Sprintf("the header %s is set by the transport", name), "leave it out")
			continue
		}
		canonical[http.CanonicalHeaderKey(name)] = out[name]
	}
	return canonical
}

// notToken reports characters that a header's name cannot have (RFC 9110, section 5.6.2).
func notToken(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// expect reads status codes: 200, 2xx, or a list of those.
func (d decoder) expect(n *node) []StatusRange {
	items := n.items
	if n.kind != list {
		items = []*node{n}
	}
	var out []StatusRange
	for _, item := range items {
		value := d.scalar(item, "a status")
		if len(value) == 3 && strings.HasSuffix(strings.ToLower(value), "xx") && value[0] >= '1' && value[0] <= '5' {
			first := int(value[0]-'0') * 100
			out = append(out, StatusRange{first, first + 99})
			continue
		}
		code, err := strconv.Atoi(value)
		if err != nil || code < 100 || code > 599 {
			d.wrong(item, fmt.Sprintf("%q is not a status", value), "write for example 200, 2xx or [200, 404]")
			continue
		}
		out = append(out, StatusRange{code, code})
	}
	if n.kind == list && len(items) == 0 {
		d.wrong(n, "expect is empty", "write for example [200, 404]")
	}
	return out
}
