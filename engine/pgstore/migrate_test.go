package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/history"
)

func TestMigrate(t *testing.T) {
	dsn := postgres.NewDatabase(t)
	if _, err := pgstore.Open(t.Context(), dsn, nil); !errors.Is(err, history.ErrFormat) || !strings.Contains(err.Error(), "perdure migrate") {
		t.Errorf("an empty database: %v; want an error that says how to migrate it", err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if m, err := pgstore.Migrate(context.Background(), dsn); err != nil || m.To < m.From {
				t.Errorf("migrated from %d to %d: %v", m.From, m.To, err)
			}
		})
	}
	wg.Wait()
	m, err := pgstore.Migrate(t.Context(), dsn+" pool_max_conns=3") // as the string of Open may say
	if err != nil || m.From == 0 || m.From != m.To {
		t.Errorf("migrated again from %d to %d: %v", m.From, m.To, err)
	}
	s, err := pgstore.Open(t.Context(), dsn, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), "insert into perdure_schema (version, name) values (99, 'later')"); err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.Open(t.Context(), dsn, nil); !errors.Is(err, history.ErrFormat) || !strings.Contains(err.Error(), "99") {
		t.Errorf("a later schema: %v", err)
	}
	if _, err := pgstore.Migrate(t.Context(), dsn); !errors.Is(err, history.ErrFormat) {
		t.Errorf("a later schema, migrated: %v", err)
	}
}

// A password in a connection string is in no error.
func TestConnectionStringIsNotShown(t *testing.T) {
	for _, dsn := range []string{"postgres://u:secret@127.0.0.1:1/x?pool_max_conns=none", "postgres://u:secret@%zz/x"} {
		_, err := pgstore.Open(t.Context(), dsn, nil)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
		if _, err := pgstore.Migrate(t.Context(), dsn); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
}
