package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/pgstore/pgtest"
	"github.com/perdure/perdure/history"
)

// A team grows out of its file and goes back to one, and both moves are killed on the way. Nothing is lost.
func TestMoveIsKilled(t *testing.T) {
	db := pgtest.New(t)
	dsn, err := db.NewDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, httpTools)
	p.perdure("", exit.OK, "start")
	p.perdure("", exit.OK, "call", "hello", "name=world")
	found := p.run(func(r *admin.Run) bool { return r.Status == history.StatusCompleted })
	folder := filepath.Join(p.folder, "state")
	if out := p.perdure("", exit.Conflict, "move", "--from", folder, "--to", dsn); !strings.Contains(out, "perdure stop") {
		t.Errorf("a server has the file: %s", out)
	}
	p.perdure("", exit.OK, "stop")
	p.fill(filepath.Join(folder, "perdure.db"), 800)
	if out := p.perdure("", exit.Failed, "move", "--from", folder, "--to", dsn); !strings.Contains(out, "perdure migrate") {
		t.Errorf("a database without tables: %s", out)
	}
	p.perdure(dsn, exit.OK, "migrate")

	p.killedMove("move", "--from", folder, "--to", dsn)
	for _, store := range []string{"", dsn} {
		if out := p.perdure(store, exit.Conflict, "serve", "--socket"); !strings.Contains(out, "perdure move") {
			t.Errorf("a server in the middle of the move: %s", out)
		}
	}
	p.finishedMove("move", "--from", folder, "--to", dsn)
	if out := p.perdure("", exit.Conflict, "serve", "--socket"); !strings.Contains(out, "its runs go on in") {
		t.Errorf("a server on what was moved away: %s", out)
	}
	if out := p.perdure("", exit.Conflict, "move", "--from", folder, "--to", dsn); !strings.Contains(out, "its runs go on in") {
		t.Errorf("moved again: %s", out)
	}
	p.perdure(dsn, exit.OK, "start")
	if out := p.perdure(dsn, exit.OK, "show", found.ID); !strings.Contains(out, "hello world") {
		t.Errorf("the server on the database shows: %s", out)
	}
	p.perdure(dsn, exit.OK, "stop")

	back := filepath.Join(p.folder, "back.db")
	p.killedMove("move", "--from", dsn, "--to", back)
	p.finishedMove("move", "--from", dsn, "--to", back)
	if out := p.perdure("", exit.OK, "verify", back); !strings.Contains(out, "sound") {
		t.Errorf("%s", out)
	}
	if out := p.perdure("", exit.Usage, "move", "--undo", dsn); !strings.Contains(out, "--yes") {
		t.Errorf("undone without a question: %s", out)
	}
	p.perdure("", exit.OK, "move", "--undo", dsn, "--yes")
	if out := p.perdure("", exit.Conflict, "move", "--undo", dsn, "--yes"); !strings.Contains(out, "no move") {
		t.Errorf("undone again: %s", out)
	}
	if out := p.perdure("", exit.Usage, "promote", "--store", dsn); !strings.Contains(out, "--yes") {
		t.Errorf("promoted without a question: %s", out)
	}
	if out := p.perdure("", exit.OK, "promote", "--store", dsn, "--yes", "--json"); !strings.Contains(out, `"to"`) {
		t.Errorf("%s", out)
	}
	if out := p.perdure("", exit.OK, "erase", found.ID, "--store", dsn, "--reason", "asked for"); !strings.Contains(out, "erased") {
		t.Errorf("%s", out)
	}
	p.perdure("", exit.Usage, "move", "--from", folder)
	p.perdure("", exit.NotFound, "move", "--from", filepath.Join(p.folder, "none.db"), "--to", dsn)
}

// fill adds runs with large inputs to a file.
func (p *place) fill(path string, runs int) {
	p.t.Helper()
	s, err := boltstore.Open(path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	input := []byte(`"` + strings.Repeat("x", 50<<10) + `"`)
	var wg sync.WaitGroup
	for worker := range 50 {
		wg.Go(func() {
			for i := worker; i < runs; i += 50 {
				spec := history.Spec{Key: fmt.Sprint("fill-", i), Workflow: "fill", Version: 1}
				if _, _, err := s.Start(p.t.Context(), &history.Start{Spec: spec, Input: input}); err != nil {
					p.t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		p.t.Error(err)
	}
}

// killedMove starts a move, and kills it while it copies events.
func (p *place) killedMove(args ...string) {
	p.t.Helper()
	cmd := p.command(args...)
	r, w, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Close()
	cmd.Stderr = w
	err = cmd.Start()
	_ = w.Close() // the process has it
	if err != nil {
		p.t.Fatal(err)
	}
	said := ""
	for lines := bufio.NewScanner(r); lines.Scan(); {
		said += lines.Text() + "\n"
		if strings.HasPrefix(lines.Text(), "copy events") {
			if err := cmd.Process.Kill(); err != nil {
				p.t.Error(err)
			}
			break
		}
	}
	_, _ = io.Copy(io.Discard, r)
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		p.t.Fatalf("the move was not killed (%v):\n%s", err, said)
	}
}

// finishedMove runs a move again that was killed.
func (p *place) finishedMove(args ...string) {
	p.t.Helper()
	cmd := p.command(append(args, "--json")...)
	cmd.Stderr = io.Discard
	b, err := cmd.Output()
	var out moved
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil || !out.Resumed || out.Rows["runs"] != 801 || out.Rows["events"] < 801 {
		p.t.Errorf("the second attempt: %+v: %v", out, err)
	}
}
