//lint:file-ignore SA1019 roots, sampling and logging are deprecated (SEP-2577) and still served for as long as clients have them

package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// Sessions of revisions before 2026-07-28 are asked by requests from the server to the client.

// askSession puts those questions to the session that it was not asked yet. It does not wait for the answers: they
// change the run, which wakes the waiting call.
func (w *waiting) askSession(ctx context.Context, open []history.Interrupt) {
	for i := range open {
		in := open[i]
		if w.asked[in.Key] {
			continue
		}
		if w.asked == nil {
			w.asked = map[string]bool{}
		}
		w.asked[in.Key] = true
		run := w.run // w.run changes while the client is asked
		w.asking.Go(func() { w.server.askAndAnswer(ctx, w.session, w.request, run, in, nil) })
	}
}

// maxAsks bounds how often a client is asked again after an answer that does not fit.
const maxAsks = 3

// askAndAnswer asks the session one question and gives its answer to the run. What goes wrong leaves the question
// open, and gives false: the client can still answer it in another way.
func (s *Server) askAndAnswer(ctx context.Context, session *mcp.ServerSession, r *request, run history.Run, in history.Interrupt, meta mcp.Meta) bool {
	ctx, cancel := s.whileOpen(ctx, run.ID, in.Key)
	defer cancel()
	for range maxAsks {
		q, err := inputRequest(&in)
		if err == nil {
			var raw json.RawMessage
			if raw, err = askClient(ctx, session, q, meta); err == nil {
				err = s.answer(ctx, &run, r.accepts, map[string]json.RawMessage{in.Key: raw})
			}
		}
		if err == nil || ctx.Err() != nil {
			return err == nil
		}
		s.opts.Logger.InfoContext(ctx, "question was not answered by its client", "run", run.ID, "key", in.Key, "error", err)
		if !isUnfit(err) {
			return false
		}
	}
	return false
}

// whileOpen returns a context that ends when the question is no longer open, and at shutdown: the client then takes
// the question back.
func (s *Server) whileOpen(ctx context.Context, id history.RunID, key string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	changed, stop := s.engine.Watch(id)
	go func() {
		defer stop()
		defer cancel()
		for {
			open, err := s.engine.Interrupts(ctx, id)
			if err == nil && !slices.ContainsFunc(open, func(in history.Interrupt) bool { return in.Key == key }) {
				return
			}
			select {
			case <-changed:
			case <-s.inflight.drain:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}

// isUnfit reports whether the client's answer did not fit the question.
func isUnfit(err error) bool {
	var answer *workflow.AnswerError
	return errors.As(err, &answer) || isTaskNotFound(err) // both are -32602 on the wire
}

// askClient sends the question as a request of its own method, with meta added, and returns the client's result.
func askClient(ctx context.Context, session *mcp.ServerSession, q InputRequest, meta mcp.Meta) (json.RawMessage, error) {
	var res any
	var err error
	switch q.Method {
	case methodElicit:
		var p mcp.ElicitParams
		if err := json.Unmarshal(q.Params, &p); err != nil {
			return nil, fmt.Errorf("%s: %w", q.Method, err)
		}
		p.Meta = merged(p.Meta, meta)
		res, err = session.Elicit(ctx, &p)
	case methodSample:
		var p mcp.CreateMessageWithToolsParams
		if err := json.Unmarshal(q.Params, &p); err != nil {
			return nil, fmt.Errorf("%s: %w", q.Method, err)
		}
		p.Meta = merged(p.Meta, meta)
		res, err = session.CreateMessageWithTools(ctx, &p)
	case methodRoots:
		res, err = session.ListRoots(ctx, &mcp.ListRootsParams{Meta: meta})
	default:
		return nil, fmt.Errorf("no client method %q", q.Method)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(res)
}

func merged(own, more mcp.Meta) mcp.Meta {
	if len(more) == 0 {
		return own
	}
	out := mcp.Meta{}
	for _, m := range []mcp.Meta{own, more} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}
