package toolflow

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/perdure/perdure/cmd/perdure/internal/template"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
)

// tool loads a file and gives its first tool's executor.
func tool(t *testing.T, text string, deps Deps) (*toolfile.Tool, executor) {
	t.Helper()
	file, err := toolfile.Parse("tools.yaml", []byte(text), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	one := file.Tools[0]
	return one, executor{texts: one, secrets: one.Secrets, private: one.AllowPrivate, deps: deps}
}

func scopeOf(t *testing.T, input string) template.Scope {
	t.Helper()
	value, err := template.Decode([]byte(input))
	if err != nil {
		t.Fatal(err)
	}
	return template.Scope{template.Input: value, template.Steps: map[string]any{}}
}

func TestHTTPRequest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		err = json.NewEncoder(w).Encode(map[string]any{
			"method": r.Method, "uri": r.RequestURI, "auth": r.Header.Get("Authorization"), "type": r.Header.Get("Content-Type"),
			"key": r.Header.Get("Idempotency-Key"), "body": string(body),
		})
		if err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	def, exec := tool(t, fmt.Sprintf(`
secrets: {T: {env: T}}
allow_private: [%q]
tools:
- name: h
  description: d
  input: {id: string, n: integer}
  steps:
  - name: get
    http:
      url: http://%s/items/${input.id}/x?a=${input.id}
      query: {b: "${input.id}", "c d": e}
      headers: {Authorization: "Bearer ${secret:T}"}
      json: {n: "${input.n}", nested: ["${input.id}", "n=${input.n}", 1.5], token: "${secret:T}"}
    parse: json
`, address, address), Deps{Env: func(string) (string, bool) { return "s3cr3t", true }})
	record, failed := exec.execute(t.Context(), def.Steps[0], scopeOf(t, `{"id":"a/b?c&d e#f","n":7}`), identity{key: "key-1"})
	if failed != nil {
		t.Fatal(failed)
	}
	result, err := resultOf(def.Steps[0], record)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"method": "POST", "uri": "/items/a%2Fb%3Fc&d%20e%23f/x?a=a%2Fb%3Fc%26d+e%23f&b=a%2Fb%3Fc%26d+e%23f&c+d=e",
		"auth": "Bearer [secret:T]", "type": "application/json", "key": "key-1",
		"body": `{"n":7,"nested":["a/b?c&d e#f","n=7",1.5],"token":"[secret:T]"}`,
	}
	if got := fmt.Sprint(result["value"]); got != fmt.Sprint(want) {
		t.Errorf("got\n%v, want\n%v", got, want)
	}
	if strings.Contains(string(record), "s3cr3t") {
		t.Errorf("the secret is on record: %s", record)
	}
}

func TestURLsStayInTheirPlace(t *testing.T) {
	def, exec := tool(t, `
tools:
- name: h
  description: d
  input: {id: string}
  steps:
  - {name: one, http: {url: "https://example.com/items/${input.id}"}}
  - {name: two, http: {url: "https://example.com/items/a${input.id}?q=${input.id}"}}
`, Deps{})
	for value, want := range map[string]string{
		"x": "https://example.com/items/x", "../admin": "https://example.com/items/..%2Fadmin", "@evil.com": "https://example.com/items/@evil.com",
		"a%2e%2e": "https://example.com/items/a%252e%252e", "ü": "https://example.com/items/%C3%BC",
		"..": "ERROR leads elsewhere", ".": "ERROR leads elsewhere", "": "ERROR empty",
	} {
		scope := scopeOf(t, fmt.Sprintf(`{"id":%q}`, value))
		got, err := fillURL(exec.texts, def.Steps[0].HTTP, scope, nil)
		if text, fails := strings.CutPrefix(want, "ERROR "); fails {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%q: %s, %v", value, got, err)
			}
		} else if err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", value, got, err, want)
		}
	}
	got, err := fillURL(exec.texts, def.Steps[1].HTTP, scopeOf(t, `{"id":"&x=1#"}`), nil)
	if want := "https://example.com/items/a&x=1%23?q=%26x%3D1%23"; err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestNotify(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the hook is a shell script")
	}
	dir := t.TempDir()
	load := func(hook string) *toolfile.Notify {
		file, err := toolfile.Parse("tools.yaml", []byte(hook+"\ntools: [{name: a, description: d, steps: [{name: s, sleep: 1s}]}]"), dir)
		if err != nil {
			t.Fatal(err)
		}
		return file.Notify
	}
	question := OpenQuestion{Key: "k1", RunID: "r1", Tool: "a", Message: "Go on?", Approval: true, Proposal: json.RawMessage(`{"x":1}`)}

	hook := load(`notify: {run: [sh, -c, 'cat > body; echo "$1 $PERDURE_IDEMPOTENCY_KEY" > arg', sh, "${question.message}"]}`)
	if err := Notify(t.Context(), hook, question, Deps{}); err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(filepath.Join(dir, "body"))
	if err != nil || string(body) != `{"key":"k1","run_id":"r1","tool":"a","message":"Go on?","approval":true,"proposal":{"x":1}}` {
		t.Errorf("the hook read %s, %v", body, err)
	}
	arg, err := os.ReadFile(filepath.Join(dir, "arg"))
	if err != nil || string(arg) != "Go on? r1/k1\n" {
		t.Errorf("the hook got %q, %v", arg, err)
	}

	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		requests = append(requests, r.Method+" "+r.RequestURI+" "+string(body))
		if len(requests) < 3 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer server.Close()
	hook = load(fmt.Sprintf("allow_private: [127.0.0.1]\nnotify: {http: {url: '%s/q/${question.run_id}'}, retry: {max: 3, first: 1ms}}", server.URL))
	if err := Notify(t.Context(), hook, question, Deps{}); err != nil {
		t.Fatal(err)
	}
	if len(requests) != 3 || requests[2] != "POST /q/r1 "+string(body) {
		t.Errorf("requests: %q", requests)
	}
	requests = nil
	hook.Retry = nil
	if err := Notify(t.Context(), hook, question, Deps{}); err == nil || !strings.Contains(err.Error(), "502") || len(requests) != 1 {
		t.Errorf("got %v after %d requests", err, len(requests))
	}
}
