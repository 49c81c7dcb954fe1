package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type listenParams struct {
	mcp.ParamsBase
	Notifications struct {
		TaskIDs []string `json:"taskIds"`
	} `json:"notifications"`
}

// Listen yields the state of each task as it is and then after every change, until all of them are over, the context
// ends, or the loop is left. It subscribes with the server, and again where the stream breaks: the first state after
// that is the present one, so that nothing is missed but what was overtaken. Where the reader is slow, it gets the
// newest state of each task and not those in between.
//
// An error comes with the task that it belongs to: ErrTaskNotFound where the server does not accept the task. The
// last error, with no task, says why the subscription as a whole ended; a server of a revision before 2026-07-28 has
// no subscriptions, and gives that error at once.
func (c *Client) Listen(ctx context.Context, taskIDs ...string) iter.Seq2[DetailedTask, error] {
	return func(yield func(DetailedTask, error) bool) {
		open := slices.Clone(taskIDs)
		lost := time.Now()
		for len(open) > 0 {
			l := &clientListen{open: open, fresh: make(chan struct{}, 1), latest: map[string]DetailedTask{}}
			err := c.listenOnce(ctx, l, yield)
			switch {
			case l.left || err == nil && len(l.open) == 0:
				return
			case ctx.Err() != nil:
				yield(DetailedTask{}, context.Cause(ctx))
				return
			case wireError(err) != nil, l.refused, c.isClosed():
				yield(DetailedTask{}, fmt.Errorf("listen: %w", err))
				return
			}
			if l.heard {
				lost = time.Now()
			}
			if open = l.open; time.Since(lost) > c.opts.Unreachable {
				yield(DetailedTask{}, fmt.Errorf("listen: %w", err))
				return
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

// clientListen is one stream of a subscription.
type clientListen struct {
	open  []string // the tasks that are not over
	heard bool     // the server has acknowledged
	left  bool     // the reader has left the loop
	// refused says that the server would refuse the same request again.
	refused bool

	fresh chan struct{} // hints at a change of what follows

	mu       sync.Mutex
	accepted []string                // guarded by mu; nil until the acknowledgement
	latest   map[string]DetailedTask // guarded by mu; states that the reader has not seen
	order    []string                // guarded by mu; their tasks, oldest first
	ended    bool                    // guarded by mu
	err      error                   // guarded by mu; why it ended
}

func (l *clientListen) hint() {
	select {
	case l.fresh <- struct{}{}:
	default:
	}
}

// notified takes a notification off the stream. It never blocks.
func (l *clientListen) notified(method string, params json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.hint()
	switch method {
	case notificationAcknowledged:
		var a acknowledgedParams
		if json.Unmarshal(params, &a) == nil && l.accepted == nil {
			l.accepted = append([]string{}, a.Notifications.TaskIDs...)
		}
	case notificationTask:
		var d DetailedTask
		if json.Unmarshal(params, &d) != nil {
			return
		}
		if _, unseen := l.latest[d.TaskID]; !unseen {
			l.order = append(l.order, d.TaskID)
		}
		l.latest[d.TaskID] = d
	}
}

func (l *clientListen) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended { // else the stream of an answer has come to its end
		l.ended, l.err = true, err
	}
	l.hint()
}

// take returns what has come since the last time.
func (l *clientListen) take() (accepted []string, states []DetailedTask, ended bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range l.order {
		states = append(states, l.latest[id])
		delete(l.latest, id)
	}
	l.order = nil
	return l.accepted, states, l.ended, l.err
}

// errNoStream says that the server is gone, or that something between gave an answer of its own.
var errNoStream = errors.New("the subscription got no stream")

var errNoSubscriptions = errors.New("the server's protocol revision has no subscriptions")

func (c *Client) listenOnce(ctx context.Context, l *clientListen, yield func(DetailedTask, error) bool) error {
	session, err := c.Session(ctx)
	if err != nil {
		return err
	}
	if generationOf(session) != generation2026 {
		l.left = true
		yield(DetailedTask{}, fmt.Errorf("listen: %w", errNoSubscriptions))
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &listenParams{}
	p.Notifications.TaskIDs = l.open
	// The SDK returns once the request was sent or could not be, swallows its errors and the stream's, and drops task
	// notifications; the tap has all of them.
	t, status := &tap{notified: l.notified, ended: l.end}, &httpStatus{}
	ctx = context.WithValue(ctx, statusKey{}, status)
	_, err = mcp.CallCustomMethod[*listenParams, *mcp.SubscriptionsListenResult](withTap(ctx, t), session, methodListen, p)
	switch {
	case err != nil:
	case !t.hasBegun():
		err, l.refused = errNoStream, status.refused()
	default:
		err = l.read(ctx, yield)
	}
	if err != nil && wireError(err) == nil && ctx.Err() == nil {
		c.drop(session)
	}
	return err
}

// read hands the stream's states to the reader until the stream ends. A nil error means that the server ended it.
func (l *clientListen) read(ctx context.Context, yield func(DetailedTask, error) bool) error {
	for {
		accepted, states, ended, err := l.take()
		if accepted != nil && !l.heard {
			l.heard = true
			if !l.refuse(accepted, yield) {
				return nil
			}
		}
		for _, d := range states {
			if d.Status.Terminal() {
				l.remove(d.TaskID)
			}
			if !yield(d, nil) {
				l.left = true
				return nil
			}
		}
		if ended {
			return err
		}
		select {
		case <-l.fresh:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// refuse tells the reader of the tasks that the server did not accept. It reports false where the reader has left.
func (l *clientListen) refuse(accepted []string, yield func(DetailedTask, error) bool) bool {
	for _, id := range slices.Clone(l.open) {
		if slices.Contains(accepted, id) {
			continue
		}
		l.remove(id)
		if !yield(DetailedTask{Task: Task{TaskID: id}}, fmt.Errorf("listen to task %s: %w", id, ErrTaskNotFound)) {
			l.left = true
			return false
		}
	}
	return true
}

func (l *clientListen) remove(id string) {
	l.open = slices.DeleteFunc(slices.Clone(l.open), func(o string) bool { return o == id })
}
