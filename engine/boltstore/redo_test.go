package boltstore

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// smallLog has room for some records.
var smallLog = &Options{LogSize: 64 << 10, Log: slog.New(slog.DiscardHandler)}

// before are the keys of the runs that a store of logged has in its file: of the groups until a log is made, and of the one that
// names it.
var before = []string{"before0", "before1", "before2", "before3", "before4"}

// logged opens a store whose groups go to its log, in a bubble: while the test does not wait, the log is not flushed.
func logged(t *testing.T, fn func(t *testing.T, s *Store)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "perdure.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(path, smallLog)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range before {
			mustStart(t, s, key)
			synctest.Wait() // the log is made, where it was begun
		}
		if !s.work.redo.named || s.work.redo.lacking() {
			t.Fatalf("after %d groups the log is named: %t, lacking: %t", len(before), s.work.redo.named, s.work.redo.lacking())
		}
		fn(t, s)
		if err := s.Close(); err != nil && s.failure.Load() == nil {
			t.Error(err)
		}
	})
}

func mustStart(t *testing.T, s *Store, key string) history.Run {
	t.Helper()
	run, err := startRun(t, s, key)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// killed copies the store's files as a process that is killed now leaves them, and returns the copy's path.
func killed(t *testing.T, s *Store) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "perdure.db")
	for from, to := range map[string]string{s.path: to, redoPath(s.path): redoPath(to)} {
		if b, err := os.ReadFile(from); err == nil {
			err = os.WriteFile(to, b, fileMode)
			if err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return to
}

// has opens a store, looks which of the runs are there, closes it and returns their keys.
func has(t *testing.T, path string, o *Options, keys ...string) (found []string) {
	t.Helper()
	s, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		_, err := s.RunByKey(t.Context(), "", key)
		if err == nil {
			found = append(found, key)
		} else if !errors.Is(err, history.ErrNotFound) {
			t.Error(err)
		}
	}
	if err := s.Verify(t.Context(), func(v engine.Violation) { t.Errorf("violation: %+v", v) }); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return found
}

func wantKeys(t *testing.T, what string, got, want []string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: the runs %v are there, want %v", what, got, want)
	}
}

var abc = []string{"a", "b", "c"}

// startAll starts a run with each key, each in a group of its own.
func startAll(t *testing.T, s *Store, keys []string) {
	t.Helper()
	seq := s.work.redo.seq
	for _, key := range keys {
		mustStart(t, s, key)
	}
	if got := s.work.redo.seq - seq; got != uint64(len(keys)) {
		t.Fatalf("%d starts made %d records", len(keys), got)
	}
}

func TestTheLogHasWhatWasAcknowledged(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		startAll(t, s, abc)
		path := killed(t, s)
		wantKeys(t, "opened for reading", has(t, killedCopy(t, path), &Options{ReadOnly: true}, abc...), abc)
		wantKeys(t, "after a kill", has(t, path, smallLog, abc...), abc)
		if _, err := os.Stat(redoPath(path)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after an orderly close the log is there: %v", err)
		}
		wantKeys(t, "once more", has(t, path, smallLog, abc...), abc)
	})
}

// TestTheLogOfACrashIsUsedAgain: the next time has no other to make, and the first group of it goes to the log.
func TestTheLogOfACrashIsUsedAgain(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		startAll(t, s, abc)
		path, want := killed(t, s), slices.Clone(abc)
		for n := range 3 {
			was, err := os.Stat(redoPath(path))
			if err != nil {
				t.Fatal(err)
			}
			next, err := Open(path, smallLog)
			if err != nil {
				t.Fatal(err)
			}
			if next.work.redo.id == s.work.redo.id {
				t.Error("the log has its old name")
			}
			more := fmt.Sprint("after crash ", n)
			startAll(t, next, []string{more})
			want = append(want, more)
			if is, err := os.Stat(redoPath(path)); err != nil || !os.SameFile(was, is) {
				t.Errorf("another log was made: %v", err)
			}
			path = killed(t, next)
			if err := next.Close(); err != nil {
				t.Error(err)
			}
		}
		larger := *smallLog
		larger.LogSize *= 2
		wantKeys(t, "with a log of another size", has(t, path, &larger, want...), want)
	})
}

