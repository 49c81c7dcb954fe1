package toolfile

import (
	"encoding/json"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/perdure/perdure/cmd/perdure/internal/template"
)

// File is a loaded tool file.
type File struct {
	// Name is the file's name as it was given.
	Name string
	// Tools in the order of the file; names are unique.
	Tools []*Tool
	// Notify runs when a question opens; nil where the file has none. It belongs to the server, not to a tool.
	Notify *Notify
	// Warnings are what is allowed and probably not meant.
	Warnings Problems
}

// Tool returns a tool by name, or nil.
func (f *File) Tool(name string) *Tool {
	for _, tool := range f.Tools {
		if tool.Name == name {
			return tool
		}
	}
	return nil
}

// Format is the version of the canonical form that this package writes. It reads that and older ones.
const Format = 1

// Tool is one tool: a workflow made of steps. Its JSON form is the canonical form: every default is filled in, every
// path absolute, and what it shares with other tools of its file (secrets, allowed addresses) is part of it.
type Tool struct {
	Format      int    `json:"format"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description"`
	// Input is the JSON Schema of the arguments: an object's.
	Input json.RawMessage `json:"input"`
	Steps []*Step         `json:"steps"`
	// Result is a JSON value with templates. Where it is missing the result is the value of the last step that ran.
	Result json.RawMessage `json:"result,omitempty"`
	// Retention is how long a finished run is kept. Nil leaves it to the server.
	Retention *Duration `json:"retention,omitempty"`
	// Deadline bounds a run from start to end, waiting included. 0 is no bound.
	Deadline Duration `json:"deadline,omitempty"`
	// SyncWait bounds how long a client without tasks is kept waiting. Nil leaves it to the server.
	SyncWait *Duration `json:"sync_wait,omitempty"`
	// Concurrency bounds how many runs are executed at once. Nil is no bound.
	Concurrency *Concurrency `json:"concurrency,omitempty"`
	// Secrets are the sources of the secrets that this tool's steps name.
	Secrets map[string]SecretSource `json:"secrets,omitempty"`
	// AllowPrivate lists the private addresses that http steps may reach: ADDRESS, ADDRESS:PORT, PREFIX/BITS.
	AllowPrivate []string `json:"allow_private,omitempty"`

	compiled
}

// compiled is what loading makes of a tool's texts.
type compiled struct {
	schema    *jsonschema.Resolved
	templates map[string]*template.Template
	exprs     map[string]*template.Expr
}

// Concurrency lets at most Limit runs with the same key be executed at once, of one tenant, whichever tools they are of.
type Concurrency struct {
	Key   string `json:"key"` // a template over input, caller and run.tool
	Limit int    `json:"limit"`
}

// SecretSource says where a secret comes from; exactly one field is set.
type SecretSource struct {
	Env  string `json:"env,omitempty"`
	File string `json:"file,omitempty"` // absolute; one line end at its end does not count
}

// Step is one durable step. Exactly one of Run, HTTP, Ask, Sleep and Wait is set.
type Step struct {
	Name string `json:"name"`
	// Status is a template: what the run reports while the step is at work.
	Status string `json:"status,omitempty"`
	// When is an expression; where it gives false the step is skipped.
	When string `json:"when,omitempty"`
	// ForEach is a JSON list with templates, or one template that gives a list. The step runs once an item.
	ForEach json.RawMessage `json:"foreach,omitempty"`
	// Parallel is how many items are at work at once; 1 unless ForEach is set.
	Parallel int `json:"parallel,omitempty"`

	// Timeout bounds one attempt, Retry the attempts. OnError says what happens when they are used up.
	Timeout Duration `json:"timeout,omitempty"`
	Retry   *Retry   `json:"retry,omitempty"`
	OnError string   `json:"on_error,omitempty"` // Fail or Continue

	Run   *Run   `json:"run,omitempty"`
	HTTP  *HTTP  `json:"http,omitempty"`
	Ask   *Ask   `json:"ask,omitempty"`
	Sleep *Sleep `json:"sleep,omitempty"`
	Wait  *Wait  `json:"wait,omitempty"`
}

