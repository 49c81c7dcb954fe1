// Package dbos measures DBOS Transact for Go on SQLite and on PostgreSQL.
package dbos

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite" // its SQLite dialect
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/adapter/pgserver"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/adapter/sqlitefile"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

// database is the engine's database on PostgreSQL. It is dropped and made anew.
const database = "perdure_bench_dbos"

// Engine implements peer.Engine.
type Engine struct {
	sync   sqlitefile.Sync // "" for PostgreSQL
	file   sqlitefile.File
	server string
	marks  *peer.Marks
	db     *sql.DB
	pool   *pgxpool.Pool
	ctx    dbos.Context
}

// NewSQLite returns an engine to open on SQLite. Its own default is sqlitefile.Normal.
func NewSQLite(sync sqlitefile.Sync) peer.Engine { return &Engine{sync: sync} }

// NewPostgres returns an engine to open on PostgreSQL.
func NewPostgres() peer.Engine { return &Engine{} }

// Open implements peer.Engine.
func (e *Engine) Open(ctx context.Context, cfg peer.Config) error {
	e.marks, e.server = cfg.Marks, cfg.Postgres
	c := dbos.Config{AppName: "bench", ApplicationVersion: "1", ExecutorID: "local", Logger: slog.New(slog.DiscardHandler)}
	var err error
	if e.sync == "" {
		err = e.openPostgres(ctx, cfg.Fresh)
		c.SystemDBPool = e.pool
	} else {
		err = e.openSQLite(cfg.Dir)
		c.SQLiteSystemDB = e.db
	}
	if err != nil {
		return err
	}
	if e.ctx, err = dbos.NewContext(context.Background(), c); err != nil {
		return err
	}
	e.register()
	return dbos.Launch(e.ctx)
}

func (e *Engine) openPostgres(ctx context.Context, fresh bool) (err error) {
	if fresh {
		if err := pgserver.Create(ctx, e.server, database); err != nil {
			return err
		}
	}
	e.pool, err = pgserver.Pool(context.WithoutCancel(ctx), e.server, database)
	return err
}

func (e *Engine) openSQLite(dir string) (err error) {
	e.file = sqlitefile.File(filepath.Join(dir, "dbos.sqlite"))
	if e.db, err = e.file.Open(e.sync); err != nil {
		return err
	}
	e.db.SetMaxOpenConns(8) // as the engine sets it for a file that it opens itself
	e.db.SetMaxIdleConns(4)
	return nil
}

// Start implements peer.Engine.
func (e *Engine) Start(_ context.Context, id string, w peer.Work) (peer.Run, error) {
	fn, ok := e.workflows()[w.Kind]
	if !ok {
		return nil, fmt.Errorf("start %s: %w", w.Kind, peer.ErrUnsupported)
	}
	h, err := dbos.RunWorkflow(e.ctx, fn, input{ID: id, N: w.N}, dbos.WithWorkflowID(id))
	if err != nil {
		return nil, err
	}
	return &run{ctx: e.ctx, handle: h}, nil
}

type run struct {
	ctx    dbos.Context
	handle dbos.WorkflowHandle[int]
}

func (r *run) Wait(context.Context) error {
	_, err := r.handle.GetResult()
	return err
}

func (r *run) Signal(context.Context) error {
	return dbos.Send(r.ctx, r.handle.GetWorkflowID(), 1, "go")
}

// Completed implements peer.Engine.
func (e *Engine) Completed(ctx context.Context) (int, error) {
	if e.sync == "" {
		return pgserver.Count(ctx, e.server, database, "select count(*) from dbos.workflow_status where status = 'SUCCESS'")
	}
	return e.file.Count(ctx, "select count(*) from workflow_status where status = 'SUCCESS'")
}

// Durability implements peer.Engine.
func (e *Engine) Durability(ctx context.Context) (peer.Durability, error) {
	if e.sync == "" {
		return pgserver.Durability(ctx, e.pool)
	}
	return sqlitefile.Durability(ctx, e.db)
}

// Close implements peer.Engine. The engine closes neither a pool nor a file that it was given.
func (e *Engine) Close(context.Context) error {
	dbos.Shutdown(e.ctx, 2*time.Second)
	if e.pool != nil {
		e.pool.Close()
		return nil
	}
	return e.db.Close()
}
