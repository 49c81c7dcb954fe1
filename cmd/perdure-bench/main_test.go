package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/sitting"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/workload"
	"github.com/perdure/perdure/engine/pgstore/pgtest"
)

// The test binary is its own measuring process, as the command is.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == sitting.ChildArg {
		main()
		return
	}
	os.Exit(m.Run())
}

// tiny is every workload at a size that only shows that it works.
func tiny() []sitting.Cell {
	cells := []workload.Spec{
		{Workload: workload.W1, Clients: 4, Runs: 20, For: time.Minute},
		{Workload: workload.W2, Clients: 4, Runs: 8, For: time.Minute},
		{Workload: workload.W3, Runs: 3},
		{Workload: workload.W4, Clients: 4, Runs: 10, For: time.Minute, Sleep: 100 * time.Millisecond},
		{Workload: workload.W4M, Clients: 4, Runs: 10, For: time.Minute},
		{Workload: workload.W5, Runs: 2},
		{Workload: workload.W5T, Clients: 4, Runs: 10, For: time.Minute},
		{Workload: workload.W6, Clients: 4, Runs: 10, Sleep: 6 * time.Second},
		{Workload: workload.W7, Steps: 20},
	}
	var out []sitting.Cell
	for _, s := range cells {
		out = append(out, sitting.Cell{Spec: s})
	}
	return out
}

// Every engine does every workload, in processes of its own, and its store then has what it acknowledged: a measurement
// fails where it has not. With
// -short only this engine does.
func TestEveryPeerDoesEveryWorkload(t *testing.T) {
	s := &sitting.Sitting{Cells: tiny(), Rounds: 1, Dir: t.TempDir(), Progress: io.Discard}
	for _, p := range peers() {
		if !p.postgres && (p.name == ours || !testing.Short()) {
			s.Peers = append(s.Peers, p.name)
		}
	}
	if server := postgres(t); server != nil {
		s.Postgres = server.URL("postgres")
		s.Peers = append(s.Peers, oursPostgres)
	}
	rec, err := s.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.Failed(); err != nil {
		t.Fatal(err)
	}
	for i := range rec.Cells {
		for _, r := range rec.Cells[i].Results {
			if want := strings.HasPrefix(r.Peer, "river") && jobsOnly(r.Workload); r.Unsupported != want {
				t.Errorf("%s on %s: unsupported is %v", r.Workload, r.Peer, r.Unsupported)
			}
			if r.Durability.Full != (r.Peer != "dbos-normal") {
				t.Errorf("%s on %s: durability is %+v", r.Workload, r.Peer, r.Durability)
			}
		}
	}
}

// postgres starts a server; nil where there is no PostgreSQL, and with -short.
func postgres(t *testing.T) *pgtest.Server {
	t.Helper()
	if testing.Short() {
		return nil
	}
	server, err := pgtest.Start(t.Context())
	if errors.Is(err, pgtest.ErrMissing) {
		t.Log(err)
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// jobsOnly reports whether a queue of jobs has no notion of the workload.
func jobsOnly(w workload.Name) bool {
	return w != workload.W1 && w != workload.W3 && w != workload.W4
}

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-peers", "temporal"}, `there is no peer "temporal"`},
		{[]string{"-workloads", "W1,W9"}, `there is no workload "W9"`},
		{[]string{"-peers", "river-postgres", "-postgres", ""}, "-postgres"},
		{[]string{"-peers", "perdure-postgres", "-postgres", ""}, "-postgres"},
		{[]string{"-rounds", "0"}, "-rounds 0"},
		{[]string{"-json", "-markdown"}, "choose one"},
		{[]string{"W1"}, `unexpected argument "W1"`},
	} {
		o, err := parse(c.args, io.Discard)
		if err == nil {
			_, _, err = o.sitting()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want an error with %q", c.args, err, c.want)
		}
	}
}
