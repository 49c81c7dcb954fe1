package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/feed"
	"github.com/perdure/perdure/history"
)

// Disk is what outlives a store. Only one store may be open on it at a time.
type Disk struct {
	mu    sync.Mutex // guards open
	open  bool
	epoch uint64
	time  history.Time // of the newest write

	runs        map[history.RunID]*run
	keys        map[tenantKey]history.RunID
	tasks       map[string]history.RunID
	definitions map[string][][]byte // by name; the version is the index + 1
	secrets     map[string][]byte
	graves      graves
}

type tenantKey struct{ tenant, key string }

// run is everything about one run. A write changes a copy, but for what grows with the run's age. The events, the inbox and
// what is remembered are arrays that a copy appends to: the original has none of what is past its own length. So an item that
// is there is never changed in place, and of the copies of a run one is ever kept. The identities are one map for all copies,
// and a write that fails undoes what it did to them.
type run struct {
	spec    history.Spec
	state   history.State
	readyAt history.Time
	// base is what pruned events add up to; events are those from erased+1 on: up to the base they are of no reader.
	base   history.Base
	erased uint64
	events [][]byte
	timers map[history.Timer]bool
	// open holds the open questions, asked all that there ever were.
	open       []history.Interrupt
	asked      map[string]bool
	inbox      []history.InboxItem
	dead       []history.InboxItem
	identities map[identity]history.Digest
	remembered []remembered // in order
}

type identity struct {
	kind history.InboxKind
	key  string
}

func (r *run) clone() *run {
	c := *r
	c.timers = maps.Clone(r.timers)
	c.open = slices.Clone(r.open)
	c.asked = maps.Clone(r.asked)
	c.dead = slices.Clone(r.dead)
	return &c
}

// NewDisk returns an empty disk.
func NewDisk() *Disk {
	return &Disk{
		runs: map[history.RunID]*run{}, keys: map[tenantKey]history.RunID{}, tasks: map[string]history.RunID{},
		definitions: map[string][][]byte{}, secrets: map[string][]byte{}, graves: newGraves(),
	}
}

// Store implements engine.Store.
type Store struct {
	disk   *Disk
	codec  *history.Codec
	clock  func() time.Time
	opened time.Time

	mu      sync.Mutex // guards everything below, and the disk but for Disk.open
	closed  bool
	last    history.Time
	counter uint64
	leases  map[history.RunID]*lease
	cleanup lease
	delayed map[history.RunID]history.Time
	// served is the counter of each tenant's newest token.
	served map[string]uint64
	// fired holds the timers that fell due in this epoch and were not cleared since.
	fired map[history.RunID]map[history.Timer]bool
	feed  feed.Feed
}

type lease struct {
	token   history.Token
	owner   string
	expires history.Time
}

var _ engine.Store = (*Store)(nil)

// Open opens a store on the disk. clock may be nil. A disk that is open matches history.ErrLocked.
func Open(d *Disk, clock func() time.Time) (*Store, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open {
		return nil, fmt.Errorf("open memstore: %w", history.ErrLocked)
	}
	d.open = true
	if clock == nil {
		clock = time.Now
	}
	s := &Store{
		disk: d, codec: history.NewCodec(), clock: clock, opened: clock(), last: d.time,
		leases: map[history.RunID]*lease{}, delayed: map[history.RunID]history.Time{}, served: map[string]uint64{},
		fired: map[history.RunID]map[history.Timer]bool{},
	}
	d.epoch = max(d.epoch+1, uint64(s.opened.UnixMilli()))
	return s, nil
}

// Close implements engine.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if first {
		s.disk.mu.Lock()
		s.disk.open = false
		s.disk.mu.Unlock()
	}
	return nil
}

// Now implements engine.Store.
func (s *Store) Now() history.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

func (s *Store) now() history.Time {
	s.last = max(s.last, history.Time(s.opened.UnixNano()+int64(s.clock().Sub(s.opened))))
	return s.last
}

// Subscribe implements engine.Store. The returned function must not be called from fn.
func (s *Store) Subscribe(fn func(engine.Change)) (cancel func()) { return s.feed.Subscribe(fn) }

// do runs fn under the mutex and then tells the subscribers.
func (s *Store) do(ctx context.Context, op string, fn func() error) error {
	if err := s.locked(ctx, fn); err != nil {
		return fmt.Errorf("memstore: %s: %w", op, err)
	}
	s.feed.Drain()
	return nil
}

func (s *Store) locked(ctx context.Context, fn func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed {
		return history.ErrClosed
	}
	return fn()
}