// TestHalfOfANewHead: a power cut while a log is taken over from the time before leaves any part of its new head, and a file that
// has everything and names no log.
func TestHalfOfANewHead(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		startAll(t, s, abc)
		path := killed(t, s)
		whole, err := os.ReadFile(redoPath(path))
		if err != nil {
			t.Fatal(err)
		}
		again := bytes.Clone(whole)
		sealRecord(again[:recordHeader+8], newLogID(), 0)
		if reader, err := Open(path, &Options{ReadOnly: true, Log: smallLog.Log}); err != nil { // it brings the file up to the log
			t.Fatal(err)
		} else if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
		for cut := range recordHeader + 9 {
			torn := killedCopy(t, path)
			writeLog(t, torn, slices.Concat(again[:cut], whole[cut:]))
			wantKeys(t, fmt.Sprintf("%d bytes of the new head", cut), has(t, torn, smallLog, abc...), abc)
		}
	})
}

// TestCloseBeforeTheLogIsMade: it leaves no log behind, nor who makes it.
func TestCloseBeforeTheLogIsMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perdure.db")
	s, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range redoAfter {
		mustStart(t, s, fmt.Sprint(i))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(redoPath(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after an orderly close the log is there: %v", err)
	}
}

// killedCopy copies a closed store with its log.
func killedCopy(t *testing.T, path string) string {
	t.Helper()
	return killed(t, &Store{path: path})
}

// TestTheLogIsFlushed: what is in the log gets to the file by itself, and the log begins anew.
func TestTheLogIsFlushed(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		startAll(t, s, abc)
		time.Sleep(flushAfter + time.Millisecond)
		synctest.Wait()
		if s.work.unflushed.any() || s.work.redo.lacking() || s.work.redo.at != redoBlock {
			t.Error("the log was not flushed")
		}
		path := killed(t, s)
		if err := os.Remove(redoPath(path)); err != nil {
			t.Fatal(err)
		}
		alone(t, path)
		wantKeys(t, "the file without its log", has(t, path, smallLog, abc...), abc)
		var more []string
		for n := range 100 { // over the end of the log, several times
			more = append(more, fmt.Sprint("more", n))
			mustStart(t, s, more[n])
		}
		if seq := s.work.redo.seq; seq < 50 {
			t.Errorf("%d records were written", seq)
		}
		wantKeys(t, "after more", has(t, killed(t, s), smallLog, more...), more)
	})
}

// alone gives up the log of a store, which is lost or damaged.
func alone(t *testing.T, path string) {
	t.Helper()
	if _, err := GiveUpLog(path); err != nil {
		t.Fatal(err)
	}
}

// TestTheNewestRecordMayBeTorn: of a record that was being written when the power went any part may be missing. It was not
// acknowledged.
func TestTheNewestRecordMayBeTorn(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		startAll(t, s, abc)
		at := int(s.work.redo.at)
		path := killed(t, s)
		whole, err := os.ReadFile(redoPath(path))
		if err != nil {
			t.Fatal(err)
		}
		record, ok := parseRecord(whole[at-redoBlock:])
		if !ok {
			t.Fatal("the last record does not take the last block")
		}
		for cut := 0; cut < record.size(); cut += 64 {
			torn := killedCopy(t, path)
			b := bytes.Clone(whole)
			clear(b[at-redoBlock+cut : at])
			writeLog(t, torn, b)
			wantKeys(t, fmt.Sprintf("%d bytes of the last record", cut), has(t, torn, smallLog, abc...), []string{"a", "b"})
		}
	})
}

func writeLog(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(redoPath(path), b, fileMode); err != nil {
		t.Fatal(err)
	}
}

