package mcptasks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerSession = "Mcp-Session-Id"
)

// HTTPOptions configures [Server.Handler]. The zero value is useful.
type HTTPOptions struct {
	// Origins are the web origins, such as "https://app.example", whose pages may call the server. Requests of other
	// pages are refused. Default: the server's own origin.
	Origins []string
	// Hosts are the values of the Host header that are served. Default: any, except that a request to a loopback
	// address must name a loopback host (a page that rebinds its name to 127.0.0.1 is refused).
	Hosts []string
	// Rate limits the requests of each caller per second, with bursts of up to Burst (default: 2 × Rate, at least 1).
	// Default: no limit.
	Rate  float64
	Burst int
	// SessionTimeout ends idle sessions of revisions before 2026-07-28. MaxSessions bounds those of all callers; a request that
	// would open one more is refused with 503. Default: 24 h and 1,000.
	SessionTimeout time.Duration
	MaxSessions    int
	// BodyTimeout bounds how long the body of a request may take, so that connections that send nothing do not pile up.
	// Default: 1 minute.
	BodyTimeout time.Duration
	// Auth verifies bearer tokens; without a valid one a request is refused with 401. Default: no authentication;
	// then bind the server to a loopback address.
	Auth auth.TokenVerifier
	// AuthOptions are the SDK's: scopes, and the address of the protected resource's metadata.
	AuthOptions *auth.RequireBearerTokenOptions
}

// Handler serves MCP over streamable HTTP, at any path. Requests of revision 2026-07-28 are stateless; older ones
// have sessions, because elicitation and sampling need them. An error says which option is wrong.
func (s *Server) Handler(o HTTPOptions) (http.Handler, error) {
	cross := http.NewCrossOriginProtection()
	for _, origin := range o.Origins {
		if err := cross.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("mcptasks: Origins: %w: want scheme and host, such as https://app.example", err)
		}
	}
	if slices.Contains(o.Hosts, "") {
		return nil, errors.New("mcptasks: Hosts: an empty host; leave the list empty to serve any")
	}
	if o.Rate < 0 || o.Burst < 0 || o.SessionTimeout < 0 || o.MaxSessions < 0 || o.BodyTimeout < 0 {
		return nil, errors.New("mcptasks: Rate, Burst, SessionTimeout, MaxSessions and BodyTimeout must not be negative")
	}
	o.SessionTimeout = cmp.Or(o.SessionTimeout, 24*time.Hour)
	o.MaxSessions = cmp.Or(o.MaxSessions, 1000)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, time.Minute)
	get := func(*http.Request) *mcp.Server { return s.mcp }
	h := &httpHandler{
		server: s,
		hosts:  o.Hosts,
		stateless: mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
			Stateless:                    true,
			PropagateRequestCancellation: true,
			Logger:                       s.opts.sdkLogger(),
			MaxRequestBodyBytes:          s.opts.MaxMessageBytes,
		}),
		sessions: mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{
			SessionTimeout:      o.SessionTimeout,
			Logger:              s.opts.sdkLogger(),
			MaxRequestBodyBytes: s.opts.MaxMessageBytes,
		}),
		limit:       newRateLimit(o.Rate, o.Burst),
		maxSessions: o.MaxSessions,
		bodyTimeout: o.BodyTimeout,
	}
	var next http.Handler = h
	if o.Auth != nil {
		next = auth.RequireBearerToken(o.Auth, o.AuthOptions)(next)
	}
	return h.bounded(h.recovering(h.checkHost(cross.Handler(next)))), nil
}

type httpHandler struct {
	server              *Server
	hosts               []string
	stateless, sessions http.Handler
	limit               *rateLimit
	maxSessions         int
	bodyTimeout         time.Duration

	mu      sync.Mutex
	opening int // guarded by mu; requests under way that open a session
}

// bounded gives the body of a request its time. What is refused unread has it too: net/http reads the rest of the body before
// it answers. readBody takes the bound back: an answer may take as long as it likes.
func (h *httpHandler) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			setReadDeadline(w, time.Now().Add(h.bodyTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// setReadDeadline does nothing where the server cannot: that is the embedder's choice of server.
func setReadDeadline(w http.ResponseWriter, at time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(at)
}

func (h *httpHandler) recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler { //nolint:errorlint // the value that net/http itself compares
				panic(p)
			}
			h.server.opts.Logger.ErrorContext(r.Context(), "panic in an HTTP request", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			writeError(w, http.StatusInternalServerError, nil, internalError("internal error"))
		}()
		next.ServeHTTP(w, r)
	})
}

