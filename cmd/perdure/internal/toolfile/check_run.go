package toolfile

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

func (c *checker) run(r *Run, at func(...any) []any, p place) {
	p.secrets = true
	for i, arg := range r.Args {
		path := at("run", i+1)
		whole := p
		whole.list = true // its items become arguments
		t := c.text(path, arg, whole)
		if t == nil {
			continue
		}
		if _, literal := t.Literal(); !literal && !t.Whole() {
			c.add(path, 0, "a template must fill a whole argument",
				`make it an argument of its own, or join texts inside it: ${"--name=" + input.name}`)
		}
		if len(t.Secrets()) > 0 {
			c.warn(path, 0, "a secret in an argument is visible to other users of the machine", "pass it by env or stdin")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		c.text(at("env", name), r.Env[name], p)
	}
	c.text(at("stdin"), r.Stdin, p)
}

func (c *checker) http(h *HTTP, at func(...any) []any, p place) {
	p.secrets = true
	if h.URL != "" {
		c.url(at("http", "url"), h.URL, p)
	}
	for _, name := range slices.Sorted(maps.Keys(h.Query)) {
		c.text(at("http", "query", name), h.Query[name], p)
	}
	for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
		c.text(at("http", "headers", name), h.Headers[name], p)
	}
	if h.JSON != nil {
		c.json(at("http", "json"), h.JSON, p)
	}
	if h.Body != nil {
		c.text(at("http", "body"), *h.Body, p)
	}
}

// url checks that scheme and host are written out: the literal text before the first template must reach past the
// host.
func (c *checker) url(path []any, source string, p place) {
	t := c.text(path, source, p)
	if t == nil {
		return
	}
	fixed, literal := t.Literal()
	if !literal {
		fixed = t.Prefix()
	}
	scheme, rest, ok := strings.Cut(fixed, "://")
	if !ok || (scheme != "http" && scheme != "https") {
		c.add(path, 0, "a url begins with http:// or https://, written out", "")
		return
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 && !literal {
		c.add(path, len(fixed), "the host cannot hold a template", "write the host out; a template may stand in the path and the query")
		return
	}
	if strings.Contains(source, "#") {
		c.add(path, strings.Index(source, "#"), "a fragment is never sent", "remove #…")
	}
	if end >= 0 {
		rest = rest[:end]
	}
	u, err := url.Parse(scheme + "://" + rest)
	switch {
	case err != nil || u.Hostname() == "":
		c.add(path, 0, fmt.Sprintf("%q is not a host", rest), "write for example https://example.com/")
	case u.User != nil:
		c.add(path, 0, "a url cannot hold a user and password", `use a header: Authorization: "Basic ${secret:NAME}"`)
	}
}
