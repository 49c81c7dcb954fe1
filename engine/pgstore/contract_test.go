package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/engine/pgstore/pgtest"
	"github.com/perdure/perdure/engine/storetest"
	"github.com/perdure/perdure/engine/testbackend"
)

// server is the tests' PostgreSQL; nil where there is none, and why.
var (
	server  *pgtest.Server
	missing error
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	server, missing = pgtest.Start(context.Background(), "fsync=off", "full_page_writes=off")
	if missing != nil && !errors.Is(missing, pgtest.ErrMissing) {
		fmt.Fprintln(os.Stderr, missing)
		return 1
	}
	code := m.Run()
	if server != nil {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// database returns the connection string of a migrated database of the test's own.
func database(t *testing.T) string {
	t.Helper()
	if server == nil {
		t.Skip(missing)
	}
	dsn, err := server.NewDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	return dsn
}

// backend is a database.
type backend struct{ dsn string }

func (b backend) Open(clock func() time.Time) (engine.Store, error) {
	return pgstore.Open(context.Background(), b.dsn, &pgstore.Options{Clock: clock})
}

// Shared says that any number of stores can be open at once.
func (backend) Shared() {}

// A pooler in transaction mode gives each transaction another connection, on which nothing was prepared: these are the two
// ways of pgx that prepare nothing. The groups have every statement that is not a plain one.
func TestContractWithoutPreparedStatements(t *testing.T) {
	for _, mode := range []string{"exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Backend {
				return backend{database(t) + " default_query_exec_mode=" + mode}
			}, groups()...)
		})
	}
}

func groups() []string {
	if all := os.Getenv("PERDURE_TEST_EVERY_GROUP"); all != "" {
		return nil
	}
	return []string{"start", "commit", "timers", "pruning"}
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Backend { return backend{database(t)} })
}

// TestContractWithCodecs: compressed and encrypted payloads change nothing of what a store promises. The groups are those in
// which payloads matter.
func TestContractWithCodecs(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Backend { return testbackend.Coded(t, backend{database(t)}) },
		"start", "commit", "children", "inbox", "questions", "ending", "lineage", "values")
}
