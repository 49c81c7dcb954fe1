package boltstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func openInternal(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "perdure.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func startRun(t *testing.T, s *Store, key string) (history.Run, error) {
	t.Helper()
	run, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: key}})
	if err != nil {
		return history.Run{}, err
	}
	return *run, nil
}

// failsClosed checks that a store that has failed refuses everything, closes, and opens again with what it had
// acknowledged.
func failsClosed(t *testing.T, s *Store, known history.Run) {
	t.Helper()
	_, err := s.Run(t.Context(), known.ID)
	if !errors.Is(err, history.ErrFailed) {
		t.Errorf("a read gives %v, want ErrFailed", err)
	}
	if _, err := startRun(t, s, "later"); !errors.Is(err, history.ErrFailed) {
		t.Errorf("a write gives %v, want ErrFailed", err)
	}
	if _, err := s.Claim(t.Context(), engine.ClaimRequest{Owner: "w", Max: 1, TTL: time.Second}); !errors.Is(err, history.ErrFailed) {
		t.Errorf("a claim gives %v, want ErrFailed", err)
	}
	t.Logf("close: %v", s.Close()) // may report the same fault
	again, err := Open(s.Path(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := again.Run(t.Context(), known.ID); err != nil {
		t.Error(err)
	}
	err = again.Verify(t.Context(), func(v engine.Violation) { t.Errorf("violation: %+v", v) })
	if err != nil {
		t.Error(err)
	}
}

func TestAnIOErrorInACommitIsFatal(t *testing.T) {
	s := openInternal(t)
	run, err := startRun(t, s, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.file.Close(); err != nil { // every write fails from now on
		t.Fatal(err)
	}
	if _, err := startRun(t, s, "b"); !errors.Is(err, history.ErrFailed) || !errors.Is(err, fs.ErrClosed) {
		t.Errorf("error is %v, want ErrFailed with the cause", err)
	}
	failsClosed(t, s, run)
}

func TestAPanicInACommitIsFatal(t *testing.T) {
	s := openInternal(t)
	run, err := startRun(t, s, "a")
	if err != nil {
		t.Fatal(err)
	}
	err = s.submit(t.Context(), "test", func(*stage) error { panic("page 7: unexpected type") })
	if !errors.Is(err, history.ErrFailed) || !strings.Contains(err.Error(), "page 7") {
		t.Errorf("error is %v, want ErrFailed with the panic", err)
	}
	failsClosed(t, s, run)
}

// TestAnOpThatBreaksLeavesItsGroupAlone has bbolt refuse a write of one op in a group.
func TestAnOpThatBreaksLeavesItsGroupAlone(t *testing.T) {
	s := openInternal(t)
	defer s.Close()
	put := func(key string) *op {
		return &op{done: make(chan struct{}), stage: func(st *stage) error {
			st.put(bSecrets, []byte(key), []byte("x"))
			return nil
		}}
	}
	refused := &op{done: make(chan struct{}), stage: func(st *stage) error {
		st.put(bSecrets, []byte("refused"), []byte("x"))
		return history.ErrConflict
	}}
	first, broken, last := put("first"), put(strings.Repeat("x", 40_000)), put("last") // bbolt's keys end at 32,768 bytes
	s.commit([]*op{first, broken, refused, last})
	for _, o := range []*op{first, broken, refused, last} {
		<-o.done
	}
	if first.err != nil || last.err != nil {
		t.Errorf("the others got %v and %v", first.err, last.err)
	}
	if broken.err == nil || errors.Is(broken.err, history.ErrFailed) {
		t.Errorf("the broken op got %v", broken.err)
	}
	if !errors.Is(refused.err, history.ErrConflict) {
		t.Errorf("the refused op got %v", refused.err)
	}
	err := s.view(t.Context(), "test", func(v *view) error {
		for key, want := range map[string]bool{"first": true, "last": true, "refused": false} {
			if got := v.get(bSecrets, []byte(key)) != nil; got != want {
				t.Errorf("%s is there: %t, want %t", key, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestAGroupIsCheckedInOrder has ops of one group build on each other.
func TestAGroupIsCheckedInOrder(t *testing.T) {
	s := openInternal(t)
	defer s.Close()
	var wg sync.WaitGroup
	gate := make(chan struct{})
	wg.Go(func() { // holds the committer until the others have gathered
		err := s.submit(t.Context(), "gate", func(*stage) error { <-gate; return nil })
		if err != nil {
			t.Error(err)
		}
	})
	const n = 20
	fresh := make([]bool, n)
	for i := range n {
		wg.Go(func() {
			_, existed, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Key: fmt.Sprint(i % 2)}})
			if err != nil {
				t.Error(err)
			}
			fresh[i] = !existed
		})
	}
	close(gate)
	wg.Wait()
	made := 0
	for _, f := range fresh {
		if f {
			made++
		}
	}
	if made != 2 {
		t.Errorf("%d runs were made of 2 keys", made)
	}
}

func TestFullKnowsTheErrorsOfAFullDisk(t *testing.T) {
	grow := &fs.PathError{Op: "truncate", Path: "p", Err: syscall.ENOSPC}
	for err, want := range map[error]bool{
		&fs.PathError{Op: "write", Path: "p", Err: syscall.ENOSPC}: true,
		fmt.Errorf("file resize error: %s", grow):                  true,
		fmt.Errorf("file sync error: %s", grow):                    false,
		&fs.PathError{Op: "write", Path: "p", Err: syscall.EIO}:    false,
	} {
		if got := full(err); got != want {
			t.Errorf("full(%v) is %t, want %t", err, got, want)
		}
	}
}

func TestWindowIsBoundedAndLosesNothing(t *testing.T) {
	var disk []string
	for i := range 5 * windowSize {
		disk = append(disk, fmt.Sprintf("%06d", i*2))
	}
	w := window{}
	fill := func() {
		w.fill(func(from string, yield func(string, bool) bool) {
			for _, k := range disk {
				if k >= from && !yield(k, true) {
					return
				}
			}
		})
	}
	fill()
	if len(w.rows) != windowSize || w.complete {
		t.Fatalf("%d rows, complete: %t", len(w.rows), w.complete)
	}
	w.add("000001")   // before the horizon
	w.add("000001")   // twice
	w.add("999999")   // beyond it: it is found on disk
	w.remove("00000") // not there
	w.remove("000004")
	for i := range 3 * windowSize {
		w.add(fmt.Sprintf("0000000%06d", i)) // sorts before 000001
		if len(w.rows) > 2*windowSize {
			t.Fatalf("%d rows", len(w.rows))
		}
	}
	got := map[string]bool{}
	for {
		fill()
		if len(w.rows) == 0 {
			break
		}
		got[w.pop()] = true
	}
	for _, k := range disk {
		if k > "000004" && !got[k] {
			t.Fatalf("row %s is lost", k)
		}
	}
}

// TestNothingIsAcknowledgedBeforeItIsCommitted looks at the callers of a group from the inside of its commit: bbolt's last act
// in it, when all is synced, is to call the transaction's handlers.
func TestNothingIsAcknowledgedBeforeItIsCommitted(t *testing.T) {
	s := openInternal(t)
	defer s.Close()
	var group []*op
	early := make(chan int, 1)
	for i := range 3 {
		group = append(group, &op{done: make(chan struct{}), stage: func(st *stage) error {
			st.put(bSecrets, []byte(fmt.Sprint(i)), []byte("x"))
			if i > 0 {
				return nil
			}
			st.tx.OnCommit(func() {
				n := 0
				for _, o := range group {
					select {
					case <-o.done:
						n++
					default:
					}
				}
				early <- n
			})
			return nil
		}})
	}
	s.commit(group)
	for _, o := range group {
		<-o.done
		if o.err != nil {
			t.Error(o.err)
		}
	}
	if n := <-early; n > 0 {
		t.Errorf("%d of %d writes were acknowledged before they were on disk", n, len(group))
	}
}
