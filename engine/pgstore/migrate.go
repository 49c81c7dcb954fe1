package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/perdure/perdure/history"
)

//go:embed schema/*.sql
var schema embed.FS

// migration is one file of schema, whose name begins with its version.
type migration struct {
	version int
	name    string
	sql     string
}

// migrations returns all of them in order: 1, 2, …
func migrations() ([]migration, error) {
	entries, err := fs.ReadDir(schema, "schema")
	if err != nil {
		return nil, err
	}
	var all []migration
	for _, e := range entries { // sorted by name
		b, err := schema.ReadFile("schema/" + e.Name())
		if err != nil {
			return nil, err
		}
		v, err := strconv.Atoi(e.Name()[:4])
		if err != nil || v != len(all)+1 {
			return nil, fmt.Errorf("schema/%s: want the name to begin with %04d", e.Name(), len(all)+1)
		}
		all = append(all, migration{v, e.Name(), string(b)})
	}
	return all, nil
}

// Migration says what Migrate did, or would do.
type Migration struct {
	From, To int
}

// Migrate brings the database's schema to the version of this program, each step in a transaction of its own. dsn is a
// connection string of pgx; its role must be allowed to create tables in the first schema of its search path. Two that
// run at once wait for each other. A schema of a later version matches history.ErrFormat, and is left as it is.
func Migrate(ctx context.Context, dsn string) (m Migration, err error) {
	cfg, err := pgxpool.ParseConfig(dsn) // as Open does: the string may set the pool, of which nothing is needed here
	if err != nil {
		return m, fmt.Errorf("pgstore: migrate: %w", safe(err))
	}
	c, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return m, fmt.Errorf("pgstore: migrate: %w", safe(err))
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	all, err := migrations()
	if err != nil {
		return m, fmt.Errorf("pgstore: migrate: %w", err)
	}
	// Where two make it at once, the loser may be told that the table, its row type or their names are there already.
	if _, err := c.Exec(ctx, "create table if not exists perdure_schema (version integer primary key, name text not null, at timestamptz not null default now())"); err != nil && !isCode(err, codeUnique, "42P07", "42710") {
		return m, fmt.Errorf("pgstore: migrate: %w", err)
	}
	if m.From, err = schemaVersion(ctx, c); err != nil {
		return m, err
	}
	m.To = m.From
	if m.From > len(all) {
		return m, laterSchema(m.From, len(all))
	}
	for _, step := range all {
		done, err := step.apply(ctx, c)
		if err != nil {
			return m, fmt.Errorf("pgstore: migrate to version %d: %w", step.version, err)
		}
		if done {
			m.To = step.version
		}
	}
	return m, nil
}

// apply runs the migration, unless it was run before.
func (step migration) apply(ctx context.Context, c *pgx.Conn) (done bool, err error) {
	return done, pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "lock table perdure_schema in exclusive mode"); err != nil {
			return err
		}
		var there bool
		if err := tx.QueryRow(ctx, "select exists (select from perdure_schema where version = $1)", step.version).Scan(&there); err != nil || there {
			return err
		}
		if _, err := tx.Exec(ctx, step.sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		done = true
		_, err := tx.Exec(ctx, "insert into perdure_schema (version, name) values ($1, $2)", step.version, step.name)
		return err
	})
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// schemaVersion returns the newest migration that was run; 0 where none was.
func schemaVersion(ctx context.Context, q querier) (v int, err error) {
	err = q.QueryRow(ctx, "select coalesce(max(version), 0) from perdure_schema").Scan(&v)
	if isCode(err, "42P01") { // no such table
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("pgstore: read the version of the schema: %w", err)
	}
	return v, nil
}

func laterSchema(there, own int) error {
	return fmt.Errorf("pgstore: the schema is of version %d, this program knows up to %d: use the newer program: %w", there, own, history.ErrFormat)
}

// checkSchema refuses a schema that is not of this program's version.
func checkSchema(ctx context.Context, q querier) error {
	all, err := migrations()
	if err != nil {
		return fmt.Errorf("pgstore: %w", err)
	}
	v, err := schemaVersion(ctx, q)
	switch {
	case err != nil:
		return err
	case v > len(all):
		return laterSchema(v, len(all))
	case v < len(all):
		return fmt.Errorf("pgstore: the schema is of version %d, this program needs %d: run perdure migrate: %w", v, len(all), history.ErrFormat)
	}
	return nil
}

// isCode reports whether err is an error of PostgreSQL with one of the codes.
func isCode(err error, codes ...string) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return false
	}
	for _, c := range codes {
		if e.Code == c {
			return true
		}
	}
	return false
}
