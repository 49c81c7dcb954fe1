package boltstore_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

// backUp writes a backup to a new file.
func backUp(t *testing.T, s *boltstore.Store) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "backup.db")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	n, err := s.Backup(t.Context(), f, func(n int64) { size = n })
	if err = errors.Join(err, f.Close()); err != nil || n != size {
		t.Fatalf("backup of %d bytes, %d were announced: %v", n, size, err)
	}
	return path
}

func TestBackupWhileRunsAreWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perdure.db")
	s := open(t, path, nil)
	before := start(t, s, "before", 10)
	ctx, stop := context.WithCancel(t.Context())
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			for ctx.Err() == nil {
				_, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1}, Input: make([]byte, 500)})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	copied := backUp(t, s)
	stop()
	g.Wait()
	after := start(t, s, "after", 10)
	claims, err := s.Claim(t.Context(), engine.ClaimRequest{Owner: "w", Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: 1, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}

	restored := filepath.Join(t.TempDir(), "restored.db")
	if err := boltstore.Restore(t.Context(), copied, restored); err != nil {
		t.Fatal(err)
	}
	r := open(t, restored, nil)
	verify(t, r)
	if _, err := r.Run(t.Context(), before.ID); err != nil {
		t.Error(err)
	}
	if _, err := r.Run(t.Context(), after.ID); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("the backup has a run of after it: %v", err)
	}
	newer, err := r.Claim(t.Context(), engine.ClaimRequest{Owner: "w", Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: 1, TTL: time.Hour})
	if err != nil || newer[0].Token.Compare(claims[0].Token) <= 0 {
		t.Errorf("token %s of the restored store does not follow %s: %v", newer[0].Token, claims[0].Token, err)
	}
}

func TestBackupStopsWithItsContext(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "perdure.db"), nil)
	ctx, stop := context.WithCancel(t.Context())
	_, err := s.Backup(ctx, writerFunc(func(p []byte) (int, error) { stop(); return len(p), nil }), nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("backup: %v, want that it was canceled", err)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestRestoreRefusesWhatIsThereAndWhatIsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perdure.db")
	s := open(t, path, nil)
	run := start(t, s, "a", 5000)
	copied := backUp(t, s)
	if err := boltstore.Restore(t.Context(), copied, path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("restore over a store: %v, want fs.ErrExist", err)
	}
	b, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte(run.Head[:]), make([]byte, len(run.Head)), -1)
	if err := os.WriteFile(copied, b, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := boltstore.Restore(t.Context(), copied, filepath.Join(dir, "restored.db")); !errors.Is(err, history.ErrCorrupt) {
		t.Errorf("restore of a damaged backup: %v, want ErrCorrupt", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("a refused restore left %v, %v", entries, err)
	}
}

func TestCompactKeepsEverythingButTheFreePages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perdure.db")
	s, err := boltstore.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	kept := start(t, s, "kept", 100)
	var ids []history.RunID
	for range 20 {
		run, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Retention: 1}, Input: make([]byte, 1<<20)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Terminate(t.Context(), run.ID, "", ""); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, run.ID)
	}
	token, err := s.LeaseCleanup(t.Context(), "test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := s.Delete(t.Context(), token, nil, ids); err != nil || len(d.Deleted) != len(ids) {
		t.Fatal(d, err)
	}
	if _, err := boltstore.Compact(t.Context(), path); !errors.Is(err, history.ErrLocked) {
		t.Errorf("compacting an open store: %v, want ErrLocked", err)
	}
	st, err := s.Stats(t.Context())
	if err != nil || st.FreeBytes < 15<<20 {
		t.Errorf("%d bytes are free after deleting 20 MiB, %v", st.FreeBytes, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := boltstore.Compact(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Before < 20<<20 || c.After > 2<<20 {
		t.Errorf("compacted from %d to %d bytes", c.Before, c.After)
	}
	s = open(t, path, nil)
	verify(t, s)
	if got, err := s.Run(t.Context(), kept.ID); err != nil || got.Head != kept.Head {
		t.Errorf("run after the compaction: %+v, %v", got.State, err)
	}
	if _, err := s.Tombstone(t.Context(), ids[0]); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("compaction left %v, %v", entries, err)
	}
}

// Above the high-water mark no new run is taken, what is there goes on, and deleting makes room.
func TestHighWaterRefusesNewRunsEarly(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "perdure.db"), &boltstore.Options{HighWater: 4 << 20})
	var ids []history.RunID
	var err error
	for err == nil && len(ids) < 100 {
		var run *history.Run
		run, _, err = s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: "k" + string(rune('a'+len(ids))), Retention: 1}, Input: make([]byte, 256<<10)})
		if err == nil {
			ids = append(ids, run.ID)
		}
	}
	if !errors.Is(err, history.ErrFull) || len(ids) < 10 {
		t.Fatalf("after %d runs: %v, want ErrFull", len(ids), err)
	}
	if _, existed, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: "ka"}, Input: make([]byte, 256<<10)}); err != nil || !existed {
		t.Errorf("a repeated start above the mark: %t, %v", existed, err)
	}
	if _, err := s.Deliver(t.Context(), ids[0], history.InboxItem{Kind: history.InboxSignal, Name: "x", Payload: make([]byte, 1<<20)}); err != nil {
		t.Errorf("a signal above the mark: %v", err)
	}
	for _, id := range ids {
		if _, err := s.Terminate(t.Context(), id, "", ""); err != nil {
			t.Fatal(err)
		}
	}
	token, err := s.LeaseCleanup(t.Context(), "test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), token, nil, ids); err != nil {
		t.Fatal(err)
	}
	start(t, s, "new", 10)
	verify(t, s)
}

func TestStatsCountByStatusAndLine(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "perdure.db"), nil)
	first := start(t, s, "a", 10)
	start(t, s, "b", 10)
	if _, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "mail", Version: 3, Queue: "slow", Tenant: "acme"}}); err != nil {
		t.Fatal(err)
	}
	over := start(t, s, "c", 10)
	if _, err := s.Cancel(t.Context(), over.ID, "", ""); err != nil {
		t.Fatal(err)
	}
	st, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.Runs["ready"] != 3 || st.Runs["canceled"] != 1 || len(st.Lines) != 2 || st.FileBytes == 0 || st.Format != 4 {
		t.Errorf("stats are %+v", st)
	}
	if used := st.FileBytes - st.FreeBytes; used <= 0 || used > 1<<20 { // the file itself has grown by more
		t.Errorf("%d bytes of %d are in use by four small runs", used, st.FileBytes)
	}
	if l := st.Lines[0]; l.Workflow != "w" || l.Version != 1 || l.Runs != 2 || l.Oldest < first.CreatedAt {
		t.Errorf("the longest line is %+v", l)
	}
	if l := st.Lines[1]; l.Workflow != "mail" || l.Version != 3 || l.Queue != "slow" || l.Runs != 1 {
		t.Errorf("the other line is %+v", l)
	}
}
