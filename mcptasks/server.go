package mcptasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Server is the front end: it answers MCP requests from the runs of an engine. It is safe for concurrent use.
type Server struct {
	engine   Engine
	opts     Options
	mcp      *mcp.Server
	routes   routeTable
	listens  listenTable
	sessions sessionTable
	inflight *inflight
	// now is the clock that tokens expire by.
	now func() time.Time
}

// NewServer returns a front end for the engine, without routes: see [Server.SetRoutes].
func NewServer(engine Engine, opts Options) (*Server, error) {
	if engine == nil {
		return nil, errors.New("mcptasks: no engine")
	}
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("mcptasks: options: %w", err)
	}
	opts = opts.withDefaults()
	s := &Server{engine: engine, opts: opts, mcp: opts.MCP, inflight: newInflight(), now: time.Now}
	if s.mcp == nil {
		s.mcp = mcp.NewServer(opts.Implementation, &mcp.ServerOptions{
			Logger:       opts.sdkLogger(),
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
		})
	}
	s.mcp.AddReceivingMiddleware(s.recovering, s.receiving)
	s.mcp.AddSendingMiddleware(s.sending)
	if err := s.addMethods(); err != nil {
		return nil, fmt.Errorf("mcptasks: %w", err)
	}
	return s, nil
}

// MCP returns the SDK's server, to add ordinary tools, prompts and resources.
func (s *Server) MCP() *mcp.Server { return s.mcp }

// Shutdown ends all subscriptions with their result and all waiting calls with their handle, and returns when they
// have ended, or with the context's error. No run is touched. The HTTP server and the connections are the caller's
// to close, afterwards.
func (s *Server) Shutdown(ctx context.Context) error {
	s.inflight.shutdown()
	select {
	case <-s.inflight.idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("mcptasks: shutdown: %w", ctx.Err())
	}
}

// addMethods registers the methods that the SDK does not know. The handlers get what the middleware learned about
// the request through the context.
func (s *Server) addMethods() error {
	return errors.Join(
		mcp.AddReceivingCustomMethod(s.mcp, methodGet, s.getTask),
		mcp.AddReceivingCustomMethod(s.mcp, methodUpdate, s.updateTask),
		mcp.AddReceivingCustomMethod(s.mcp, methodCancel, s.cancelTask),
		mcp.AddReceivingCustomMethod(s.mcp, methodResult, s.taskResult2025),
		mcp.AddReceivingCustomMethod(s.mcp, methodList, s.listTasks2025),
	)
}
