// Package httpstep sends an HTTP request as a step of a tool.
//
// A request reaches public addresses, and those private ones that its Request lists: the address is checked when the
// connection is made, after the name was resolved, so that a name cannot point elsewhere between check and use
// (policy.go). Redirects stay on the same scheme, host and port. Proxies of the environment are not used: a proxy
// would make the connection, and the check would see the proxy only. Responses are read up to a bound.
package httpstep

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Request says what to send. All texts are final: templates are filled in.
type Request struct {
	Method string
	URL    string
	Header map[string]string
	Body   []byte
	// Expect reports whether a status is success; nil accepts 200 to 299.
	Expect func(status int) bool
	// MaxOutput bounds what is kept of the body, in bytes; 0 is 64 KiB.
	MaxOutput int
	// AllowPrivate lists private addresses that may be reached: ADDRESS, ADDRESS:PORT or PREFIX/BITS.
	AllowPrivate []string
	// IdempotencyKey is sent as Idempotency-Key (draft-ietf-httpapi-idempotency-key-header), unless Header has one.
	IdempotencyKey string
}

// Result is what a server answered. It is recorded in the run's history.
type Result struct {
	Status int `json:"status"`
	// Headers are those of recordedHeaders that the answer had, names in lower case.
	Headers   map[string]string `json:"headers,omitempty"`
	Body      string            `json:"body"`
	Truncated bool              `json:"truncated,omitempty"` // the body was longer
}

// recordedHeaders are harmless and useful. Others, cookies above all, are not recorded.
var recordedHeaders = []string{"Content-Type", "Etag", "Last-Modified", "Link", "Location", "Retry-After"}

// Scrubber removes secrets from what came back.
type Scrubber interface {
	// Longest is the length in bytes of the longest form of a secret.
	Longest() int
	// Scrub returns data[from:to] without secrets.
	Scrub(data []byte, from, to int) []byte
}

// Error says why a request is no success.
type Error struct {
	// Subject is the method and the host: paths and queries may hold secrets.
	Subject string
	Message string
	Hint    string
	Result  Result // what there is of it; Status is 0 where there was no answer
	Timeout bool   // a deadline passed
	final   bool
	cause   error
}

func (e *Error) Error() string {
	text := e.Subject + ": " + e.Message
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Final reports whether another attempt cannot help.
func (e *Error) Final() bool { return e.final }

// Unwrap gives the error below, which may hold the URL: it is for errors.Is, not for showing.
func (e *Error) Unwrap() error { return e.cause }

const (
	defaultOutput = 64 << 10
	dialTimeout   = 10 * time.Second
	maxHeader     = 64 << 10
	maxRedirects  = 5
	maxExcerpt    = 300 // of a refused answer, in its error
)

// Do sends the request and reads the answer. The error is an *Error.
func Do(ctx context.Context, r Request, scrub Scrubber) (Result, error) {
	if scrub == nil {
		scrub = keepAll{}
	}
	request, err := r.build(ctx)
	if err != nil {
		return Result{}, err
	}
	allowed, err := parsePolicy(r.AllowPrivate)
	if err != nil {
		return Result{}, &Error{Subject: r.subject(request.URL), Message: err.Error(), final: true}
	}
	client := newClient(allowed)
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return Result{}, r.failed(ctx, request.URL, scrub, err)
	}
	defer response.Body.Close()
	result, err := r.read(response, scrub)
	if err != nil {
		return result, r.failed(ctx, request.URL, scrub, err)
	}
	return result, r.judge(request.URL, result)
}

func (r Request) build(ctx context.Context) (*http.Request, error) {
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, r.URL, body)
	if err != nil {
		// The error quotes the URL, which may hold a secret.
		return nil, &Error{Subject: r.Method, Message: "the request cannot be built", Hint: "look at its url and method", final: true, cause: err}
	}
	if u := request.URL; (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil {
		return nil, &Error{Subject: r.subject(u), Message: "the url needs http or https and a host, and no user", final: true}
	}
	if r.IdempotencyKey != "" {
		request.Header.Set("Idempotency-Key", r.IdempotencyKey)
	}
	request.Header.Set("User-Agent", "perdure")
	for name, value := range r.Header {
		request.Header.Set(name, value)
	}
	return request, nil
}

func (r Request) subject(u *url.URL) string { return r.Method + " " + u.Host }

