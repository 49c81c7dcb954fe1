package pgstore_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/engine/storetest"
)

// The statements in docs/postgres.md make two roles: one that migrates, and one that serves and may do no more.
func TestRoles(t *testing.T) {
	dsn := postgres.NewDatabase(t)
	ctx := t.Context()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "postgres.md"))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.SplitN(string(page), "```sql\n", 3)
	if len(parts) != 3 {
		t.Fatal("docs/postgres.md has not two blocks of SQL")
	}
	exec := func(dsn, sql string) error {
		c, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		_, err = c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	}
	block := func(part string) {
		t.Helper()
		sql, _, _ := strings.Cut(part, "```")
		sql = strings.ReplaceAll(sql, "database perdure", "database "+databaseOf(t, dsn))
		if err := exec(dsn, sql); err != nil {
			t.Fatalf("%v\n%s", err, sql)
		}
	}
	as := func(role string) string { return strings.Replace(dsn, "user=perdure", "user="+role, 1) }
	block(parts[1])
	t.Cleanup(func() { // roles are of the whole cluster
		c, err := pgx.Connect(context.Background(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		if _, err := c.Exec(context.Background(), "drop owned by perdure_owner, perdure_app cascade; drop role perdure_owner, perdure_app", pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Error(err)
		}
	})
	if _, err := pgstore.Migrate(ctx, as("perdure_app")); err == nil {
		t.Error("the role that serves has migrated")
	}
	if _, err := pgstore.Migrate(ctx, as("perdure_owner")); err != nil {
		t.Fatal(err)
	}
	block(parts[2])
	clock := storetest.NewClock()
	open := func() *pgstore.Store {
		t.Helper()
		s, err := pgstore.Open(ctx, as("perdure_app"), &pgstore.Options{Clock: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() }) // twice is no error
		return s
	}
	s := open()
	f := storetest.Furnish(t, s, clock)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	f.Check(t, open())
	if _, err := pgstore.Promote(ctx, as("perdure_app")); err != nil {
		t.Error(err)
	}
	for _, sql := range []string{
		"drop table perdure_runs", "alter table perdure_runs add column x int", "truncate perdure_events", "create table x (n int)",
		"update perdure_schema set version = 0", "insert into perdure_schema (version, name) values (99, '')",
	} {
		if err := exec(as("perdure_app"), sql); err == nil {
			t.Errorf("the role that serves may %s", sql)
		}
	}
}

func databaseOf(t *testing.T, dsn string) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Database
}
