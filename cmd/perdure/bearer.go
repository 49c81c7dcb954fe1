package main

import (
	"net/http"
	"net/url"
	"os"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
)

// tokenVariable names the environment variable with the bearer token for a server at --url. A flag would show it to every
// user of the machine.
const tokenVariable = "PERDURE_TOKEN"

// remoteHTTP is a client for the server at an address, with the token of the environment.
func remoteHTTP(address string) (*http.Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, exit.New(exit.Usage, "write for example http://127.0.0.1:7337/mcp", "--url: %w", err)
	}
	if address != "" && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		return nil, exit.New(exit.Usage, "write for example http://127.0.0.1:7337/mcp", "--url %q: want a URL with http or https", address)
	}
	return &http.Client{Transport: &bearer{token: os.Getenv(tokenVariable), server: u, next: http.DefaultTransport}}, nil
}

// bearer adds a token to what goes to one server, and to no other that this one redirects to.
type bearer struct {
	token  string
	server *url.URL
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" && r.URL.Scheme == b.server.Scheme && r.URL.Host == b.server.Host {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.next.RoundTrip(r)
}
