package testbackend

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/engine/pgstore/pgtest"
)

// Rerun says how to run a package's tests again.
type Rerun struct {
	// Only and Except are regular expressions of the names of tests: those that are run (default: all), and those of
	// them that are not.
	Only, Except []string
	// Env is added to the environment.
	Env []string
}

// OnPostgreSQL runs the tests of the package again, with their stores in PostgreSQL. It is skipped where PostgreSQL is not
// installed.
func (r Rerun) OnPostgreSQL(t *testing.T) {
	t.Helper()
	if database() != "" {
		t.Skip("all tests of this process run in PostgreSQL")
	}
	server := pgtest.New(t, "fsync=off", "full_page_writes=off")
	dsn, err := server.NewDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	left := time.Hour
	if deadline, ok := t.Deadline(); ok {
		left = time.Until(deadline) - 5*time.Second // so that it is the other process that says what hangs
	}
	args := []string{"-test.v", "-test.timeout=" + left.String(), "-test.skip=" + anyOf(append(slices.Clone(r.Except), t.Name()))}
	if r.Only != nil {
		args = append(args, "-test.run="+anyOf(r.Only))
	}
	c := exec.CommandContext(t.Context(), self, args...)
	c.Env = append(append(os.Environ(), r.Env...), variable+"="+dsn)
	out, err := c.CombinedOutput()
	passed := strings.Count("\n"+string(out), "\n--- PASS: ")
	if err != nil || passed == 0 {
		t.Fatalf("%d tests passed, %v\n%s", passed, err, out)
	}
	t.Logf("%d tests passed", passed)
}

func anyOf(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

// NeedsFile skips a test where stores are not files. why says what of a file it is about.
func NeedsFile(t testing.TB, why string) {
	t.Helper()
	if database() != "" {
		t.Skip("needs a file: " + why)
	}
}

// NeedsDatabase skips a test of several stores on the same data, unless stores are in a database.
func NeedsDatabase(t testing.TB) {
	t.Helper()
	if database() == "" {
		t.Skip("several stores on the same data: TestOnPostgreSQL runs this test")
	}
}
