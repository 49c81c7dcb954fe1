package workflow

import (
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// Request is a signal that wants a reply.
type Request[T any] struct {
	// Value is what was sent.
	Value T
	// ID identifies the request, By is who sent it.
	ID, By string
	name   string
}

// ReceiveRequest waits for a request called name: a signal that its sender waits for the reply of. See Receive.
func ReceiveRequest[T any](ctx Context, name string, opts ...WaitOption) (Request[T], error) {
	r, opErr := wait(ctx, name, []string{name}, opts)
	if opErr != nil {
		return Request[T]{}, opErr
	}
	v, err := decode[T](r.Payload)
	req := Request[T]{Value: v, ID: r.ID, By: r.By, name: name}
	if err != nil {
		return req, &OpError{Op: kernel.OpReceive, Name: name, failure: &history.Failure{
			Kind: history.FailureEncoding, Message: "the request " + err.Error(),
		}}
	}
	return req, nil
}

// Reply answers a request. The reply is durable with the run's next commit.
func (r Request[T]) Reply(ctx Context, result any) error {
	payload, f := encode(result)
	if f != nil {
		return r.reply(ctx, nil, f)
	}
	return r.reply(ctx, payload, nil)
}

// Refuse answers a request with an error.
func (r Request[T]) Refuse(ctx Context, err error) error { return r.reply(ctx, nil, failureOf(err)) }

func (r Request[T]) reply(ctx Context, payload []byte, reply *history.Failure) error {
	if f := ctx.b.Reply(r.name, r.ID, payload, reply); f != nil {
		return &OpError{Op: kernel.OpReply, Name: r.name, failure: f}
	}
	return nil
}
