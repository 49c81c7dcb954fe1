package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/engine/pgstore/pgtest"
	"github.com/perdure/perdure/history"
)

// perdure runs a command in the place with the store in a database, and returns what it printed.
func (p *place) perdure(dsn string, want exit.Code, args ...string) string {
	p.t.Helper()
	cmd := p.command(args...)
	cmd.Env = append(cmd.Env, "PERDURE_STORE="+dsn)
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != int(want) {
		p.t.Fatalf("perdure %s: exit code %d, want %d (%v)\n%s", strings.Join(args, " "), code, want, err, out)
	}
	return string(out)
}

// Two servers, each with a state folder of its own, serve the runs of one database.
func TestServersOnPostgres(t *testing.T) {
	db := pgtest.New(t)
	dsn, err := db.NewDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	one, two := newPlace(t, httpTools), newPlace(t, httpTools)
	if out := one.perdure(dsn, exit.Failed, "serve", "--socket"); !strings.Contains(out, "perdure migrate") {
		t.Errorf("without tables: %s", out)
	}
	if out := one.perdure(dsn, exit.OK, "migrate"); !strings.Contains(out, "migrated from version 0") {
		t.Errorf("%s", out)
	}
	if out := one.perdure(dsn, exit.OK, "migrate", "--json"); !strings.Contains(out, `"from"`) {
		t.Errorf("%s", out)
	}
	if out := one.perdure("not a database", exit.Usage, "migrate"); strings.Contains(out, "not a database") {
		t.Errorf("the connection string is shown: %s", out)
	}
	one.perdure(dsn, exit.OK, "start")
	two.perdure(dsn, exit.OK, "start")
	if out := one.perdure(dsn, exit.OK, "call", "hello", "name=world"); !strings.Contains(out, "hello world") {
		t.Errorf("%s", out)
	}
	found := two.run(func(r *admin.Run) bool { return r.Status == history.StatusCompleted })
	if out := two.perdure(dsn, exit.OK, "show", found.ID); !strings.Contains(out, "hello world") {
		t.Errorf("the other server shows: %s", out)
	}
	// The folder has one server at a time, wherever its store is.
	if out := one.perdure(dsn, exit.Conflict, "serve", "--socket"); !strings.Contains(out, filepath.Join(one.folder, "state")) {
		t.Errorf("a second server: %s", out)
	}
	if out := one.perdure("", exit.Usage, "stats"); !strings.Contains(out, "perdure stats --store") {
		t.Errorf("%s", out)
	}
	for _, text := range []string{"tables  ", "completed +1", "leases +0"} {
		if out := one.perdure(dsn, exit.OK, "stats"); !regexp.MustCompile(text).MatchString(out) {
			t.Errorf("stats without %q: %s", text, out)
		}
	}
	if out := one.perdure(dsn, exit.OK, "stats", "--json"); !strings.Contains(out, `"promotion": 1`) {
		t.Errorf("%s", out)
	}
	for _, command := range [][]string{{"backup", "b.db"}, {"compact"}, {"restore", "b.db"}} {
		if out := one.perdure(dsn, exit.Usage, command...); !strings.Contains(out, "is for a store in a file") || !strings.Contains(out, "hint:") {
			t.Errorf("%s: %s", command, out)
		}
	}
	one.perdure(dsn, exit.OK, "stop")
	if out := two.perdure(dsn, exit.OK, "call", "hello", "name=again"); !strings.Contains(out, "hello again") {
		t.Errorf("%s", out)
	}
	two.perdure(dsn, exit.OK, "stop")
	if out := one.perdure(dsn, exit.OK, "verify"); !strings.Contains(out, "sound") {
		t.Errorf("%s", out)
	}
}
