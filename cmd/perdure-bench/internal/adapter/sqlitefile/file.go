// Package sqlitefile opens and reads the SQLite files of the engines that are measured.
package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	_ "modernc.org/sqlite" // the driver "sqlite"; the engines use the same one

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

// File is the path of a SQLite file.
type File string

// Sync is SQLite's setting of that name.
type Sync string

// FULL syncs the log at each commit; NORMAL only at checkpoints: what was committed since is lost with the power.
const (
	Full   Sync = "FULL"
	Normal Sync = "NORMAL"
)

// Open opens the file for an engine, with a write-ahead log.
func (f File) Open(sync Sync) (*sql.DB, error) {
	db, err := sql.Open("sqlite", fmt.Sprintf("file:%s?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=foreign_keys(ON)&_pragma=journal_mode(WAL)&_pragma=synchronous(%s)", f, sync))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", f, err)
	}
	return db, nil
}

// Count runs a query that counts, on a connection of its own.
func (f File) Count(ctx context.Context, query string) (n int, err error) {
	err = f.with(func(db *sql.DB) error { return db.QueryRowContext(ctx, query).Scan(&n) })
	return n, err
}

// Durability reads the settings that a connection without settings of its own has.
func (f File) Durability(ctx context.Context) (d peer.Durability, err error) {
	err = f.with(func(db *sql.DB) error {
		d, err = Durability(ctx, db)
		return err
	})
	return d, err
}

func (f File) with(fn func(*sql.DB) error) error {
	db, err := sql.Open("sqlite", fmt.Sprintf("file:%s?_pragma=busy_timeout(10000)", f))
	if err != nil {
		return fmt.Errorf("open %s: %w", f, err)
	}
	if err := errors.Join(fn(db), db.Close()); err != nil {
		return fmt.Errorf("read %s: %w", f, err)
	}
	return nil
}

// Durability reads the settings of an engine's own connection.
func Durability(ctx context.Context, db *sql.DB) (peer.Durability, error) {
	var journal, version string
	var level int
	for query, dest := range map[string]any{"pragma journal_mode": &journal, "pragma synchronous": &level, "select sqlite_version()": &version} {
		if err := db.QueryRowContext(ctx, query).Scan(dest); err != nil {
			return peer.Durability{}, fmt.Errorf("%s: %w", query, err)
		}
	}
	levels := []string{"OFF", "NORMAL", "FULL", "EXTRA"}
	if level < 0 || level >= len(levels) {
		return peer.Durability{}, fmt.Errorf("pragma synchronous is %d, which is unknown", level)
	}
	return peer.Durability{
		Full:   level >= slices.Index(levels, "FULL"),
		Detail: fmt.Sprintf("SQLite %s, journal_mode=%s, synchronous=%s", version, journal, levels[level]),
	}, nil
}
