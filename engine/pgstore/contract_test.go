package pgstore_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/engine/pgstore/pgtest"
	"github.com/perdure/perdure/engine/storetest"
	"github.com/perdure/perdure/engine/testbackend"
)

// postgres is the tests' server.
var postgres = pgtest.Shared{Prepare: func(ctx context.Context, dsn string) error {
	_, err := pgstore.Migrate(ctx, dsn)
	return err
}}

func TestMain(m *testing.M) { os.Exit(postgres.Main(m)) }

// database returns the connection string of a migrated database of the test's own.
func database(t *testing.T) string {
	t.Helper()
	return postgres.Prepared(t)
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

// TestContractWithCodecs: compressed and encrypted payloads change nothing of what a store promises.
func TestContractWithCodecs(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Backend { return testbackend.Coded(t, backend{database(t)}) }, storetest.PayloadGroups()...)
}
