package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/feed"
	"github.com/perdure/perdure/history"
)

// Options configures [Open]. The zero value is useful.
type Options struct {
	// Logger gets what no caller can be told: that the changes of other processes cannot be read for a while.
	// Default: slog.Default.
	Logger *slog.Logger
	// Poll is how often the changes of other processes are read. Default: 50 ms. Negative: never, and others are not told of
	// changes here either, for a database that one process has to itself.
	Poll time.Duration
	// Clock replaces the database's time, for tests.
	Clock func() time.Time
}

// Store is one opening of a database. It implements engine.Store and is safe for concurrent use.
type Store struct {
	pool    *pgxpool.Pool
	codec   *history.Codec
	clock   *clock
	logger  *slog.Logger
	poll    time.Duration
	opening int64
	feed    feed.Feed
	kept    kept
	recent  recentEnds
	news    news

	writes    gathering[*guarded]
	outcomes  gathering[*asked]
	histories gathering[*extract]

	// calls counts the calls in progress: the pool is closed after the last.
	calls sync.WaitGroup
	stop  context.CancelFunc
	polls sync.WaitGroup

	mu     sync.Mutex
	closed bool // guarded by mu, as is the first of calls
	// served numbers, for each tenant, its newest claim here. Guarded by mu.
	served map[string]uint64
	turns  uint64 // guarded by mu
	// tenants is how many the newest claim here that looked at turns found in line, limited whether a concurrency key there had a
	// limit. Guarded by mu.
	tenants int
	limited bool
}

var (
	_ engine.Store  = (*Store)(nil)
	_ engine.Shared = (*Store)(nil)
)

// Open opens the store in a database. dsn is a connection string of pgx: postgres://user@host/database or key=value
// pairs, with pool_max_conns for the number of connections. A schema of another version matches history.ErrFormat.
func Open(ctx context.Context, dsn string, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("pgstore: open: %w", safe(err))
	}
	cfg.AfterConnect = limitStandstill
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("pgstore: open: %w", safe(err))
	}
	s := &Store{
		pool: pool, codec: history.NewCodec(), clock: &clock{source: o.Clock}, logger: o.Logger, poll: o.Poll, served: map[string]uint64{},
		news:     news{at: map[history.RunID]int{}, wake: make(chan struct{}, 1)},
		writes:   gathering[*guarded]{flights: flights(cfg.MaxConns)},
		outcomes: gathering[*asked]{flights: readFlights}, histories: gathering[*extract]{flights: readFlights},
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	if s.poll == 0 {
		s.poll = 50 * time.Millisecond
	}
	if err := s.begin(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	if s.poll > 0 {
		s.polls.Go(func() { s.follow(ctx) })
		s.polls.Go(func() { s.announce(ctx) })
	}
	return s, nil
}

// begin checks the schema and takes a number for this opening.
func (s *Store) begin(ctx context.Context) error {
	if err := checkSchema(ctx, s.pool); err != nil {
		return err
	}
	if err := unmoved(ctx, s.pool); err != nil {
		return err
	}
	var now, last history.Time
	err := s.pool.QueryRow(ctx, "update perdure_meta set value = value + 1 where name = 'openings' returning value, ("+selectNow+"), (select value from perdure_meta where name = 'time')").
		Scan(&s.opening, &now, &last)
	if err != nil {
		return fmt.Errorf("pgstore: open: %w", err)
	}
	s.clock.read, s.clock.readAt, s.clock.last = now, time.Now(), last
	if s.clock.source != nil {
		s.clock.read = 0
	}
	return nil
}

// Close gives up the leases that were claimed through this opening, and implements io.Closer.
func (s *Store) Close() error {
	s.mu.Lock()
	done := s.closed
	s.closed = true
	s.mu.Unlock()
	if done {
		return nil
	}
	s.calls.Wait()
	s.stop() // and the others are told of what the last calls changed
	s.polls.Wait()
	defer s.pool.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := s.pool.Exec(ctx, "update perdure_runs set lease_until = null, claimed = true where lease_until is not null and opening = $1", s.opening)
	_, err2 := s.pool.Exec(ctx, "update perdure_cleanup set lease_until = 0 where opening = $1", s.opening)
	_, err3 := s.pool.Exec(ctx, "update perdure_meta set value = greatest(value, $1) where name = 'time'", s.clock.now())
	if err := errors.Join(err, err2, err3); err != nil {
		return fmt.Errorf("pgstore: close: leases stay until they run out: %w", err)
	}
	return nil
}

// Now implements engine.Store.
func (s *Store) Now() history.Time { return s.clock.now() }

// Shared implements engine.Shared: a change that another process commits late, or that the database forgot in a crash, is
// not told.
func (s *Store) Shared() {}

// Subscribe implements engine.Store. The returned function must not be called from fn.
func (s *Store) Subscribe(fn func(engine.Change)) (cancel func()) { return s.feed.Subscribe(fn) }

// enter counts a call in; leave counts it out.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return history.ErrClosed
	}
	s.calls.Add(1)
	return nil
}

func (s *Store) leave() { s.calls.Done() }

// read runs fn for a call that reads.
func (s *Store) read(ctx context.Context, op string, fn func() error) error {
	err := s.enter(ctx)
	if err == nil {
		defer s.leave()
		err = fn()
	}
	if err != nil {
		return fmt.Errorf("pgstore: %s: %w", op, typed(err))
	}
	return nil
}
