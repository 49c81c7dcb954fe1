package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
)

// How a subscription to tasks is served: the SDK answers subscriptions/listen for the filters that it knows, and drops
// taskIds. So the transport layer hands the ids on (frame.private), serveListen filters them and calls the SDK, the
// sending middleware adds them to the SDK's acknowledgement and learns the subscription's id there, and
// notifications/tasks goes to the stream's sink. One goroutine follows each task; the engine fans out its changes.

// listening is one subscription with task ids.
type listening struct {
	request *request
	sink    taskSink
	taskIDs []string // the accepted ones
	// acknowledged is closed when the acknowledgement was sent; subscription is set before.
	acknowledged chan struct{}
	subscription any
	// cancel ends the whole subscription.
	cancel context.CancelFunc
}

type listeningKey struct{}

// listenTable counts the open subscriptions of each caller.
type listenTable struct {
	mu   sync.Mutex
	open map[Caller]int // guarded by mu; no zero entries
}

func (t *listenTable) enter(c Caller, limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[c] >= limit {
		return false
	}
	if t.open == nil {
		t.open = map[Caller]int{}
	}
	t.open[c]++
	return true
}

func (t *listenTable) leave(c Caller) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[c]--; t.open[c] == 0 {
		delete(t.open, c)
	}
}

// serveListen serves subscriptions/listen, with or without task ids.
func (s *Server) serveListen(ctx context.Context, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	r, err := s.inspect(ctx, req)
	if err != nil {
		return nil, err
	}
	ids := ""
	if r.extra != nil {
		ids = r.extra.Header.Get(headerTaskIDs)
	}
	if ids != "" && !r.tasks {
		return nil, errMissingCapability()
	}
	if !s.inflight.begin() {
		return nil, internalError("the server is shutting down")
	}
	defer s.inflight.end()
	if !s.listens.enter(r.caller, s.opts.MaxListens) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("too many subscriptions; at most %d may be open", s.opts.MaxListens)}
	}
	defer s.listens.leave(r.caller)
	// The SDK parks until the context ends; a context of our own ends it gracefully, with its result.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.inflight.drain:
			cancel()
		case <-ctx.Done():
		}
	}()
	if ids == "" {
		return next(ctx, methodListen, req)
	}
	return s.listenTasks(ctx, cancel, r, ids, req, next)
}

func (s *Server) listenTasks(ctx context.Context, cancel context.CancelFunc, r *request, ids string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	sink, ok := ctx.Value(sinkKey{}).(taskSink)
	if !ok {
		return nil, internalError("this connection cannot carry task notifications")
	}
	l := &listening{request: r, sink: sink, acknowledged: make(chan struct{}), cancel: cancel}
	runs, err := s.acceptListen(ctx, l, ids)
	if err != nil {
		return nil, s.protocolError(ctx, methodListen, err)
	}
	var followers sync.WaitGroup
	defer followers.Wait()
	fctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, id := range runs {
		followers.Go(func() { s.follow(fctx, l, id) })
	}
	// The SDK acknowledges, and blocks if and only if it has agreed to a filter of its own.
	res, err := next(context.WithValue(ctx, listeningKey{}, l), methodListen, req)
	if err != nil {
		return res, err
	}
	followers.Wait() // until each task is over, or the context ends
	return res, nil
}

// acceptListen decides which of the ids the caller may follow: each once, at most as many as allowed, those of the
// caller's own tasks. The acknowledgement says which. A fault of the store refuses the subscription.
func (s *Server) acceptListen(ctx context.Context, l *listening, raw string) ([]history.RunID, error) {
	var ids []string
	if json.Unmarshal([]byte(raw), &ids) != nil {
		return nil, invalidParams("notifications.taskIds: want an array of strings")
	}
	var runs []history.RunID
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			continue
		}
		if len(seen) == s.opts.MaxListenTasks {
			break
		}
		seen[id] = true
		run, err := s.taskByID(ctx, l.request.caller, id)
		switch {
		case isTaskNotFound(err):
			continue
		case err != nil:
			return nil, err
		}
		l.taskIDs = append(l.taskIDs, id)
		runs = append(runs, run.ID)
	}
	return runs, nil
}

