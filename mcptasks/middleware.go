package mcptasks

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// recovering turns a panic in any handler into an internal error: no request of any shape ends the process. An error
// without a code gets one, which the SDK would send as 0.
func (s *Server) recovering(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.opts.Logger.ErrorContext(ctx, "panic in a request", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				res, err = nil, internalError("internal error")
			}
		}()
		res, err = next(ctx, method, req)
		if wire := (*jsonrpc.Error)(nil); err == nil || errors.As(err, &wire) {
			return res, err
		}
		if method == methodInitialize { // that of a session that has been initialized
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
		}
		return nil, s.protocolError(ctx, method, err)
	}
}

// receiving is where requests meet tasks. What it does not know, it passes on.
func (s *Server) receiving(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch method {
		case methodCallTool:
			return s.callTool(ctx, req, next)
		case methodGet, methodUpdate, methodCancel, methodResult, methodList:
			return s.taskMethod(ctx, method, req, next)
		case methodListen:
			return s.serveListen(ctx, req, next)
		case methodListTools:
			return s.listTools(ctx, req, next)
		case methodInitialize, methodDiscover:
			if err := s.ownSession(ctx, method, req); err != nil {
				return nil, err
			}
			res, err := next(ctx, method, req)
			if err != nil {
				return res, err
			}
			return s.advertise(res)
		}
		return next(ctx, method, req)
	}
}

// ownSession binds the session that a request opens to its caller: whoever learns the session's id is not that caller.
func (s *Server) ownSession(ctx context.Context, method string, req mcp.Request) error {
	session, ok := req.GetSession().(*mcp.ServerSession)
	if method != methodInitialize || !ok {
		return nil
	}
	c, err := s.identify(ctx, req.GetExtra())
	if err != nil {
		return err
	}
	s.sessions.own(session, c)
	return nil
}

// taskMethod decides whether the request's generation has the method, and whether the request may use it, before
// anything is looked up.
//
//	              2026-07-28              2025-11-25   older
//	tasks/get     with the declaration    yes          no
//	tasks/update  with the declaration    no           no
//	tasks/cancel  with the declaration    yes          no
//	tasks/result  no                      yes          no
//	tasks/list    no                      if the engine lists runs
func (s *Server) taskMethod(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	r, err := s.inspect(ctx, req)
	switch r.generation {
	case generation2026:
		if method == methodResult || method == methodList {
			return nil, errMethodNotFound(method)
		}
		if !r.tasks {
			return nil, errMissingCapability()
		}
	case generation2025:
		if method == methodUpdate || method == methodList && s.lister() == nil {
			return nil, errMethodNotFound(method)
		}
	default:
		return nil, errMethodNotFound(method)
	}
	if err != nil {
		return nil, err
	}
	return next(withRequest(ctx, r), method, req)
}

func (s *Server) lister() Lister {
	l, _ := s.engine.(Lister)
	return l
}

// advertise adds what the server can do with tasks to its capabilities, where there are routes.
func (s *Server) advertise(res mcp.Result) (mcp.Result, error) {
	if len(s.routes.load().newest) == 0 {
		return res, nil
	}
	switch r := res.(type) {
	case *mcp.DiscoverResult:
		if r.Capabilities == nil {
			r.Capabilities = &mcp.ServerCapabilities{}
		}
		r.Capabilities.AddExtension(ExtensionID, nil) // the settings must be {}: clients refuse others
	case *mcp.InitializeResult:
		if r.ProtocolVersion == revision2025 {
			return s.advertise2025(r)
		}
	}
	return res, nil
}

func (s *Server) listTools(ctx context.Context, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	r, err := s.inspect(ctx, req)
	if err != nil {
		return nil, err
	}
	res, err := next(ctx, methodListTools, req)
	if err != nil {
		return res, err
	}
	l, ok := res.(*mcp.ListToolsResult)
	if !ok {
		return res, nil
	}
	if s.routes.load().restricted() {
		l.Tools = s.visibleTools(r.caller.Tenant, l.Tools)
		l.CacheScope = "private" // a shared cache would show one tenant's tools to another
	}
	if r.generation != generation2026 {
		l.Tools = objectOutputsOnly(l.Tools)
	}
	if r.generation == generation2025 {
		return s.listTools2025(l)
	}
	return l, nil
}
