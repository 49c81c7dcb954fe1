package pgstore

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// newsEvery is how often the other openings are told of what changed here, at most; newsSize how many runs one row is about,
// at most.
const (
	newsEvery = 10 * time.Millisecond
	newsSize  = 500
)

// news is what the other openings are to be told of. What happens to a run until then is one change.
type news struct {
	mu      sync.Mutex // guards all
	changes []engine.Change
	at      map[history.RunID]int // the index of a run's change
	wake    chan struct{}         // capacity 1
}

// changed tells the subscribers of changes at once, and the other openings soon.
func (s *Store) changed(changes ...engine.Change) {
	s.feed.Add(changes...)
	if s.poll > 0 {
		s.news.add(changes)
	}
	s.feed.Drain()
}

func (n *news) add(changes []engine.Change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		at, there := n.at[c.Run]
		if !there || !merge(&n.changes[at], c) {
			n.at[c.Run] = len(n.changes)
			n.changes = append(n.changes, *c)
		}
	}
	if len(changes) > 0 {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// merge makes two changes of a run one; it reports false where that cannot be.
func merge(into, c *engine.Change) bool {
	none := history.Token{}
	if into.Fenced != none && c.Fenced != none {
		return false
	}
	into.Status = c.Status
	into.Ready, into.Inbox, into.Due = into.Ready || c.Ready, into.Inbox || c.Inbox, into.Due || c.Due
	if c.Timer != 0 && (into.Timer == 0 || c.Timer < into.Timer) {
		into.Timer = c.Timer
	}
	if c.Fenced != none {
		into.Fenced = c.Fenced
	}
	return true
}

// take returns up to newsSize changes, the oldest.
func (n *news) take() []engine.Change {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.changes
	n.changes, n.at = nil, map[history.RunID]int{}
	if len(all) > newsSize {
		n.changes = all[newsSize:]
		for i := range n.changes {
			n.at[n.changes[i].Run] = i
		}
		all = all[:newsSize]
	}
	return all
}

// announce tells the other openings until ctx ends, and then of what is left.
func (s *Store) announce(ctx context.Context) {
	failed := false
	for ctx.Err() == nil {
		select {
		case <-s.news.wake:
		case <-ctx.Done():
		}
		for all := s.news.take(); len(all) > 0; all = s.news.take() {
			err := s.insertNews(all)
			if err != nil && !failed {
				s.logger.Warn("pgstore: other processes were not told of changes; they find them by asking", "error", err)
			}
			failed = err != nil
		}
		select {
		case <-time.After(newsEvery):
		case <-ctx.Done():
		}
	}
}

// told is a change as a row has it.
type told struct {
	engine.Change
	// TenantBytes is the change's tenant, which may be no text that JSON, or the database, has.
	TenantBytes []byte `json:",omitempty"`
}

func encodeNews(changes []engine.Change) ([]byte, error) {
	out := make([]told, len(changes))
	for i := range changes {
		out[i] = told{Change: changes[i], TenantBytes: []byte(changes[i].Tenant)}
		out[i].Tenant = ""
	}
	return json.Marshal(out)
}

func decodeNews(b []byte) ([]engine.Change, error) {
	var in []told
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, err
	}
	changes := make([]engine.Change, len(in))
	for i := range in {
		changes[i] = in[i].Change
		if t := in[i].TenantBytes; t != nil { // a program before this one has it as text
			changes[i].Tenant = string(t)
		}
	}
	return changes, nil
}

func (s *Store) insertNews(changes []engine.Change) error {
	b, err := encodeNews(changes)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err = s.pool.Exec(ctx, "insert into perdure_changes (opening, change) values ($1, $2::jsonb)", s.opening, string(b))
	return err
}
