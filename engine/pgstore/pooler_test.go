package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/engine/storetest"
)

// Nothing needs a session: everything works through PgBouncer in transaction mode, with few connections of the server for many.
func TestPoolerInTransactionMode(t *testing.T) {
	dsn := database(t)
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	pooled := postgres.Server(t).NewPooler(t, cfg.Database) + " default_query_exec_mode=exec"
	clock := storetest.NewClock()
	open := func() engine.Store {
		t.Helper()
		s, err := pgstore.Open(t.Context(), pooled, &pgstore.Options{Clock: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() }) // twice is no error
		return s
	}
	first, other := open(), open()
	f := storetest.Furnish(t, first, clock)
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	f.Check(t, other)
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}