// TestADamagedLogIsRefused: what was acknowledged is not dropped in silence, and there is a way out.
func TestADamagedLogIsRefused(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		startAll(t, s, abc)
		first := killed(t, s)
		others := filepath.Join(t.TempDir(), "other.log")
		other := makeLog(others, s.work.redo.size)
		if other.err != nil {
			t.Fatal(other.err)
		}
		if err := other.file.Close(); err != nil {
			t.Fatal(err)
		}
		whole, err := os.ReadFile(redoPath(first))
		if err != nil {
			t.Fatal(err)
		}
		foreign, err := os.ReadFile(others)
		if err != nil {
			t.Fatal(err)
		}
		flip := func(at int) []byte {
			b := bytes.Clone(whole)
			b[at] ^= 1
			return b
		}
		lose := func(block int) []byte {
			b := bytes.Clone(whole)
			clear(b[block*redoBlock : (block+1)*redoBlock])
			return b
		}
		for what, log := range map[string][]byte{
			"missing": nil, "empty": {}, "cut": whole[:len(whole)/2], "another file's": foreign,
			"a bit of its head":      flip(recordHeader + 3),
			"a bit of a record":      flip(redoBlock + recordHeader + 20),
			"a bit of a number":      flip(redoBlock + recordSeq + 7),
			"the first record":       lose(1),
			"the second record":      lose(2),
			"the head":               lose(0),
			"a length":               flip(2*redoBlock + recordLength + 1),
			"much larger than a log": append(bytes.Clone(whole), make([]byte, 100)...),
		} {
			path := killedCopy(t, first)
			if log == nil {
				if err := os.Remove(redoPath(path)); err != nil {
					t.Fatal(err)
				}
			} else {
				writeLog(t, path, log)
			}
			for _, o := range []*Options{nil, {ReadOnly: true}} {
				s, err := Open(path, o)
				if err == nil {
					_ = s.Close()
				}
				if !errors.Is(err, history.ErrCorrupt) || !strings.Contains(err.Error(), "--without-log") {
					t.Errorf("%s: %v, want ErrCorrupt with a way out", what, err)
				}
			}
			alone(t, path)
			wantKeys(t, what+", given up", has(t, path, nil, append(before, "a")...), before)
			if _, err := os.Stat(redoPath(path) + ".given-up"); log != nil && err != nil {
				t.Errorf("%s: what was given up: %v", what, err)
			}
		}
	})
}

// TestASoundLogIsNotGivenUp: who gives up a log that can be used loses nothing, and what was given up before is kept.
func TestASoundLogIsNotGivenUp(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		startAll(t, s, abc)
		path := killed(t, s)
		if reason, err := GiveUpLog(path); reason != nil || err != nil {
			t.Fatalf("a sound log: %v, %v", reason, err)
		}
		whole, err := os.ReadFile(redoPath(path))
		if err != nil {
			t.Fatal(err)
		}
		damaged := killedCopy(t, path)
		wantKeys(t, "a sound log", has(t, path, smallLog, abc...), abc)

		const earlier = "given up before"
		if err := os.WriteFile(redoPath(damaged)+".given-up", []byte(earlier), 0o600); err != nil {
			t.Fatal(err)
		}
		writeLog(t, damaged, whole[:len(whole)/2])
		if reason, err := GiveUpLog(damaged); !errors.Is(reason, ErrLog) || err != nil {
			t.Fatalf("a log that was cut: %v, %v", reason, err)
		}
		if b, err := os.ReadFile(redoPath(damaged) + ".given-up"); string(b) != earlier || err != nil {
			t.Errorf("what was given up before: %q, %v", b, err)
		}
		if b, err := os.ReadFile(redoPath(damaged) + ".2.given-up"); len(b) != len(whole)/2 || err != nil {
			t.Errorf("what is given up now: %d bytes, %v", len(b), err)
		}
	})
}

// TestAnOlderLapIsNotReplayed: records that the file has are not applied to it again, over what came after them.
func TestAnOlderLapIsNotReplayed(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		run := mustStart(t, s, "a")
		if err := s.catchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.work.reads.Add(1) // a reader that is about to begin: groups are committed to the file
		if _, err := s.Terminate(t.Context(), run.ID, "", ""); err != nil {
			t.Fatal(err)
		}
		path := killed(t, s)
		s.work.reads.Add(-1)
		again, err := Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if run, err := again.Run(t.Context(), run.ID); err != nil || !run.Status.Terminal() {
			t.Errorf("the run is %s, %v, want one that is over", run.Status, err)
		}
		if err := again.Verify(t.Context(), func(v engine.Violation) { t.Errorf("violation: %+v", v) }); err != nil {
			t.Error(err)
		}
	})
}

