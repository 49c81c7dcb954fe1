package boltstore

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// TestBallastOnAFullDisk runs itself on a small disk of its own.
func TestBallastOnAFullDisk(t *testing.T) {
	if os.Getenv("PERDURE_SMALL_DISK") != "" {
		onSmallDisk(t, os.Getenv("PERDURE_SMALL_DISK"))
		return
	}
	if exec.CommandContext(t.Context(), "unshare", "-rm", "true").Run() != nil {
		t.Skip("this user may not mount file systems")
	}
	c := exec.CommandContext(t.Context(), "unshare", "-rm", os.Args[0], "-test.run=^TestBallastOnAFullDisk$", "-test.v")
	c.Env = append(os.Environ(), "PERDURE_SMALL_DISK="+t.TempDir())
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

func onSmallDisk(t *testing.T, dir string) {
	if err := syscall.Mount("small", dir, "tmpfs", 0, "size=48m"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "perdure.db")
	s, err := Open(path, &Options{Ballast: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if info, err := os.Stat(path + ".ballast"); err != nil || info.Size() != 8<<20 {
		t.Fatalf("the ballast is %v, %v", info, err)
	}
	held, err := startRun(t, s, "held")
	if err != nil {
		t.Fatal(err)
	}
	claims, err := s.Claim(t.Context(), engine.ClaimRequest{Owner: "w", Workflows: []history.WorkflowKey{{Name: held.Workflow, Version: held.Version}}, Max: 1, TTL: time.Hour})
	if err != nil || len(claims) != 1 {
		t.Fatal(claims, err)
	}
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 64<<10); err == nil; {
		_, err = filler.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	big := make([]byte, 256<<10)
	for n := 0; ; n++ {
		_, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1}, Input: big})
		if errors.Is(err, history.ErrFull) {
			break
		}
		if err != nil || n > 1000 {
			t.Fatal(n, err)
		}
	}
	if _, err := os.Stat(path + ".ballast"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the disk is full and the ballast is there: %v", err)
	}

	run := claims[0].Run
	b := history.Batch{Run: run.ID, Token: claims[0].Token, After: run.Seq, Head: run.Head, Next: history.NextClosed, Events: []history.Event{
		{Seq: run.Seq + 1, Kind: history.RunCompleted, Payload: big},
	}}
	if _, err := s.Commit(t.Context(), b); err != nil {
		t.Fatalf("the run that was there cannot go on: %v", err)
	}
	if _, err := startRun(t, s, "new"); !errors.Is(err, history.ErrFull) {
		t.Errorf("a new run on a full disk: %v, want ErrFull", err)
	}
	if again, err := startRun(t, s, "held"); err != nil || again.ID != held.ID {
		t.Errorf("a repeated start on a full disk: %v", err)
	}
	if st, err := s.Stats(t.Context()); err != nil || st.Refusing == "" {
		t.Errorf("the stats do not say that new runs are refused: %+v, %v", st, err)
	}

	if err := errors.Join(filler.Close(), os.Remove(filler.Name())); err != nil {
		t.Fatal(err)
	}
	if _, err := startRun(t, s, "new"); err != nil {
		t.Errorf("a new run when there is room again: %v", err)
	}
	if _, err := os.Stat(path + ".ballast"); err != nil {
		t.Errorf("the ballast is not there again: %v", err)
	}
	if err := s.Verify(t.Context(), func(v engine.Violation) { t.Errorf("violation: %+v", v) }); err != nil {
		t.Error(err)
	}
}
