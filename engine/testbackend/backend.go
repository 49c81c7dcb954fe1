// Package testbackend gives tests of what stands on a store the data to open one on: a file or, where the environment
// variable PERDURE_TEST_STORE is the connection string of a PostgreSQL database, a schema of that database.
//
//	PERDURE_TEST_STORE=postgres://me@localhost/test go test ./engine
//
// Rerun does that for a whole package, with a server of its own.
//
// The stores work inside of a synctest bubble also in PostgreSQL: time stands still there while a call waits for the
// database, since what waits for the network does not count as blocked, and no goroutine of the store waits so between calls.
package testbackend

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/engine/storetest"
)

// variable chooses the database.
const variable = "PERDURE_TEST_STORE"

// Backend is the data of one store.
type Backend interface {
	storetest.Backend
	// Contents is all that is stored, as it is stored.
	Contents(t testing.TB) []byte
}

// New makes empty data, which is gone at the end of the test.
func New(t testing.TB) Backend {
	t.Helper()
	if dsn := database(); dsn != "" {
		return Schema(t, dsn)
	}
	return file{filepath.Join(t.TempDir(), "perdure.db")}
}

func database() string { return os.Getenv(variable) }

// file is the data of a boltstore.
type file struct{ path string }

func (f file) Open(clock func() time.Time) (engine.Store, error) {
	return boltstore.Open(f.path, &boltstore.Options{Clock: clock})
}

func (f file) Contents(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// schema is the data of a pgstore.
type schema struct{ name, dsn string }

// Schema makes a migrated schema in a database. Any number of stores can be open on it at once.
func Schema(t testing.TB, database string) Backend {
	t.Helper()
	s := schema{name: "test_" + strings.ToLower(rand.Text())}
	s.dsn = database + " search_path=" + s.name
	if u, err := url.Parse(database); err == nil && u.Scheme != "" {
		q := u.Query()
		q.Set("search_path", s.name)
		u.RawQuery = q.Encode()
		s.dsn = u.String()
	}
	s.connect(t, func(c *pgx.Conn) error {
		_, err := c.Exec(context.Background(), "create schema "+s.name)
		return err
	})
	t.Cleanup(func() {
		s.connect(t, func(c *pgx.Conn) error {
			_, err := c.Exec(context.Background(), "drop schema "+s.name+" cascade")
			return err
		})
	})
	if _, err := pgstore.Migrate(context.Background(), s.dsn); err != nil {
		t.Fatal(err)
	}
	return s
}

// Open opens a store. One with a clock of its own does not look for what other stores did: the time of a bubble would not
// wait for the answer.
func (s schema) Open(clock func() time.Time) (engine.Store, error) {
	o := &pgstore.Options{Clock: clock}
	if clock != nil {
		o.Poll = 1000 * time.Hour
	}
	return pgstore.Open(context.Background(), s.dsn, o)
}

// Shared implements storetest.Shared.
func (schema) Shared() {}

func (s schema) Contents(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	s.connect(t, func(c *pgx.Conn) error {
		ctx := context.Background()
		rows, err := c.Query(ctx, "select tablename from pg_tables where schemaname = $1", s.name)
		if err != nil {
			return err
		}
		tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, table := range tables {
			if _, err := c.PgConn().CopyTo(ctx, &b, "copy "+s.name+"."+table+" to stdout (format binary)"); err != nil {
				return err
			}
		}
		return nil
	})
	return b.Bytes()
}

func (s schema) connect(t testing.TB, fn func(c *pgx.Conn) error) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(fn(c), c.Close(ctx)); err != nil {
		t.Fatal(err)
	}
}
