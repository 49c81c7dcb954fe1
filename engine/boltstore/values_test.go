package boltstore_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

// largeRun makes a closed store with a finished run whose second event has a payload of 100,000 bytes.
func largeRun(t *testing.T) (path string, id history.RunID) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "perdure.db")
	s := opened(t, path)
	start(t, s, "a", 10)
	ctx := t.Context()
	cs, err := s.Claim(ctx, engine.ClaimRequest{Owner: "w", Max: 1, TTL: time.Minute, Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	c := cs[0]
	_, err = s.Commit(ctx, history.Batch{Run: c.Run.ID, Token: c.Token, After: 1, Head: c.Run.Head, Next: history.NextClosed, Events: []history.Event{
		{Seq: 2, Kind: history.StepCompleted, Position: "a#0", Payload: []byte(`"` + strings.Repeat("x", 100_000) + `"`)},
		{Seq: 3, Kind: history.RunCompleted, Payload: []byte(`1`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	verify(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, c.Run.ID
}

func opened(t *testing.T, path string) *boltstore.Store {
	t.Helper()
	s, err := boltstore.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tamper changes a closed file.
func tamper(t *testing.T, path string, change func(tx *bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(change); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// bytesOf adds up the keys and values of a bucket.
func bytesOf(t *testing.T, path, bucket string) (n int) {
	t.Helper()
	tamper(t, path, func(tx *bolt.Tx) error {
		return tx.Bucket([]byte(bucket)).ForEach(func(k, v []byte) error {
			n += len(k) + len(v)
			return nil
		})
	})
	return n
}

func TestLargePayloadsAreKeptApart(t *testing.T) {
	path, _ := largeRun(t)
	if n := bytesOf(t, path, "events"); n > 2000 {
		t.Errorf("the events have %d bytes", n)
	}
	if n := bytesOf(t, path, "values"); n < 100_000 {
		t.Errorf("the values have %d bytes", n)
	}
}

func TestDamagedLargePayloadIsFound(t *testing.T) {
	for name, damage := range map[string]func(tx *bolt.Tx) error{
		"it is gone": func(tx *bolt.Tx) error {
			b, k, _ := row(tx, "values", 0)
			return b.Delete(k)
		},
		"a bit of it": func(tx *bolt.Tx) error {
			b, k, v := row(tx, "values", 0)
			v[70_000] ^= 1
			return b.Put(k, v)
		},
		"a part of it": func(tx *bolt.Tx) error {
			b, k, v := row(tx, "values", 0)
			return b.Put(k, v[:50_000])
		},
		"one too many": func(tx *bolt.Tx) error {
			b, k, v := row(tx, "values", 0)
			k[len(k)-1] = 9
			return b.Put(k, v)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, id := largeRun(t)
			tamper(t, path, damage)
			s := opened(t, path)
			defer s.Close()
			found := 0
			if err := s.Verify(t.Context(), func(engine.Violation) { found++ }); err != nil || found == 0 {
				t.Errorf("%d violations, %v", found, err)
			}
			events, err := s.History(t.Context(), id, 1, 10)
			if name != "one too many" && err == nil {
				t.Errorf("the history is read as %d events", len(events))
			}
		})
	}
}

func TestLargePayloadLeavesWithItsRun(t *testing.T) {
	path, id := largeRun(t)
	s := opened(t, path)
	ctx := context.Background()
	token, err := s.LeaseCleanup(ctx, "me", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Delete(ctx, token, history.RetentionPolicy{{Keep: time.Nanosecond}}, []history.RunID{id})
	if err != nil || len(d.Deleted) != 1 || d.More {
		t.Fatalf("%+v, %v", d, err)
	}
	verify(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := bytesOf(t, path, "values"); n != 0 {
		t.Errorf("%d bytes of values are left", n)
	}
}

// TestFileWithoutValuesIsOpened: the bucket came after the format.
func TestFileWithoutValuesIsOpened(t *testing.T) {
	path := populated(t)
	tamper(t, path, func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("values")) })
	ro, err := boltstore.Open(path, &boltstore.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	verify(t, ro)
	if err := ro.Close(); err != nil {
		t.Fatal(err)
	}
	s := opened(t, path)
	defer s.Close()
	verify(t, s)
}

// TestErasedPayloadIsNowhereAfterACompaction: what was erased is in free pages until then.
func TestErasedPayloadIsNowhereAfterACompaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perdure.db")
	s := opened(t, path)
	run, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: "k"}, Input: []byte(`"small-secret"`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Terminate(t.Context(), run.ID, "me", "enough"); err != nil {
		t.Fatal(err)
	}
	if x, err := s.ErasePayloads(t.Context(), run.ID, "me", "asked for"); err != nil || x.Erased != 1 {
		t.Fatalf("%+v, %v", x, err)
	}
	verify(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := boltstore.Compact(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	s = opened(t, path)
	defer s.Close()
	if _, err := s.Backup(t.Context(), &all, nil); err != nil || bytes.Contains(all.Bytes(), []byte("small-secret")) {
		t.Errorf("the payload is still in the file (%v)", err)
	}
	verify(t, s)
}

// TestLargePayloadsLeaveWithTheirGeneration: what is pruned of a run that goes on takes its large payloads along, those too that
// are more than one commit erases.
func TestLargePayloadsLeaveWithTheirGeneration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perdure.db")
	s := opened(t, path)
	start(t, s, "a", 10)
	ctx := t.Context()
	claim := func() history.Claim {
		t.Helper()
		cs, err := s.Claim(ctx, engine.ClaimRequest{Owner: "w", Max: 1, TTL: time.Minute, Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}})
		if err != nil || len(cs) != 1 {
			t.Fatalf("%d claims, %v", len(cs), err)
		}
		return cs[0]
	}
	large := []byte(`"` + strings.Repeat("x", 5000) + `"`)
	const steps = engine.EraseLimit + 200
	c := claim()
	var events []history.Event
	for i := range steps {
		events = append(events, history.Event{Seq: c.Run.Seq + 1 + uint64(i), Kind: history.StepCompleted, Position: history.Position(fmt.Sprint("a#", i)), Payload: large})
	}
	events = append(events, history.Event{Seq: c.Run.Seq + 1 + steps, Kind: history.RunContinued, Payload: large})
	if _, err := s.Commit(ctx, history.Batch{Run: c.Run.ID, Token: c.Token, After: c.Run.Seq, Head: c.Run.Head, Next: history.NextReady, Events: events}); err != nil {
		t.Fatal(err)
	}
	c = claim()
	if _, err := s.Commit(ctx, history.Batch{Run: c.Run.ID, Token: c.Token, After: c.Run.Seq, Head: c.Run.Head, Next: history.NextReady, Events: []history.Event{
		{Seq: c.Run.Seq + 1, Kind: history.StepCompleted, Generation: 1, Position: "a#0", Payload: large},
	}}); err != nil {
		t.Fatal(err)
	}
	token, err := s.LeaseCleanup(ctx, "me", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Prune(ctx, token, history.RetentionPolicy{{KeepGenerations: time.Nanosecond}}, []history.RunID{c.Run.ID}, "me", "test")
	if err != nil || len(p.Pruned) != 1 || !p.More {
		t.Fatalf("%+v, %v", p, err)
	}
	verify(t, s)
	for more := true; more; {
		if more, err = s.Erase(ctx, token); err != nil {
			t.Fatal(err)
		}
	}
	verify(t, s)
	left, err := s.History(ctx, c.Run.ID, 1, 10)
	if err != nil || len(left) != 2 || !bytes.Equal(left[0].Payload, large) || !bytes.Equal(left[1].Payload, large) {
		t.Errorf("%d events are left, %v", len(left), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n, want := bytesOf(t, path, "values"), 2*len(large); n < want || n > want+200 {
		t.Errorf("%d bytes of values are left, want those of two events: %d", n, want)
	}
}
