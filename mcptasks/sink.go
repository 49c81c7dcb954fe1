package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// taskSink writes notifications of tasks on a stream: the SDK cannot send a notification that it does not know.
type taskSink interface {
	notify(ctx context.Context, method string, params any) error
}

type sinkKey struct{}

// sseSink is the response of a subscription, or the own stream of a session, over HTTP. The SDK writes its events to
// it, this package its own; each event is one Write, so holding mu for a Write keeps events whole.
type sseSink struct {
	// opened is called when the SDK has accepted the stream; nil where nobody wants to know.
	opened func()

	mu     sync.Mutex
	w      http.ResponseWriter // guarded by mu
	closed bool                // guarded by mu; the handler has returned, w must not be used any more
}

var errSinkClosed = errors.New("the subscription's stream is closed")

func (s *sseSink) Header() http.Header { return s.w.Header() }

func (s *sseSink) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w.WriteHeader(status)
	if status == http.StatusOK && s.opened != nil {
		s.opened()
	}
}

func (s *sseSink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, errSinkClosed
	}
	s.setDeadline()
	return s.w.Write(p)
}

// sinkTimeout is how long one write to a subscriber may take: a reader that has stopped reading loses its stream
// instead of holding up those who notify it.
const sinkTimeout = 30 * time.Second

// setDeadline bounds the next write or flush. mu is held.
func (s *sseSink) setDeadline() {
	// Test recorders cannot do it; the connections of net/http can.
	_ = http.NewResponseController(s.w).SetWriteDeadline(time.Now().Add(sinkTimeout))
}

// FlushError implements what http.ResponseController looks for.
func (s *sseSink) FlushError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errSinkClosed
	}
	s.setDeadline()
	return http.NewResponseController(s.w).Flush()
}

func (s *sseSink) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func (s *sseSink) notify(_ context.Context, method string, params any) error {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s, "event: message\ndata: %s\n\n", b); err != nil {
		return err
	}
	return s.FlushError()
}
