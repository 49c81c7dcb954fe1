package mcptasks

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
)

// sessionTable holds what belongs to sessions of revisions before 2026-07-28.
//
// It ends what waits in a session when the session ends: the SDK closes a session only once its requests are done.
//
// And it remembers how often a session has seen a question in tasks/get. There are two kinds of clients: one calls
// tasks/result as soon as it sees input_required, and is asked there; the other calls it only when the task is over,
// and expects to be asked on the session's own stream. So a question is asked there when it is seen for the second
// time while no tasks/result waits.
type sessionTable struct {
	mu      sync.Mutex
	open    map[*mcp.ServerSession]*sessionState // guarded by mu; an entry goes with its session
	results map[string]int                       // guarded by mu; tasks/result requests that wait, by task
	streams map[string]ownStream                 // guarded by mu; sessions' own streams over HTTP, by session id
	owners  map[string]Caller                    // guarded by mu; who opened a session, by session id
	// asking counts the questions on sessions' own streams.
	asking sync.WaitGroup
}

type sessionState struct {
	ctx context.Context // ends with the session
	end context.CancelFunc
	// polled are the open questions that tasks/get has shown, by task and key. A task's entry goes with its last one.
	polled map[string]map[string]*polledQuestion
	// followed are the tasks whose changes the session is told of.
	followed map[string]bool
}

// ownStream is the stream that a client opened for its session, and who it was.
type ownStream struct {
	sink   *sseSink
	caller Caller
}

// polledQuestion counts the polls that have shown one question, and how often it was asked.
type polledQuestion struct{ polls, asks int }

// state returns the session's entry. mu is held.
func (t *sessionTable) state(session *mcp.ServerSession) *sessionState {
	if s := t.open[session]; s != nil {
		return s
	}
	if t.open == nil {
		t.open = map[*mcp.ServerSession]*sessionState{}
	}
	s := &sessionState{polled: map[string]map[string]*polledQuestion{}, followed: map[string]bool{}}
	s.ctx, s.end = context.WithCancel(context.Background())
	t.open[session] = s
	go func() {
		_ = session.Wait() // why it ended does not matter here
		s.end()
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.open, session)
		delete(t.owners, session.ID())
	}()
	return s
}

// own binds a session to the caller that opens it. Connections have no id, and one caller for their whole life.
func (t *sessionTable) own(session *mcp.ServerSession, c Caller) {
	if session == nil || session.ID() == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state(session)
	if t.owners == nil {
		t.owners = map[string]Caller{}
	}
	t.owners[session.ID()] = c
}

// owns reports whether there is a session with this id that the caller opened. Both sides must be equal, also where they
// are empty.
func (t *sessionTable) owns(id string, c Caller) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	owner, ok := t.owners[id]
	return ok && owner == c
}

// bind returns a context that ends with ctx and with the session. A stateless request's session is the request.
func (t *sessionTable) bind(ctx context.Context, session *mcp.ServerSession) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if session == nil || session.ID() == "" {
		return ctx, cancel
	}
	t.mu.Lock()
	s := t.state(session)
	t.mu.Unlock()
	unbind := context.AfterFunc(s.ctx, cancel)
	return ctx, func() {
		unbind()
		cancel()
	}
}

// end ends what waits in the session with this id, so that the session can be closed.
func (t *sessionTable) end(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for session, s := range t.open {
		if id != "" && session.ID() == id {
			s.end()
		}
	}
}

// enterResult counts a waiting tasks/result; the returned function counts it out.
func (t *sessionTable) enterResult(taskID string) func() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.results == nil {
		t.results = map[string]int{}
	}
	t.results[taskID]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.results[taskID]--; t.results[taskID] == 0 {
			delete(t.results, taskID)
		}
	}
}

// due counts a poll and reports whether the question is to be asked now.
func (t *sessionTable) due(session *mcp.ServerSession, taskID, key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.results[taskID] > 0 {
		return false
	}
	polled := t.state(session).polled
	if polled[taskID] == nil {
		polled[taskID] = map[string]*polledQuestion{}
	}
	q := polled[taskID][key]
	if q == nil {
		q = &polledQuestion{}
		polled[taskID][key] = q
	}
	q.polls++
	if q.polls < 2 || q.asks >= maxAsks {
		return false
	}
	q.polls = math.MinInt // not again, unless lost says so
	q.asks++
	return true
}

// lost says that the question did not reach the client: the next poll asks again.
func (t *sessionTable) lost(session *mcp.ServerSession, taskID, key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.open[session]; s != nil && s.polled[taskID][key] != nil {
		s.polled[taskID][key].polls = 1
	}
}

// forget drops what was counted of the task's questions that are no longer open.
func (t *sessionTable) forget(session *mcp.ServerSession, taskID string, open []history.Interrupt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.open[session]
	if s == nil {
		return
	}
	maps.DeleteFunc(s.polled[taskID], func(key string, _ *polledQuestion) bool {
		return !slices.ContainsFunc(open, func(in history.Interrupt) bool { return in.Key == key })
	})
	if len(s.polled[taskID]) == 0 {
		delete(s.polled, taskID)
	}
}

// openStream and closeStream keep the own stream of a session, for as long as it is there.
func (t *sessionTable) openStream(id string, s ownStream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.streams == nil {
		t.streams = map[string]ownStream{}
	}
	t.streams[id] = s
}

func (t *sessionTable) closeStream(id string, sink *sseSink) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.streams[id].sink == sink {
		delete(t.streams, id)
	}
}

// stream is the own stream of a session over HTTP; nil where the caller has none open.
func (t *sessionTable) stream(session *mcp.ServerSession, c Caller) *sseSink {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.streams[session.ID()]; s.caller == c {
		return s.sink
	}
	return nil
}

// follow counts a task in that the session is to be told of, and returns a context that ends with the session; false
// where it is told already, or of too many.
func (t *sessionTable) follow(session *mcp.ServerSession, taskID string, limit int) (context.Context, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.state(session)
	if s.followed[taskID] || len(s.followed) >= limit {
		return nil, false
	}
	s.followed[taskID] = true
	return s.ctx, true
}

func (t *sessionTable) unfollow(session *mcp.ServerSession, taskID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.open[session]; s != nil {
		delete(s.followed, taskID)
	}
}
