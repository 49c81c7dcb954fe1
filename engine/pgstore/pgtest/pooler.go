package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// NewPooler starts a PgBouncer in transaction mode in front of a database, with three connections of the server for all
// clients, and ends it with the test. It returns its connection string. Without PgBouncer the test is skipped.
func (s *Server) NewPooler(t testing.TB, database string) (dsn string) {
	t.Helper()
	path, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("PgBouncer is not installed: apt-get install pgbouncer")
	}
	const port = 6432
	ini := fmt.Sprintf(`[databases]
%s = host=%s dbname=%s user=%s
[pgbouncer]
listen_port = %d
unix_socket_dir = %s
auth_type = any
pool_mode = transaction
default_pool_size = 3
`, database, s.dir, database, role, port, s.dir)
	file := filepath.Join(s.dir, "pgbouncer-"+database+".ini")
	if err := os.WriteFile(file, []byte(ini), 0o644); err != nil { // whoever it runs as reads it
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, "-q", file) // other clean-ups come first, and need it
	cmd.Stderr = os.Stderr
	s.runAs(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()
	})
	dsn = fmt.Sprintf("host=%s port=%d user=%s dbname=%s", s.dir, port, role, database)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c, err := pgx.Connect(t.Context(), dsn)
		if err == nil {
			if err = c.Close(t.Context()); err == nil {
				return dsn
			}
		}
		if t.Context().Err() != nil || time.Now().After(end) {
			t.Fatal(errors.Join(errors.New("PgBouncer does not answer"), err))
		}
	}
}
