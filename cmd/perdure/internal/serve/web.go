package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/mcptasks"
)

func (s *server) listenTCP(ctx context.Context) (net.Listener, error) {
	address, err := s.opts.CheckAddress()
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, notListening(address, err)
	}
	s.mcpURL = "http://" + l.Addr().String() + "/mcp"
	if host, _, err := net.SplitHostPort(address); err == nil && !isLoopback(host) {
		s.opts.Log.Warn("HTTP beyond the loopback interface: what is sent, tokens too, can be read on the way unless a proxy adds TLS", "address", l.Addr().String())
	}
	return l, nil
}

// notListening says whose fault it is that nothing listens: the address's, the user's rights, or of who has the port.
func notListening(address string, err error) error {
	var wrong *net.AddrError
	var unknown *net.DNSError
	switch {
	case errors.As(err, &wrong), errors.As(err, &unknown), errors.Is(err, syscall.EADDRNOTAVAIL):
		return exit.New(exit.Usage, "write an address of this machine and a port up to 65535, such as 127.0.0.1:7337", "listen address %q: %w", address, err)
	case errors.Is(err, fs.ErrPermission):
		return exit.New(exit.Failed, "choose a port from 1024 on: those below want a privilege", "listen: %w", err)
	}
	return exit.New(exit.Conflict, "choose another port, or 127.0.0.1:0 for a free one", "listen: %w", err)
}

// webMCP is the front end as callers over the network reach it: with a token, where there are any.
func (s *server) webMCP() (http.Handler, error) {
	if s.tokens == nil {
		return s.mcp, nil
	}
	return s.front.Handler(mcptasks.HTTPOptions{
		Auth:        s.tokens.Verify,
		AuthOptions: &auth.RequireBearerTokenOptions{AllowMissingExpiration: true}, // a token is good while it has its line
	})
}

// webHandler serves the TCP port: MCP and the probes, nothing else.
func (s *server) webHandler(front http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", front)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.ready(r.Context()); err != nil {
			s.opts.Log.Warn("not ready", "error", err)
			answer(w, http.StatusServiceUnavailable, "not ready")
			return
		}
		answer(w, http.StatusOK, "ready")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusNotFound, "not found: MCP is at /mcp, probes are at /healthz and /readyz")
	})
	return boundedBodies(mux)
}

// bodyTimeout bounds how long the body of a request may take; the front end takes the bound back once it has the body.
const bodyTimeout = time.Minute

func boundedBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // net/http's server can
		}
		next.ServeHTTP(w, r)
	})
}

// ready reports whether the store is open and work is claimed.
func (s *server) ready(ctx context.Context) error {
	if s.draining.Load() {
		return fmt.Errorf("the server is draining")
	}
	select {
	case <-s.engine.Done():
		return fmt.Errorf("the engine has stopped: %w", s.engine.Err())
	default:
	}
	_, err := s.engine.Secret(ctx, "serve/ready") // a read that fails where the store has failed
	return err
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // the client is gone
}