// isTaskNotFound reports whether err is one of those that look the same to a client.
func isTaskNotFound(err error) bool {
	var wire *jsonrpc.Error
	return errors.Is(err, history.ErrNotFound) || errors.Is(err, history.ErrExpired) ||
		errors.As(err, &wire) && wire.Code == jsonrpc.CodeInvalidParams
}

type taskNotification struct {
	Meta map[string]any `json:"_meta"`
	DetailedTask
}

// follow sends the task's state at once and then each change, until it is over or ctx ends.
func (s *Server) follow(ctx context.Context, l *listening, id history.RunID) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.Logger.Error("panic in a subscription", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			l.cancel()
		}
	}()
	changed, stop := s.engine.Watch(id) // before the first reading, so that no change falls between
	defer stop()
	select {
	case <-l.acknowledged:
	case <-ctx.Done():
		return
	}
	var last *DetailedTask
	var fault backoff
	for {
		var again <-chan time.Time
		d, err := s.emission(ctx, l, id)
		switch {
		case ctx.Err() != nil, isTaskNotFound(err):
			return
		case errors.Is(err, errNoLongerAllowed):
			l.cancel()
			return
		case err != nil: // nothing is known, so nothing is said
			s.opts.Logger.WarnContext(ctx, "subscription could not read its task", "error", err)
			again = time.After(fault.next())
		default:
			fault = 0
			if last == nil || d.changed(last) {
				if err := l.sink.notify(ctx, notificationTask, taskNotification{Meta: map[string]any{mcp.MetaKeySubscriptionID: l.subscription}, DetailedTask: d}); err != nil {
					l.cancel() // the reader is gone
					return
				}
				last = &d
			}
			if d.Status.Terminal() {
				return
			}
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

var errNoLongerAllowed = errors.New("the caller may no longer see the task")

// emission reads what tasks/get would say now, to the caller as it is now.
func (s *Server) emission(ctx context.Context, l *listening, id history.RunID) (DetailedTask, error) {
	v, err := s.allowedView(ctx, l.request, id)
	if err != nil {
		return DetailedTask{}, err
	}
	return s.project(v)
}

// allowedView reads a run for a caller who asked for it a while ago, if that is still the caller: the token has not
// expired, and Identify says what it said then. Otherwise the error is errNoLongerAllowed.
func (s *Server) allowedView(ctx context.Context, r *request, id history.RunID) (*view, error) {
	if x := r.extra; x != nil && x.TokenInfo != nil && !x.TokenInfo.Expiration.IsZero() && s.now().After(x.TokenInfo.Expiration) {
		return nil, errNoLongerAllowed
	}
	c, err := s.identify(ctx, r.extra)
	if err != nil || c != r.caller {
		return nil, errNoLongerAllowed
	}
	v, err := s.load(ctx, id)
	if err != nil {
		return nil, err
	}
	if !owns(c, &v.run) {
		return nil, errNoLongerAllowed
	}
	return v, nil
}

// backoff doubles from one second to half a minute.
type backoff time.Duration

func (b *backoff) next() time.Duration {
	*b = min(max(2**b, backoff(time.Second)), backoff(30*time.Second))
	return time.Duration(*b)
}

type acknowledgedParams struct {
	mcp.ParamsBase
	Notifications acknowledgedFilters `json:"notifications"`
}

type acknowledgedFilters struct {
	mcp.NotificationSubscriptions
	TaskIDs []string `json:"taskIds"`
}

// sending adds the accepted task ids to the acknowledgement of a subscription.
func (s *Server) sending(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		l, ok := ctx.Value(listeningKey{}).(*listening)
		if !ok || method != notificationAcknowledged {
			return next(ctx, method, req)
		}
		p, ok := req.GetParams().(*mcp.SubscriptionsAcknowledgedParams)
		session, ok2 := req.GetSession().(*mcp.ServerSession)
		if !ok || !ok2 {
			return next(ctx, method, req)
		}
		l.subscription = p.Meta[mcp.MetaKeySubscriptionID]
		full := &acknowledgedParams{Notifications: acknowledgedFilters{p.Notifications, append([]string{}, l.taskIDs...)}}
		full.Meta = p.Meta
		res, err := next(ctx, method, &mcp.ServerRequest[*acknowledgedParams]{Session: session, Params: full})
		if err == nil {
			close(l.acknowledged)
		}
		return res, err
	}
}
