package httpstep

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/secret"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
)

// serve starts a server on loopback and returns its URL and address.
func serve(t *testing.T, handler http.HandlerFunc) (base, address string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL, strings.TrimPrefix(server.URL, "http://")
}

func TestRequestAndAnswer(t *testing.T) {
	base, address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Set-Cookie", "session=abc")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("X-A"), r.Header.Get("Idempotency-Key"), body)
	})
	got, err := Do(t.Context(), Request{
		Method: "POST", URL: base + "/a%2Fb?q=1%26", Header: map[string]string{"X-A": "v"}, Body: []byte("hello"),
		AllowPrivate: []string{address}, IdempotencyKey: "key-1",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != 201 || got.Body != "POST /a%2Fb?q=1%26 v key-1 hello" || got.Truncated {
		t.Errorf("got %+v", got)
	}
	if len(got.Headers) != 1 || got.Headers["content-type"] != "text/plain" {
		t.Errorf("recorded headers: %v", got.Headers)
	}
}

func TestStatusCodes(t *testing.T) {
	base, address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var status int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &status); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, "because")
	})
	cases := []struct {
		status    int
		expect    func(int) bool
		ok, final bool
	}{
		{status: 200, ok: true},
		{status: 226, ok: true},
		{status: 400, final: true},
		{status: 401, final: true},
		{status: 404, final: true},
		{status: 409, final: true},
		{status: 408},
		{status: 425},
		{status: 429},
		{status: 500},
		{status: 502},
		{status: 503},
		{status: 404, expect: func(s int) bool { return s == 404 }, ok: true},
		{status: 200, expect: func(s int) bool { return s == 404 }, final: true},
	}
	for _, c := range cases {
		got, err := Do(t.Context(), Request{Method: "GET", URL: fmt.Sprintf("%s/%d", base, c.status), Expect: c.expect, AllowPrivate: []string{address}}, nil)
		var failure *Error
		if (err == nil) != c.ok || got.Status != c.status {
			t.Errorf("%d: %+v, %v", c.status, got, err)
		}
		if errors.As(err, &failure) && (failure.Final() != c.final || !strings.Contains(err.Error(), "because") || !strings.Contains(err.Error(), fmt.Sprint(c.status))) {
			t.Errorf("%d: final %v, %v", c.status, failure.Final(), err)
		}
	}
}

func TestPrivateAddressesAreRefused(t *testing.T) {
	reached := false
	base, address := serve(t, func(http.ResponseWriter, *http.Request) { reached = true })
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{base, "http://localhost:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://0.0.0.0:" + port, "http://169.254.169.254/latest/meta-data/"} {
		for _, allow := range [][]string{nil, {"10.0.0.0/8"}, {"127.0.0.1:1"}} {
			_, err := Do(t.Context(), Request{Method: "GET", URL: target, AllowPrivate: allow}, nil)
			var failure *Error
			if !errors.As(err, &failure) || !failure.Final() || !strings.Contains(err.Error(), "is private") || !strings.Contains(err.Error(), "allow_private") ||
				strings.Contains(target, "localhost") && strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("%s with %v: %v", target, allow, err)
			}
		}
	}
	if reached {
		t.Error("the server was reached")
	}
	for _, allow := range []string{"127.0.0.1", "127.0.0.0/8", address} {
		if _, err := Do(t.Context(), Request{Method: "GET", URL: base, AllowPrivate: []string{allow}}, nil); err != nil {
			t.Errorf("%s: %v", allow, err)
		}
	}
}

func TestWhatIsPrivate(t *testing.T) {
	for _, text := range []string{
		"127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1", "255.255.255.255",
		"198.18.0.1", "240.0.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1",
		"64:ff9b::a00:1", "2002:a00:1::", "2001::1", "::7f00:1", "fec0::1",
	} {
		if !private(netip.MustParseAddr(text)) {
			t.Errorf("%s counts as public", text)
		}
	}
	for _, text := range []string{"1.1.1.1", "8.8.8.8", "93.184.215.14", "2606:4700:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8"} {
		if private(netip.MustParseAddr(text)) {
			t.Errorf("%s counts as private", text)
		}
	}
}

func TestRedirects(t *testing.T) {
	var hits int
	other, otherAddress := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the other host was reached") })
	base, address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		hits++
		switch r.URL.Path {
		case "/same":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/other":
			http.Redirect(w, r, other, http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/scheme":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		default:
			fmt.Fprint(w, "end")
		}
	})
	do := func(path string) (Result, error) {
		return Do(t.Context(), Request{Method: "GET", URL: base + path, AllowPrivate: []string{address, otherAddress}}, nil)
	}
	if got, err := do("/same"); err != nil || got.Body != "end" {
		t.Errorf("a redirect on one host: %+v, %v", got, err)
	}
	for path, want := range map[string]string{"/other": "a redirect to another host, " + otherAddress, "/loop": "too many redirects", "/scheme": "a redirect to another host"} {
		hits = 0
		_, err := do(path)
		var failure *Error
		if !errors.As(err, &failure) || !failure.Final() || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
		if hits > maxRedirects+1 {
			t.Errorf("%s: %d requests", path, hits)
		}
	}
}