func (h *httpHandler) checkHost(next http.Handler) http.Handler {
	if len(h.hosts) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if !slices.Contains(h.hosts, host) && !slices.Contains(h.hosts, r.Host) {
			http.Error(w, "Forbidden: this server does not answer under that Host", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (h *httpHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = r.Clone(r.Context())
	for k := range r.Header {
		if strings.HasPrefix(k, privatePrefix) {
			delete(r.Header, k)
		}
	}
	if !h.admit(w, r) {
		return
	}
	if r.Method != http.MethodPost {
		h.serveOther(w, r)
		return
	}
	body, ok := h.readBody(w, r)
	if !ok {
		return
	}
	h.servePOST(w, r, body)
}

// serveOther serves what is no POST: the own stream of a session, and its end.
func (h *httpHandler) serveOther(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(headerSession)
	if r.Header.Get(headerVersion) >= revision2026 || id == "" {
		h.withoutSession(w, r)
		return
	}
	caller, ok := h.enterSession(w, r)
	if !ok {
		return
	}
	switch r.Method {
	case http.MethodDelete: // the SDK waits for the session's requests
		h.server.sessions.end(id)
		h.sessions.ServeHTTP(w, r)
	case http.MethodGet:
		// The SDK decides whether there is such a stream; it is used once the SDK has opened it.
		sink := &sseSink{w: w}
		sink.opened = func() { h.server.sessions.openStream(id, ownStream{sink, caller}) }
		defer sink.close()
		defer h.server.sessions.closeStream(id, sink)
		h.sessions.ServeHTTP(sink, r)
	default:
		h.sessions.ServeHTTP(w, r)
	}
}

// withoutSession answers what is no POST and names no session: the SDK says what is missing.
func (h *httpHandler) withoutSession(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(headerVersion) >= revision2026 {
		h.stateless.ServeHTTP(w, r)
		return
	}
	h.sessions.ServeHTTP(w, r)
}

// enterSession lets a request into the session that it names: only that of the caller who opened it. Another caller's
// session, one that is over and one that never was have the same answer, which is the SDK's for the latter two.
func (h *httpHandler) enterSession(w http.ResponseWriter, r *http.Request) (Caller, bool) {
	caller, err := h.server.identify(r.Context(), requestExtra(r))
	if err != nil {
		writeError(w, http.StatusForbidden, nil, err)
		return caller, false
	}
	if !h.server.sessions.owns(r.Header.Get(headerSession), caller) {
		http.Error(w, "session not found", http.StatusNotFound)
		return caller, false
	}
	return caller, true
}

// openSession lets a request in that opens a session, unless there are as many as there may be; done is to be called when it has
// been served. Such requests count beside the sessions that are there, so that many at once do not open too many. Stateless
// requests and connections have no id.
func (h *httpHandler) openSession() (done func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.opening
	for s := range h.server.mcp.Sessions() {
		if s.ID() != "" {
			n++
		}
	}
	if n >= h.maxSessions {
		return nil, false
	}
	h.opening++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.opening--
	}, true
}

// requestExtra is what Identify sees of an HTTP request, as the SDK would make it.
func requestExtra(r *http.Request) *mcp.RequestExtra {
	return &mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context()), Header: r.Header}
}

// admit applies the rate limit of the caller.
func (h *httpHandler) admit(w http.ResponseWriter, r *http.Request) bool {
	if h.limit == nil {
		return true
	}
	c, err := h.server.identify(r.Context(), requestExtra(r))
	if err != nil {
		writeError(w, http.StatusForbidden, nil, err)
		return false
	}
	if h.limit.allow(c, time.Now()) {
		return true
	}
	w.Header().Set("Retry-After", "1")
	writeError(w, http.StatusTooManyRequests, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "too many requests; slow down"})
	return false
}

func (h *httpHandler) readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.server.opts.MaxMessageBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		writeError(w, http.StatusRequestEntityTooLarge, nil, &jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidRequest,
			Message: fmt.Sprintf("the message is larger than %d bytes", tooLarge.Limit),
		})
		return nil, false
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		writeError(w, http.StatusRequestTimeout, nil, &jsonrpc.Error{
			Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("the message took longer than %s", h.bodyTimeout),
		})
		return nil, false
	case err != nil:
		writeError(w, http.StatusBadRequest, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the message could not be read"})
		return nil, false
	}
	setReadDeadline(w, time.Time{})
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	return body, true
}