// TestFilesThatDoNotBelongTogether: a file and a log that were mixed up are not used together.
func TestFilesThatDoNotBelongTogether(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		startAll(t, s, []string{"a", "b"})
		var backup bytes.Buffer
		if _, err := s.Backup(t.Context(), &backup, nil); err != nil {
			t.Fatal(err)
		}
		old := killed(t, s)
		mustStart(t, s, "c") // names the log again
		startAll(t, s, []string{"d", "e"})
		path := killed(t, s)
		log, err := os.ReadFile(redoPath(path))
		if err != nil {
			t.Fatal(err)
		}

		writeLog(t, old, log)
		if _, err := Open(old, nil); !errors.Is(err, history.ErrCorrupt) || !strings.Contains(err.Error(), "move the log away") {
			t.Errorf("an older file with a newer log: %v", err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		for _, o := range []*Options{nil, {ReadOnly: true}} {
			if _, err := Open(path, o); !errors.Is(err, fs.ErrExist) || !errors.Is(err, ErrLog) {
				t.Errorf("a log without its file: %v", err)
			}
		}
		from := filepath.Join(t.TempDir(), "backup.db")
		if err := os.WriteFile(from, backup.Bytes(), fileMode); err != nil {
			t.Fatal(err)
		}
		if err := Restore(t.Context(), from, path); !errors.Is(err, fs.ErrExist) {
			t.Errorf("a backup is restored beside the log of the store before: %v", err)
		}
		if err := os.Remove(redoPath(path)); err != nil {
			t.Fatal(err)
		}
		if err := Restore(t.Context(), from, path); err != nil {
			t.Fatal(err)
		}
		wantKeys(t, "the restored store", has(t, path, nil, "a", "b", "c"), []string{"a", "b"})
	})
}

// TestCompactTakesTheLogAlong: a store that was killed can be compacted.
func TestCompactTakesTheLogAlong(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		startAll(t, s, abc)
		path := killed(t, s)
		if _, err := Compact(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		wantKeys(t, "compacted", has(t, path, smallLog, abc...), abc)
	})
}

// TestAFlushWithoutRoomLosesNothing: the store fails, and an open finds in the log what there was no room for.
func TestAFlushWithoutRoomLosesNothing(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		startAll(t, s, abc)
		s.db.MaxSize = 1 // behind the back of the store, which takes care that this does not happen
		_, err := s.List(t.Context(), engine.Filter{})
		if !errors.Is(err, history.ErrFailed) || !errors.Is(err, history.ErrFull) || !errors.Is(err, berrors.ErrMaxSizeReached) {
			t.Errorf("a read that needs a flush: %v, want ErrFailed and ErrFull with the cause", err)
		}
		if _, err := startRun(t, s, "d"); !errors.Is(err, history.ErrFailed) {
			t.Errorf("a write: %v, want ErrFailed", err)
		}
		wantKeys(t, "after a kill", has(t, killed(t, s), smallLog, abc...), abc)
	})
}

// TestAGroupWithoutRoomLosesNothing: a group that finds no room in the file is refused, and those before it, which are in the log
// and find some, are kept.
func TestAGroupWithoutRoomLosesNothing(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		startAll(t, s, abc)
		s.db.MaxSize = int(s.extent.Load()) + 1<<20
		_, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: "large"}, Input: make([]byte, 2<<20)})
		if !errors.Is(err, history.ErrFull) || errors.Is(err, history.ErrFailed) {
			t.Errorf("a start of 2 MiB: %v, want ErrFull", err)
		}
		s.db.MaxSize = 0
		mustStart(t, s, "d")
		wantKeys(t, "after a kill", has(t, killed(t, s), smallLog, "a", "b", "c", "large", "d"), []string{"a", "b", "c", "d"})
	})
}

// TestAnOpThatBreaksKeepsWhatIsInTheLog: what is in the log only survives that the open transaction is rolled back.
func TestAnOpThatBreaksKeepsWhatIsInTheLog(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		startAll(t, s, abc)
		err := s.submit(t.Context(), "test", func(st *stage) error {
			st.put(bSecrets, bytes.Repeat([]byte("x"), 40_000), []byte("x")) // bbolt's keys end at 32,768 bytes
			return nil
		})
		if !errors.Is(err, berrors.ErrKeyTooLarge) || errors.Is(err, history.ErrFailed) {
			t.Errorf("the broken op got %v", err)
		}
		mustStart(t, s, "d")
		want := append([]string{"d"}, abc...)
		wantKeys(t, "after a kill", has(t, killed(t, s), smallLog, want...), want)
		page, err := s.List(t.Context(), engine.Filter{})
		if err != nil || len(page.Runs) != len(before)+4 {
			t.Errorf("%d runs, %v", len(page.Runs), err)
		}
	})
}