func TestResponsesAreBounded(t *testing.T) {
	base, address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bomb" {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			for range 1000 {
				if _, err := z.Write(make([]byte, 1<<16)); err != nil {
					return // the client has gone
				}
			}
			return
		}
		for range 1000 {
			if _, err := w.Write([]byte(strings.Repeat("x", 1000))); err != nil {
				return
			}
		}
	})
	for _, path := range []string{"/", "/bomb"} {
		got, err := Do(t.Context(), Request{Method: "GET", URL: base + path, MaxOutput: 5000, AllowPrivate: []string{address}}, nil)
		if err != nil || len(got.Body) != 5000 || !got.Truncated {
			t.Errorf("%s: %d bytes, truncated %v, %v", path, len(got.Body), got.Truncated, err)
		}
	}
}

func TestTimeoutAndCancel(t *testing.T) {
	arrived := make(chan struct{}, 2)
	base, address := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	request := Request{Method: "GET", URL: base, AllowPrivate: []string{address}}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Do(ctx, request, nil)
	var failure *Error
	if !errors.As(err, &failure) || failure.Final() || !failure.Timeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("timeout: %#v", err)
	}
	<-arrived
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err = Do(ctx, request, nil); !errors.As(err, &failure) || failure.Timeout || !errors.Is(err, context.Canceled) {
		t.Errorf("cancel: %#v", err)
	}
}

func TestConnectionFailuresAreTransient(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, err = Do(t.Context(), Request{Method: "GET", URL: "http://" + address + "/", AllowPrivate: []string{address}}, nil)
	var failure *Error
	if !errors.As(err, &failure) || failure.Final() {
		t.Errorf("got %v", err)
	}
}

func TestSecretsAreScrubbed(t *testing.T) {
	vault := secret.Open(map[string]toolfile.SecretSource{"T": {Env: "T"}}, func(string) (string, bool) { return "hunter2/hunter2", true })
	if _, err := vault.Get("T"); err != nil {
		t.Fatal(err)
	}
	base, address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/next?token="+r.URL.Query().Get("t"))
		if r.URL.Path == "/fail" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprintf(w, "you sent %s and %s", r.Header.Get("Authorization"), r.URL.RawQuery)
	})
	for _, path := range []string{"/ok", "/fail"} {
		got, err := Do(t.Context(), Request{
			Method: "GET", URL: base + path + "?t=hunter2%2Fhunter2", Header: map[string]string{"Authorization": "Bearer hunter2/hunter2"},
			AllowPrivate: []string{address},
		}, vault.Scrubber())
		all := fmt.Sprintf("%+v %v", got, err)
		if strings.Contains(all, "hunter2") || !strings.Contains(got.Body, "Bearer [secret:T] and t=[secret:T]") {
			t.Errorf("%s: %s", path, all)
		}
	}
	// Errors of the transport quote the URL.
	_, err := Do(t.Context(), Request{Method: "GET", URL: "http://127.0.0.1:1/hunter2%2Fhunter2", AllowPrivate: []string{"127.0.0.1"}}, vault.Scrubber())
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

func TestBadRequests(t *testing.T) {
	for name, r := range map[string]Request{
		"scheme": {Method: "GET", URL: "ftp://example.com/"}, "no host": {Method: "GET", URL: "http:///x"},
		"user": {Method: "GET", URL: "http://u:p@example.com/"}, "method": {Method: "GE T", URL: "http://example.com/"},
		"url": {Method: "GET", URL: "http://exa mple.com/"}, "policy": {Method: "GET", URL: "http://example.com/", AllowPrivate: []string{"x"}},
		"header": {Method: "GET", URL: "http://127.0.0.1/", Header: map[string]string{"X": "a\r\nB: c"}, AllowPrivate: []string{"127.0.0.1"}},
	} {
		_, err := Do(t.Context(), r, nil)
		var failure *Error
		if !errors.As(err, &failure) || !failure.Final() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFailedLookupDoesNotNameTheResolver(t *testing.T) {
	u := &url.URL{Scheme: "https", Host: "no.example"}
	r := Request{Method: "GET"}
	err := r.failed(t.Context(), u, keepAll{}, &url.Error{Op: "Get", URL: u.String(), Err: &net.OpError{
		Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "no.example", Server: "10.255.255.53:53", IsNotFound: true},
	}})
	if text := err.Error(); strings.Contains(text, "10.255") || !strings.Contains(text, "no such host") {
		t.Errorf("the error is %q", text)
	}
}
