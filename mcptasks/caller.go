package mcptasks

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Caller is who sends a request. Two callers are the same where both fields are equal; the zero Caller is one like
// any other: the one of a server without authentication.
type Caller struct {
	// Tenant separates customers: runs, keys and tasks of one are invisible to the others.
	Tenant string
	// Principal is a person or a program within the tenant.
	Principal string
}

// Identify tells who sends a request. It sees what the transport knows: a verified token (x.TokenInfo, set by the
// SDK's package auth) and the HTTP headers. An error refuses the request; its text is logged and not sent.
// It is called at every request, and again before each notification of a subscription.
type Identify func(ctx context.Context, x *mcp.RequestExtra) (Caller, error)

// ByToken is the default [Identify]: the principal is the token's user, without a token nobody, and the tenant is "".
func ByToken(_ context.Context, x *mcp.RequestExtra) (Caller, error) {
	if x == nil || x.TokenInfo == nil {
		return Caller{}, nil
	}
	return Caller{Principal: x.TokenInfo.UserID}, nil
}

// callerKey is the context key of the Caller of a whole connection (see ServeTransport).
type callerKey struct{}

func (s *Server) identify(ctx context.Context, x *mcp.RequestExtra) (Caller, error) {
	if c, ok := ctx.Value(callerKey{}).(Caller); ok {
		return c, nil
	}
	c, err := s.opts.Identify(ctx, x)
	if err != nil {
		s.opts.Logger.WarnContext(ctx, "caller could not be identified", "error", err)
		return Caller{}, errUnidentified()
	}
	return c, nil
}