// TestALogThatCannotBeWrittenIsFatal: the outcome of the group is unknown, and what was acknowledged before it is there.
func TestALogThatCannotBeWrittenIsFatal(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		startAll(t, s, abc)
		if err := s.work.redo.file.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := startRun(t, s, "d"); !errors.Is(err, history.ErrFailed) || !errors.Is(err, fs.ErrClosed) {
			t.Errorf("error is %v, want ErrFailed with the cause", err)
		}
		if _, err := s.RunByKey(t.Context(), "", "a"); !errors.Is(err, history.ErrFailed) {
			t.Errorf("a read: %v, want ErrFailed", err)
		}
		wantKeys(t, "after a kill", has(t, killed(t, s), smallLog, abc...), abc)
	})
}

// TestAFailedStoreIsNotFlushed: a record whose write was told as failed may be in the log all the same. A flush after that would put
// its rows into the file without its number, and an open would not find it where it looks.
func TestAFailedStoreIsNotFlushed(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		startAll(t, s, abc)
		r := &s.work.redo
		if err := r.file.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := startRun(t, s, "d"); !errors.Is(err, history.ErrFailed) {
			t.Fatalf("error is %v, want ErrFailed", err)
		}
		f, err := os.OpenFile(r.path, os.O_RDWR, 0)
		if err == nil {
			_, err = f.WriteAt(r.pending[r.sealed:], r.at)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		then := contents(t, s.path)
		time.Sleep(10 * flushAfter)
		synctest.Wait()
		if !bytes.Equal(then, contents(t, s.path)) {
			t.Error("the failed store wrote to its file")
		}
		want := append(slices.Clone(abc), "d")
		wantKeys(t, "after a kill", has(t, killed(t, s), smallLog, want...), want)
	})
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWithoutALog: where no log can be made the store works as well.
func TestWithoutALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perdure.db")
	if err := os.Mkdir(redoPath(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(redoPath(path), "keeps it"), nil, fileMode); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(path, smallLog)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range before {
			mustStart(t, s, key)
			synctest.Wait()
		}
		if s.work.redo.named || !s.work.redo.unable {
			t.Error("a log was made")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	wantKeys(t, "without a log", has(t, path, smallLog, before...), before)
}

// TestReadersFindWhatWasAcknowledged has readers of all kinds and writers at once, of which each reads what it wrote.
func TestReadersFindWhatWasAcknowledged(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "perdure.db"), smallLog)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 40 {
				key := fmt.Sprint(w, ".", i)
				run, err := startRun(t, s, key)
				if err != nil {
					t.Error(err)
					return
				}
				switch i % 4 {
				case 0:
					_, err = s.Run(t.Context(), run.ID)
				case 1:
					_, err = s.RunByKey(t.Context(), "", key)
				case 2:
					_, err = s.History(t.Context(), run.ID, 1, 1)
				default:
					var page engine.Page
					page, err = s.List(t.Context(), engine.Filter{Limit: 1000})
					err = errors.Join(err, lists(page, run.ID))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := s.Verify(t.Context(), func(v engine.Violation) { t.Errorf("violation: %+v", v) }); err != nil {
		t.Error(err)
	}
}

func lists(page engine.Page, id history.RunID) error {
	for _, run := range page.Runs {
		if run.ID == id {
			return nil
		}
	}
	return fmt.Errorf("the list lacks run %s", id)
}

// TestNothingIsReusedBeforeTheFlushIsDurable looks at the log from the inside of the flush's commit: bbolt's last act in it, when all is
// synced, is to call the transaction's handlers.
func TestNothingIsReusedBeforeTheFlushIsDurable(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		startAll(t, s, abc)
		r, at := &s.work.redo, make(chan int64, 1)
		err := s.await(t.Context(), &op{early: func() (bool, error) {
			s.work.writing.tx.OnCommit(func() { at <- r.at })
			return true, s.flush()
		}})
		if err != nil {
			t.Fatal(err)
		}
		if got := <-at; got != 4*redoBlock {
			t.Errorf("in the flush the log's next record goes to %d, want %d", got, 4*redoBlock)
		}
	})
}

// TestTheFileNamesTheLogBeforeItsFirstRecord: else an open would not look for it.
func TestTheFileNamesTheLogBeforeItsFirstRecord(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		path := killed(t, s)
		db, err := bolt.Open(path, fileMode, &bolt.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		err = db.View(func(tx *bolt.Tx) error {
			m, err := readMeta(tx)
			if m.log != s.work.redo.id || m.applied != 0 {
				t.Errorf("the file names log %x and record %d", m.log, m.applied)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}
