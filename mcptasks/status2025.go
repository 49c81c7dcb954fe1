package mcptasks

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Sessions of revision 2025-11-25 are told of their tasks by notifications/tasks/status, on the session's own stream.
// The revision leaves that to the server, and clients must poll all the same; so a notification that finds no stream is
// dropped.

// tellStatus tells the session of the changes of a task that it has just created or read, until the task is over, the
// session ends, or its caller is no longer who asked. told is what the client knows.
func (s *Server) tellStatus(ctx context.Context, r *request, v *view, told task2025) {
	if r.session == nil || told.Status.Terminal() || !s.inflight.begin() {
		return
	}
	sctx, ok := s.sessions.follow(r.session, v.run.TaskID, s.opts.MaxListenTasks)
	if !ok {
		s.inflight.end()
		return
	}
	connection, _ := ctx.Value(sinkKey{}).(taskSink) // none over HTTP
	if c, ok := ctx.Value(callerKey{}).(Caller); ok {
		sctx = context.WithValue(sctx, callerKey{}, c)
	}
	go func() {
		defer s.inflight.end()
		defer s.sessions.unfollow(r.session, v.run.TaskID)
		defer func() {
			if p := recover(); p != nil {
				s.opts.Logger.Error("panic while a session is told of a task", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
		}()
		s.followStatus(sctx, r, connection, v, told)
	}()
}

func (s *Server) followStatus(ctx context.Context, r *request, connection taskSink, v *view, told task2025) {
	changed, stop := s.engine.Watch(v.run.ID)
	defer stop()
	var fault backoff
	for {
		var again <-chan time.Time
		now, err := s.allowedView(ctx, r, v.run.ID)
		switch {
		case ctx.Err() != nil, isTaskNotFound(err), errors.Is(err, errNoLongerAllowed):
			return
		case err != nil: // nothing is known, so nothing is said
			s.opts.Logger.WarnContext(ctx, "session could not be told of its task", "error", err)
			again = time.After(fault.next())
		default:
			fault = 0
			t := project2025(now)
			if t.changed(&told) {
				s.sendStatus(ctx, r, connection, t)
				told = t
			}
			s.forgetClosed(r.session, now)
			if t.Status.Terminal() {
				return
			}
		}
		select {
		case <-changed:
		case <-again:
		case <-s.inflight.drain:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (s *Server) sendStatus(ctx context.Context, r *request, connection taskSink, t task2025) {
	sink := connection
	if sink == nil {
		own := s.sessions.stream(r.session, r.caller)
		if own == nil {
			return
		}
		sink = own
	}
	if err := sink.notify(ctx, notificationStatus, t); err != nil {
		s.opts.Logger.DebugContext(ctx, "session was not told of its task", "error", err)
	}
}

// changed reports whether t says something that before did not: the polling interval and the extension of the handle
// are not news.
func (t *task2025) changed(before *task2025) bool {
	return t.Status != before.Status || t.StatusMessage != before.StatusMessage || t.LastUpdatedAt != before.LastUpdatedAt
}