func (h *httpHandler) servePOST(w http.ResponseWriter, r *http.Request, body []byte) {
	if err := checkFrame(body, h.server.opts.MaxDepth); err != nil {
		writeError(w, http.StatusBadRequest, nil, err)
		return
	}
	// The SDK reads the first value of a body and no further. Were there more, the checks here would see another message.
	if !json.Valid(body) {
		writeError(w, http.StatusBadRequest, nil, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the body is not one JSON value"})
		return
	}
	f := readFrame(body) // stays empty for a batch: the SDK answers it
	if f.method != "" && len(f.id) > 0 && string(f.id) != "null" && !validID(f.id) {
		writeError(w, http.StatusBadRequest, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "id: want a string or an integer of up to 53 bits"})
		return
	}
	if err := checkParams(&f); err != nil {
		writeError(w, http.StatusBadRequest, f.id, err)
		return
	}
	if r.Header.Get(headerVersion) < revision2026 && f.revision() < revision2026 {
		if task := f.private().Get(headerTaskParam); task != "" {
			r.Header.Set(headerTaskParam, task)
		}
		switch {
		case r.Header.Get(headerSession) != "":
			if _, ok := h.enterSession(w, r); !ok {
				return
			}
		case f.needsSession():
			writeError(w, http.StatusBadRequest, f.id, errNoSession())
			return
		default: // whatever is let in opens one, a batch too
			done, ok := h.openSession()
			if !ok {
				writeError(w, http.StatusServiceUnavailable, f.id, internalError("the server has too many sessions; try again later"))
				return
			}
			defer done()
		}
		h.sessions.ServeHTTP(w, r)
		return
	}
	if err := checkName(r.Header, &f); err != nil {
		writeError(w, http.StatusBadRequest, f.id, err)
		return
	}
	if ids := f.private().Get(headerTaskIDs); ids != "" {
		sink := &sseSink{w: w}
		defer sink.close()
		r = r.WithContext(context.WithValue(r.Context(), sinkKey{}, taskSink(sink)))
		r.Header.Set(headerTaskIDs, ids)
		h.stateless.ServeHTTP(sink, r)
		return
	}
	h.stateless.ServeHTTP(w, r)
}

// checkName compares the header Mcp-Name with the task that the body names, for the methods whose names the SDK
// does not know. The SDK has compared, or will compare, the method. A task id that is no string is left to the
// method's own check.
func checkName(header http.Header, f *frame) error {
	switch f.method {
	case methodGet, methodUpdate, methodCancel:
	default:
		return nil
	}
	var id string
	if header.Get(headerMethod) != f.method || json.Unmarshal(f.fields["taskId"], &id) != nil {
		return nil
	}
	name, ok := decodeHeader(header.Get(headerName))
	switch {
	case header.Get(headerName) == "":
		return headerMismatch("the header Mcp-Name is missing; method %q requires it to hold the task id", f.method)
	case !ok || name != id:
		return headerMismatch("the header Mcp-Name does not hold the task id of the body")
	}
	return nil
}

func headerMismatch(format string, a ...any) error {
	return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: fmt.Sprintf(format, a...)}
}

// decodeHeader undoes the encoding of values that are not plain text, "=?base64?…?=".
func decodeHeader(v string) (string, bool) {
	e, ok := strings.CutPrefix(v, "=?base64?")
	if !ok {
		return v, true
	}
	if e, ok = strings.CutSuffix(e, "?="); !ok {
		return v, true
	}
	b, err := base64.StdEncoding.DecodeString(e)
	return string(b), err == nil
}

// encodeHeader is the inverse of decodeHeader.
func encodeHeader(v string) string {
	plain := v != "" && v == strings.TrimSpace(v) && !strings.HasPrefix(v, "=?base64?")
	for _, c := range []byte(v) {
		plain = plain && c >= 0x20 && c <= 0x7e
	}
	if plain {
		return v
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(v)) + "?="
}

// writeError answers an HTTP request with a JSON-RPC error. Where the request's id is unknown, or is none, the answer has
// no id: JSON-RPC would have null there, which MCP's schema does not allow.
func writeError(w http.ResponseWriter, status int, id json.RawMessage, err error) {
	answer := map[string]any{"jsonrpc": "2.0", "error": err}
	if validID(id) {
		answer["id"] = id
	}
	b, merr := json.Marshal(answer)
	if merr != nil { // err is a *jsonrpc.Error, id was decoded from JSON
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client is gone
}

// validID reports whether a request can have the id: a string, or an integer that a float64 holds. The SDK would answer
// another number under another id.
func validID(id json.RawMessage) bool {
	if len(id) == 0 {
		return false
	}
	v, err := decodeExact(id)
	if err != nil {
		return false
	}
	switch v := v.(type) {
	case string:
		return true
	case json.Number:
		n, err := strconv.ParseInt(v.String(), 10, 64)
		return err == nil && max(n, -n) < 1<<53
	}
	return false
}
