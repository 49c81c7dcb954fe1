package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/engine/pgstore/pgtest"
)

// The test's own binary is the program where a test starts it so.
func TestMain(m *testing.M) {
	if os.Getenv("MACHINES") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func command(t *testing.T, dsn string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), "MACHINES=1", "PERDURE_STORE="+dsn)
	return cmd
}

// A worker and a server are killed; the other worker goes on where the first one was, and the other server has the result.
func TestMachines(t *testing.T) {
	dsn, err := pgtest.New(t, "fsync=off").NewDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := command(t, dsn).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := regexp.MustCompile(`worker (\w+) is killed(?s:.*)the second server has the result: pick by (\w+), pack by (\w+), ship by (\w+)`).FindStringSubmatch(string(out))
	if found == nil || found[2] != found[1] || found[3] == found[1] || found[4] != found[3] {
		t.Errorf("%s", out)
	}
}

func TestWithoutDatabase(t *testing.T) {
	out, err := command(t, "").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "PERDURE_STORE is not set: name an empty PostgreSQL database") {
		t.Errorf("%v\n%s", err, out)
	}
}