// What happens after a step that did not succeed, a question that was declined, or a wait whose time ran out.
const (
	Fail     = "fail"     // the run ends with an error
	Continue = "continue" // the next step runs; the result says what happened
)

// Retry is the policy for failed attempts. The delay grows from First by Factor up to Longest.
type Retry struct {
	Max     int      `json:"max"` // attempts in all; 1 is no retry
	First   Duration `json:"first"`
	Longest Duration `json:"longest"`
	Factor  float64  `json:"factor"`
}

// Run executes a program. There is no shell.
type Run struct {
	Program string   `json:"program"`        // a name on PATH or an absolute path
	Args    []string `json:"args,omitempty"` // each literal or one whole template
	Dir     string   `json:"dir"`            // absolute
	// Env holds templates; Pass names variables of the server that the program sees too.
	Env       map[string]string `json:"env,omitempty"`
	Pass      []string          `json:"pass_env,omitempty"`
	Stdin     string            `json:"stdin,omitempty"` // a template
	AllowDash bool              `json:"allow_dash,omitempty"`
	// OK are the exit codes that are success, Final those after which no retry helps.
	OK        []int  `json:"ok"`
	Final     []int  `json:"final,omitempty"`
	Parse     string `json:"parse"`
	MaxOutput int    `json:"max_output"` // bytes kept of each of stdout and stderr
}

// How output becomes a step's value.
const (
	ParseText  = "text"  // without the line end at its end
	ParseJSON  = "json"  // one JSON value
	ParseLines = "lines" // a list of texts
)

// HTTP sends one request.
type HTTP struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`               // scheme and host literal, path and query may hold templates
	Query   map[string]string `json:"query,omitempty"`   // templates
	Headers map[string]string `json:"headers,omitempty"` // templates
	JSON    json.RawMessage   `json:"json,omitempty"`    // a JSON value with templates
	Body    *string           `json:"body,omitempty"`    // a template
	Expect  []StatusRange     `json:"expect"`
	Parse   string            `json:"parse"`
	// MaxOutput bounds the response's body, in bytes.
	MaxOutput int `json:"max_output"`
}

// StatusRange is a range of HTTP status codes, both ends included.
type StatusRange struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Expected reports whether a status is success.
func (h *HTTP) Expected(status int) bool {
	return slices.ContainsFunc(h.Expect, func(r StatusRange) bool { return r.From <= status && status <= r.To })
}

// Ask puts a question to a person. Either Approve or Fields is set.
type Ask struct {
	Message string `json:"message"` // a template
	// Approve is the proposal to approve, edit or reject: a JSON value with templates.
	Approve json.RawMessage `json:"approve,omitempty"`
	// Fields is the JSON Schema of the answer: a flat object's.
	Fields    json.RawMessage `json:"fields,omitempty"`
	Deadline  Duration        `json:"deadline,omitempty"`
	OnDecline string          `json:"on_decline"` // also for a rejected proposal
	OnTimeout string          `json:"on_timeout"`
}

// Sleep waits a while. For is a duration or a template that gives one.
type Sleep struct {
	For string `json:"for"`
}

// Wait waits for a signal.
type Wait struct {
	Signal    string   `json:"signal"`
	Deadline  Duration `json:"deadline,omitempty"`
	OnTimeout string   `json:"on_timeout"`
}

// Notify is what happens when a question opens: a command or a request, with templates over question. A command
// without stdin and a request without body get the question as JSON.
type Notify struct {
	Step
	// Secrets and AllowPrivate are as in Tool.
	Secrets      map[string]SecretSource
	AllowPrivate []string

	compiled
}

// Kind names what a step does: run, http, ask, sleep or wait.
func (s *Step) Kind() string {
	switch {
	case s.Run != nil:
		return "run"
	case s.HTTP != nil:
		return "http"
	case s.Ask != nil:
		return "ask"
	case s.Sleep != nil:
		return "sleep"
	case s.Wait != nil:
		return "wait"
	}
	return ""
}

// Template returns a template of the definition in its compiled form.
func (c *compiled) Template(source string) *template.Template { return c.templates[source] }

// Expr returns a When in its compiled form.
func (c *compiled) Expr(source string) *template.Expr { return c.exprs[source] }
