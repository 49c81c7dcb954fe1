package serve

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
)

func (s *server) listenTCP(ctx context.Context) (net.Listener, error) {
	address, err := CheckAddress(s.opts.Address)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, exit.New(exit.Conflict, "choose another port, or 127.0.0.1:0 for a free one", "listen: %w", err)
	}
	s.mcpURL = "http://" + l.Addr().String() + "/mcp"
	return l, nil
}

// webHandler serves the TCP port: MCP and the probes, nothing else.
func (s *server) webHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.mcp)
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
	return mux
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
