package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ServeTransport serves one connection until the client closes it or ctx ends. All its requests are the caller's.
// For stdin and stdout see [Server.ServeLines].
func (s *Server) ServeTransport(ctx context.Context, t mcp.Transport, caller Caller) error {
	ref := &connectionRef{}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sctx := context.WithValue(ctx, callerKey{}, caller)
	sctx = context.WithValue(sctx, sinkKey{}, taskSink(ref))
	session, err := s.mcp.Connect(sctx, &shimTransport{next: t, server: s, ref: ref}, nil)
	if err != nil {
		return fmt.Errorf("mcptasks: connect: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	select {
	case err = <-ended:
		if err != nil && !errors.Is(err, mcp.ErrConnectionClosed) {
			return fmt.Errorf("mcptasks: connection: %w", err)
		}
		return nil
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), session.Close())
	}
}

// connectionRef is the sink of a connection. The context needs it before the connection is there.
type connectionRef struct{ conn *shimConnection }

func (r *connectionRef) notify(ctx context.Context, method string, params any) error {
	b, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return r.conn.Connection.Write(ctx, &jsonrpc.Request{Method: method, Params: b})
}

type shimTransport struct {
	next   mcp.Transport
	server *Server
	ref    *connectionRef
}

func (t *shimTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.next.Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.ref.conn = &shimConnection{Connection: c, server: t.server}
	return t.ref.conn, nil
}

// shimConnection does for a connection what httpHandler does for HTTP: it refuses what is too large or too deep, and
// hands on what the SDK's typed parameters drop.
type shimConnection struct {
	mcp.Connection
	server *Server
}

func (c *shimConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := c.Connection.Read(ctx)
		var refused *refusedLine
		if errors.As(err, &refused) {
			if err := c.Connection.Write(ctx, &jsonrpc.Response{ID: refused.id, Error: refused.cause}); err != nil {
				return nil, err
			}
			continue
		}
		req, ok := msg.(*jsonrpc.Request)
		if err != nil || !ok {
			return msg, err
		}
		f, refusal := c.check(req)
		if refusal != nil {
			if !req.IsCall() {
				continue // a notification has no answer
			}
			if err := c.Connection.Write(ctx, &jsonrpc.Response{ID: req.ID, Error: refusal}); err != nil {
				return nil, err
			}
			continue
		}
		req.Extra = &mcp.RequestExtra{Header: f.private()}
		return req, nil
	}
}

// Write gives a code to what the SDK refuses without one, such as a request before initialize: the wire would show code 0.
func (c *shimConnection) Write(ctx context.Context, msg jsonrpc.Message) error {
	if resp, ok := msg.(*jsonrpc.Response); ok && resp.Error != nil {
		var coded *jsonrpc.Error
		if !errors.As(resp.Error, &coded) || coded.Code == 0 {
			msg = &jsonrpc.Response{ID: resp.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: resp.Error.Error()}}
		}
	}
	return c.Connection.Write(ctx, msg)
}

// check refuses what httpHandler would refuse, before anything of it is decoded.
func (c *shimConnection) check(req *jsonrpc.Request) (frame, error) {
	o := c.server.opts
	if int64(len(req.Params)) > o.MaxMessageBytes {
		return frame{}, &jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidRequest,
			Message: fmt.Sprintf("the message is larger than %d bytes", o.MaxMessageBytes),
		}
	}
	if err := checkFrame(req.Params, o.MaxDepth); err != nil {
		return frame{}, err
	}
	f := newFrame(nil, req.Method, req.Params)
	return f, checkParams(&f)
}
