package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/engine/schedule"
	"github.com/perdure/perdure/mcptasks"
)

// listenSocket makes the local socket. The store's lock is held, so a socket that is there was left by a process that is
// gone.
func (s *server) listenSocket() (net.Listener, error) {
	if err := s.opts.Dir.MakeSocketDir(); err != nil {
		return nil, err
	}
	path := s.opts.Dir.Socket()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("local socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("local socket: %w", err), l.Close())
	}
	return l, nil
}

// socketHandler serves the administration and MCP. live is the context of MCP connections.
func (s *server) socketHandler(live context.Context) http.Handler {
	mux := http.NewServeMux()
	api := &admin.Handler{
		Engine: s.engine, Tools: s.tools, Schedules: schedule.NewClient(s.engine, ""), Server: s.describe, Reload: s.tools.reload, Log: s.opts.Log, Hidden: isOwnWorkflow,
		Stop: func() { s.stop(errStopped) }, Retention: s.engine, Store: s.upkeep, PolicyFile: s.policy.Path, Exports: s.policy.Exports,
	}
	api.Routes(mux)
	mux.Handle("/mcp", s.mcp)
	mux.HandleFunc("GET /v1/stdio", func(w http.ResponseWriter, r *http.Request) { s.serveLines(live, w, r) })
	return mux
}

// serveLines serves one MCP connection: a client's relay.
func (s *server) serveLines(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() {
		http.Error(w, "the server is stopping", http.StatusServiceUnavailable)
		return
	}
	conn, err := admin.Accept(w, r)
	if err != nil {
		s.opts.Log.Debug("MCP connection was not opened", "error", err)
		return
	}
	s.clients.Add(1)
	defer s.clients.Add(-1)
	err = s.front.ServeLines(ctx, conn, conn, mcptasks.Caller{})
	if err != nil && ctx.Err() == nil {
		s.opts.Log.Debug("MCP connection ended", "error", err) // clients leave without a word
	}
	if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		s.opts.Log.Debug("MCP connection did not close", "error", err)
	}
}

// serveStdio serves the client on stdin and stdout, and ends the server with it.
func (s *server) serveStdio(ctx context.Context) error {
	err := s.front.ServeLines(ctx, s.opts.In, s.opts.Out, mcptasks.Caller{})
	if err != nil && ctx.Err() == nil {
		s.opts.Log.Warn("MCP connection on stdin ended", "error", err)
	}
	s.stop(errClient)
	return nil
}

// errorLog is where net/http writes.
func (s *server) errorLog() *log.Logger {
	return slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug)
}
