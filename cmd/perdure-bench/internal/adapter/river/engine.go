// Package river measures River, a job queue, on SQLite and on PostgreSQL. A job is one step: River has no workflow of
// several, no wait inside a job and no signal, so only the one-step workloads and the lateness of scheduled jobs apply.
package river

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/adapter/pgserver"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/adapter/sqlitefile"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

const (
	// database is the engine's database on PostgreSQL. It is dropped and made anew.
	database = "perdure_bench_river"
	// completed counts the jobs that are done.
	completed = "select count(*) from river_job where state = 'completed'"
)

// queue is what the two clients, of two types, have in common.
type queue interface {
	insert(ctx context.Context, j job, o *river.InsertOpts) (id int64, err error)
	SubscribeConfig(*river.SubscribeConfig) (<-chan *river.Event, func())
	Start(context.Context) error
	Stop(context.Context) error
}

// Engine implements peer.Engine.
type Engine struct {
	postgres    bool
	file        sqlitefile.File
	server      string
	marks       *peer.Marks
	db          *sql.DB
	pool        *pgxpool.Pool
	queue       queue
	done        *completions
	unsubscribe func()
}

// NewSQLite returns an engine to open on SQLite, synchronous=FULL.
func NewSQLite() peer.Engine { return &Engine{done: newCompletions()} }

// NewPostgres returns an engine to open on PostgreSQL.
func NewPostgres() peer.Engine { return &Engine{postgres: true, done: newCompletions()} }

// Open implements peer.Engine. The queue is asked every 2 ms at most instead of every 100 ms: the default makes it slow
// for one client at a time for no gain here.
func (e *Engine) Open(ctx context.Context, cfg peer.Config) (err error) {
	e.marks, e.server = cfg.Marks, cfg.Postgres
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{marks: e.marks})
	rc := &river.Config{
		Logger:            slog.New(slog.DiscardHandler),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 500}},
		Workers:           workers,
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 50 * time.Millisecond,
	}
	if e.postgres {
		e.queue, err = e.openPostgres(ctx, rc, cfg.Fresh)
	} else {
		e.queue, err = e.openSQLite(ctx, rc, cfg.Dir)
	}
	if err != nil {
		return err
	}
	events, unsubscribe := e.queue.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: 100_000, Kinds: []river.EventKind{river.EventKindJobCompleted},
	})
	e.unsubscribe = unsubscribe
	go e.done.collect(events)
	return e.queue.Start(context.WithoutCancel(ctx))
}

func (e *Engine) openPostgres(ctx context.Context, rc *river.Config, fresh bool) (_ queue, err error) {
	if fresh {
		if err := pgserver.Create(ctx, e.server, database); err != nil {
			return nil, err
		}
	}
	if e.pool, err = pgserver.Pool(context.WithoutCancel(ctx), e.server, database); err != nil {
		return nil, err
	}
	return newClient[pgx.Tx](ctx, riverpgxv5.New(e.pool), rc)
}

func (e *Engine) openSQLite(ctx context.Context, rc *river.Config, dir string) (_ queue, err error) {
	e.file = sqlitefile.File(filepath.Join(dir, "river.sqlite"))
	if e.db, err = e.file.Open(sqlitefile.Full); err != nil {
		return nil, err
	}
	e.db.SetMaxOpenConns(1) // as its documentation asks
	return newClient[*sql.Tx](ctx, riversqlite.New(e.db), rc)
}

// client adapts River's client of one kind of transaction.
type client[TTx any] struct{ *river.Client[TTx] }

func newClient[TTx any](ctx context.Context, driver riverdriver.Driver[TTx], rc *river.Config) (queue, error) {
	m, err := rivermigrate.New(driver, nil)
	if err != nil {
		return nil, err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	c, err := river.NewClient(driver, rc)
	if err != nil {
		return nil, err
	}
	return client[TTx]{c}, nil
}

func (c client[TTx]) insert(ctx context.Context, j job, o *river.InsertOpts) (int64, error) {
	r, err := c.Insert(ctx, j, o)
	if err != nil {
		return 0, err
	}
	return r.Job.ID, nil
}

// Start implements peer.Engine.
func (e *Engine) Start(ctx context.Context, id string, w peer.Work) (peer.Run, error) {
	var o *river.InsertOpts
	switch {
	case w.Kind == peer.Sleep:
		e.marks.Asleep().Pass(id)
		o = &river.InsertOpts{ScheduledAt: time.Now().Add(time.Duration(w.N) * time.Millisecond)}
	case w.Kind != peer.Steps || w.N != 1:
		return nil, fmt.Errorf("start %s(%d): %w", w.Kind, w.N, peer.ErrUnsupported)
	}
	n, err := e.queue.insert(ctx, job{ID: id, Work: w.Kind}, o)
	if err != nil {
		return nil, err
	}
	return &run{done: e.done, job: n}, nil
}

// Completed implements peer.Engine.
func (e *Engine) Completed(ctx context.Context) (int, error) {
	if e.postgres {
		return pgserver.Count(ctx, e.server, database, completed)
	}
	return e.file.Count(ctx, completed)
}

// Durability implements peer.Engine.
func (e *Engine) Durability(ctx context.Context) (peer.Durability, error) {
	if e.postgres {
		return pgserver.Durability(ctx, e.pool)
	}
	return sqlitefile.Durability(ctx, e.db)
}

// Close implements peer.Engine.
func (e *Engine) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := e.queue.Stop(ctx)
	e.unsubscribe()
	if e.postgres {
		e.pool.Close()
		return err
	}
	return errors.Join(err, e.db.Close())
}
