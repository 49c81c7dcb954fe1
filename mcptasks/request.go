//lint:file-ignore SA1019 roots, sampling and logging are deprecated (SEP-2577) and still served for as long as clients have them

package mcptasks

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
)

// generation is the protocol revision that a request follows, as far as tasks are concerned.
type generation uint8

const (
	// generationNone knows no tasks.
	generationNone generation = iota
	// generation2025 has the experimental tasks of revision 2025-11-25.
	generation2025
	// generation2026 has the Tasks extension, and declares capabilities in each request.
	generation2026
)

// request is what the front end needs to know of a request.
type request struct {
	generation generation
	// tasks says that the request declares the Tasks extension.
	tasks bool
	// task2025 is the parameter "task" of a 2025-11-25 request; nil where it has none.
	task2025 *taskParam2025
	// accepts are the kinds of questions that the client can answer (see the accepts constants).
	accepts []string
	caller  Caller
	extra   *mcp.RequestExtra
	session *mcp.ServerSession
}

// What history.Spec.Accepts holds: the methods of the questions that a run's client can answer. A question in URL
// mode is a method of its own here, because clients declare it apart.
const (
	acceptsQuestion = history.MethodQuestion
	acceptsForm     = methodElicit
	acceptsURL      = methodElicit + "#url"
	acceptsSampling = methodSample
	acceptsRoots    = methodRoots
)

// declaring is a request that carries capabilities. Its methods panic where a custom method came without parameters.
type declaring interface {
	ProtocolVersion() string
	ClientCapabilities() *mcp.ClientCapabilities
}

func (s *Server) inspect(ctx context.Context, req mcp.Request) (*request, error) {
	r := &request{extra: req.GetExtra()}
	r.session, _ = req.GetSession().(*mcp.ServerSession)
	meta := requestMeta(req)
	if v, _ := meta[mcp.MetaKeyProtocolVersion].(string); v >= revision2026 {
		r.generation = generation2026
		// Only the request's own declaration counts; ClientCapabilities falls back to the session's.
		if _, own := meta[mcp.MetaKeyClientCapabilities]; own {
			r.declare(req.(declaring).ClientCapabilities())
		}
	} else if r.session != nil {
		if p := r.session.InitializeParams(); p != nil {
			if p.ProtocolVersion == revision2025 {
				r.generation = generation2025
				r.task2025 = taskParamOf(r.extra)
			}
			r.declare(p.Capabilities)
			r.tasks = false
		}
	}
	var err error
	r.caller, err = s.identify(ctx, r.extra)
	return r, err
}

// requestMeta returns the _meta of the request; nil where there is none, or no parameters.
func requestMeta(req mcp.Request) map[string]any {
	p := req.GetParams()
	if p == nil || reflect.ValueOf(p).IsNil() { // a typed nil: custom methods may come without parameters
		return nil
	}
	return p.GetMeta()
}

func (r *request) declare(c *mcp.ClientCapabilities) {
	if c == nil {
		return
	}
	_, r.tasks = c.Extensions[ExtensionID]
	if e := c.Elicitation; e != nil {
		if e.Form != nil || e.URL == nil { // neither means form, as in revision 2025-06-18
			r.accepts = append(r.accepts, acceptsQuestion, acceptsForm)
		}
		if e.URL != nil {
			r.accepts = append(r.accepts, acceptsURL)
		}
	}
	if c.Sampling != nil {
		r.accepts = append(r.accepts, acceptsSampling)
	}
	if c.RootsV2 != nil {
		r.accepts = append(r.accepts, acceptsRoots)
	}
}

// wantsTask reports whether the request is to be answered with a task.
func (r *request) wantsTask() bool {
	switch r.generation {
	case generation2026:
		return r.tasks
	case generation2025:
		return r.task2025 != nil
	}
	return false
}

// taskParam2025 is the parameter "task" of tools/call in revision 2025-11-25.
type taskParam2025 struct {
	// TTL is the retention that the client wishes for, in milliseconds.
	TTL *int64 `json:"ttl"`
}

// Headers by which the transport layer hands on what the SDK's typed parameters drop. They are removed from what
// clients send.
const (
	privatePrefix   = "X-Perdure-Private-"
	headerTaskParam = privatePrefix + "Task"
	headerTaskIDs   = privatePrefix + "Taskids"
)

func taskParamOf(x *mcp.RequestExtra) *taskParam2025 {
	if x == nil || x.Header.Get(headerTaskParam) == "" {
		return nil
	}
	var p taskParam2025
	if json.Unmarshal([]byte(x.Header.Get(headerTaskParam)), &p) != nil {
		return &taskParam2025{} // a task is wished for, on the server's terms
	}
	return &p
}

type requestKey struct{}

func withRequest(ctx context.Context, r *request) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// requestFrom returns what the middleware learned about the request of a custom method.
func requestFrom(ctx context.Context) *request { return ctx.Value(requestKey{}).(*request) }
