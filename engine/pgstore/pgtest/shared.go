package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is a server that the tests of a package share: it starts in their TestMain. Its databases are lost in a crash of the
// machine, which makes it faster.
type Shared struct {
	// Prepare makes the tables that Prepared copies.
	Prepare func(ctx context.Context, dsn string) error

	server  *Server
	missing error // why there is none
	once    sync.Once
	failed  error // of Prepare
}

// prepared is the database that Prepared copies.
const prepared = "prepared"

// Main is the body of TestMain: it starts the server, runs the tests and stops it. It returns the exit code.
func (s *Shared) Main(m *testing.M) (code int) {
	s.server, s.missing = Start(context.Background(), "fsync=off", "full_page_writes=off")
	if s.missing != nil && !errors.Is(s.missing, ErrMissing) {
		fmt.Fprintln(os.Stderr, s.missing)
		return 1
	}
	code = m.Run()
	if s.server != nil {
		if err := s.server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// Server returns the server. Without PostgreSQL the test is skipped.
func (s *Shared) Server(t testing.TB) *Server {
	t.Helper()
	if s.server == nil {
		t.Skip(s.missing)
	}
	return s.server
}

// NewDatabase makes an empty database and returns its connection string. Without PostgreSQL the test is skipped.
func (s *Shared) NewDatabase(t testing.TB) (dsn string) {
	t.Helper()
	dsn, err := s.Server(t).NewDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}

// Prepared makes a copy of a database that was prepared once, and returns its connection string. Without PostgreSQL the test is
// skipped.
func (s *Shared) Prepared(t testing.TB) (dsn string) {
	t.Helper()
	server := s.Server(t)
	s.once.Do(func() {
		if s.failed = server.create(t.Context(), prepared, "template1"); s.failed == nil {
			s.failed = s.Prepare(t.Context(), server.DSN(prepared))
		}
	})
	if s.failed != nil {
		t.Fatal(s.failed)
	}
	dsn, err := server.copyDatabase(t.Context(), prepared)
	if err != nil {
		t.Fatal(err)
	}
	return dsn
}