func newClient(allowed policy) *http.Client {
	dialer := &net.Dialer{Timeout: dialTimeout, Control: allowed.control}
	return &http.Client{
		CheckRedirect: sameOrigin,
		Transport: &http.Transport{
			Proxy:                  nil,
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    dialTimeout,
			MaxResponseHeaderBytes: maxHeader,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		},
	}
}

var (
	errRedirect  = errors.New("a redirect to another host")
	errRedirects = errors.New("too many redirects")
)

func sameOrigin(next *http.Request, before []*http.Request) error {
	if len(before) > maxRedirects {
		return errRedirects
	}
	first := before[0].URL
	if next.URL.Scheme != first.Scheme || !strings.EqualFold(next.URL.Hostname(), first.Hostname()) || port(next.URL) != port(first) {
		return fmt.Errorf("%w, %s", errRedirect, next.URL.Host)
	}
	return nil
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

func (r Request) read(response *http.Response, scrub Scrubber) (Result, error) {
	limit := r.MaxOutput
	if limit == 0 {
		limit = defaultOutput
	}
	// One byte more tells whether there is more; a secret that the bound cuts must be seen whole.
	data, err := io.ReadAll(io.LimitReader(response.Body, int64(limit+scrub.Longest()+1)))
	if err != nil {
		return Result{Status: response.StatusCode}, err
	}
	result := Result{
		Status: response.StatusCode, Headers: map[string]string{}, Truncated: len(data) > limit,
		Body: clean(scrub, data, min(len(data), limit)),
	}
	for _, name := range recordedHeaders {
		if value := response.Header.Get(name); value != "" {
			result.Headers[strings.ToLower(name)] = clean(scrub, []byte(value), min(len(value), 1000))
		}
	}
	return result, nil
}

func clean(scrub Scrubber, data []byte, to int) string {
	return strings.ToValidUTF8(string(scrub.Scrub(data, 0, to)), "\uFFFD")
}

// judge maps the status. After 408, 425, 429 and 5xx another attempt may help.
func (r Request) judge(u *url.URL, result Result) error {
	expected := result.Status >= 200 && result.Status <= 299
	if r.Expect != nil {
		expected = r.Expect(result.Status)
	}
	if expected {
		return nil
	}
	message := fmt.Sprintf("answered %d %s", result.Status, http.StatusText(result.Status))
	if excerpt := strings.TrimSpace(result.Body); excerpt != "" {
		if runes := []rune(excerpt); len(runes) > maxExcerpt {
			excerpt = string(runes[:maxExcerpt]) + "…"
		}
		message += ": " + excerpt
	}
	transient := slices.Contains([]int{408, 425, 429}, result.Status) || result.Status >= 500
	return &Error{Subject: r.subject(u), Message: message, Result: result, final: !transient}
}

// failed explains a request without a full answer.
func (r Request) failed(ctx context.Context, u *url.URL, scrub Scrubber, err error) error {
	e := &Error{Subject: r.subject(u), cause: err}
	var private *privateError
	var invalid *tls.CertificateVerificationError
	var hostname x509.HostnameError
	var lookup *net.DNSError
	var outer *url.Error
	inner := err
	if errors.As(err, &outer) {
		inner = outer.Err // without the URL
	}
	e.Message = clean(scrub, []byte(inner.Error()), len(inner.Error()))
	switch {
	case errors.As(err, &private):
		e.final = true
		// Not which address it is: clients see this, and names of this network are nobody's business.
		e.Message, e.Hint = "its address is private", "to allow it, list the address in the file: allow_private"
	case errors.As(err, &lookup) && ctx.Err() == nil:
		e.Message = "look up " + lookup.Name + ": " + lookup.Err // not which server was asked: clients see this
	case errors.Is(err, errRedirect):
		e.final, e.Hint = true, "ask that host itself"
	case errors.Is(err, errRedirects), errors.As(err, &invalid), errors.As(err, &hostname):
		e.final = true
	case ctx.Err() != nil:
		e.cause = ctx.Err()
		if e.Timeout = errors.Is(ctx.Err(), context.DeadlineExceeded); e.Timeout {
			e.Message = "did not answer in time"
		} else {
			e.Message = "was stopped"
		}
	case strings.Contains(inner.Error(), "invalid header field"):
		e.final = true
	}
	return e
}

type keepAll struct{}

func (keepAll) Longest() int                           { return 0 }
func (keepAll) Scrub(data []byte, from, to int) []byte { return slices.Clone(data[from:to]) }
