//lint:file-ignore SA1019 roots, sampling and logging are deprecated (SEP-2577) and still served for as long as clients have them

package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// asks are the questions of one task that are with the client's handlers, or were.
type asks struct {
	client *Client
	// answered gets a hint when an answer was given.
	answered chan struct{}
	working  sync.WaitGroup

	mu    sync.Mutex
	open  map[string]context.CancelFunc // guarded by mu; all that were asked, by key
	fatal error                         // guarded by mu; why the wait must end
}

func newAsks(c *Client) *asks {
	return &asks{client: c, answered: make(chan struct{}, 1), open: map[string]context.CancelFunc{}}
}

// put hands the task's new questions to the handlers, and takes back those that are no longer open. It reports whether
// a question is left that no handler can answer.
func (a *asks) put(ctx context.Context, t *DetailedTask) (left bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, cancel := range a.open {
		if _, still := t.InputRequests[key]; !still && cancel != nil {
			cancel()
			a.open[key] = nil
		}
	}
	for key, q := range t.InputRequests {
		if _, asked := a.open[key]; asked {
			continue
		}
		if !a.client.canAnswer(q) {
			left = true
			continue
		}
		qctx, cancel := context.WithCancel(ctx)
		a.open[key] = cancel
		a.working.Go(func() { a.ask(qctx, t.TaskID, key, q) })
	}
	return left
}

func (a *asks) ask(ctx context.Context, taskID, key string, q InputRequest) {
	refusal := ""
	for range maxAsks {
		response, err := a.client.handle(ctx, q, refusal)
		if err == nil {
			err = a.client.Update(ctx, taskID, map[string]any{key: response})
		}
		switch wire := wireError(err); {
		case ctx.Err() != nil:
			return // answered elsewhere, or the wait is over
		case err == nil:
			select {
			case a.answered <- struct{}{}:
			default:
			}
			return
		case wire == nil || wire.Code != jsonrpc.CodeInvalidParams || errors.Is(err, ErrTaskNotFound):
			a.fail(fmt.Errorf("answer question %s: %w", key, err))
			return
		}
		refusal = wireError(err).Message
	}
	a.fail(fmt.Errorf("answer question %s: refused %d times", key, maxAsks))
}

func (a *asks) fail(err error) {
	a.mu.Lock()
	a.fatal = errors.Join(a.fatal, err)
	a.mu.Unlock()
	select {
	case a.answered <- struct{}{}:
	default:
	}
}

func (a *asks) err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fatal
}

// stop takes all questions back and waits for the handlers.
func (a *asks) stop() {
	a.mu.Lock()
	for _, cancel := range a.open {
		if cancel != nil {
			cancel()
		}
	}
	a.mu.Unlock()
	a.working.Wait()
}

func (c *Client) canAnswer(q InputRequest) bool {
	switch q.Method {
	case methodElicit:
		return c.opts.Elicit != nil && (elicitMode(q.Params) != "url" || c.opts.ElicitURL)
	case methodSample:
		return c.opts.Sample != nil
	case methodRoots:
		return len(c.opts.Roots) > 0
	}
	return false
}

// handle gives a question to its handler; refusal is why the server refused the answer before, or "".
func (c *Client) handle(ctx context.Context, q InputRequest, refusal string) (any, error) {
	switch q.Method {
	case methodElicit:
		var p mcp.ElicitParams
		if err := json.Unmarshal(q.Params, &p); err != nil {
			return nil, fmt.Errorf("%s: %w", q.Method, err)
		}
		if refusal != "" {
			p.Message += "\n\n" + refusal
		}
		return c.opts.Elicit(ctx, &p)
	case methodSample:
		var p mcp.CreateMessageWithToolsParams
		if err := json.Unmarshal(q.Params, &p); err != nil {
			return nil, fmt.Errorf("%s: %w", q.Method, err)
		}
		return c.opts.Sample(ctx, &p)
	case methodRoots:
		return &mcp.ListRootsResult{Roots: c.opts.Roots}, nil
	}
	return nil, fmt.Errorf("no handler for %s", q.Method)
}
