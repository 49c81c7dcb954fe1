package boltstore_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/storetest"
	"github.com/perdure/perdure/history"
)

// buried makes a closed store with a run that is kept by its retention and one that a policy decides on, a live one that got
// a signal, a deleted one, a long deleted one whose rows are still being erased, a hold and a receipt.
func buried(t *testing.T) string {
	t.Helper()
	path, clock := filepath.Join(t.TempDir(), "perdure.db"), storetest.NewClock()
	s, err := boltstore.Open(path, &boltstore.Options{Clock: clock.Now})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	ctx := t.Context()
	begin := func(key string, keep time.Duration) history.RunID {
		run, _, err := s.Start(ctx, &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: key, Retention: keep}, Signal: &history.InboxItem{
			Kind: history.InboxSignal, Name: "x", Key: "1",
		}})
		check(err)
		return run.ID
	}
	end := func(id history.RunID) history.RunID {
		_, err := s.Cancel(ctx, id, "", "")
		check(err)
		return id
	}
	gone, long := end(begin("gone", time.Hour)), begin("long", time.Hour)
	for i := range engine.EraseLimit {
		_, err := s.Deliver(ctx, long, history.InboxItem{Kind: history.InboxSignal, Name: "x", Key: fmt.Sprint(i)})
		check(err)
	}
	end(long)
	begin("live", 0)
	end(begin("kept", 2*time.Hour))
	end(begin("policy", 0))
	clock.Advance(time.Hour)
	token, err := s.LeaseCleanup(ctx, "test", time.Hour)
	check(err)
	d, err := s.Delete(ctx, token, nil, []history.RunID{gone, long})
	check(err)
	if len(d.Deleted) != 2 || !d.More {
		t.Fatalf("deletion is %+v", d)
	}
	stone, err := s.Tombstone(ctx, gone)
	check(err)
	check(s.PutReceipt(ctx, history.Receipt{Run: gone, Destination: "f", Digest: stone.Head, Head: stone.Head}))
	_, err = s.PlaceHold(ctx, history.Hold{Scope: history.HoldRun, Run: gone, By: "counsel", Reason: "case 7"})
	check(err)
	verify(t, s)
	check(s.Close())
	return path
}

func TestVerifyFindsDamageOfRetention(t *testing.T) {
	source := buried(t)
	drop := func(bucket string) func(tx *bolt.Tx) error {
		return func(tx *bolt.Tx) error {
			b, k, _ := row(tx, bucket, 0)
			return b.Delete(k)
		}
	}
	dangle := func(bucket string, at int) func(tx *bolt.Tx) error {
		return func(tx *bolt.Tx) error {
			b, k, v := row(tx, bucket, 0)
			k[(at+len(k))%len(k)] ^= 1
			return b.Put(k, v)
		}
	}
	cut := func(bucket string) func(tx *bolt.Tx) error {
		return func(tx *bolt.Tx) error {
			b, k, v := row(tx, bucket, 0)
			return b.Put(k, v[:len(v)/2])
		}
	}
	for name, c := range map[string]struct {
		damage func(tx *bolt.Tx) error
		rules  []history.Rule
	}{
		"a run that would never be deleted":         {drop("expiring"), []history.Rule{history.RuleIndex}},
		"a run that a policy would never find":      {drop("closed"), []history.Rule{history.RuleIndex}},
		"a run that would be deleted at other time": {dangle("expiring", 7), []history.Rule{history.RuleIndex}},
		"a run that would be deleted, of none":      {dangle("closed", -1), []history.Rule{history.RuleIndex}},
		"the tombstone is gone":                     {drop("tombstones"), []history.Rule{history.RuleIndex}},
		"the tombstone is cut":                      {cut("tombstones"), []history.Rule{history.RuleRecord}},
		"the tombstone's place is gone":             {drop("deleted"), []history.Rule{history.RuleIndex}},
		"a place without a tombstone":               {dangle("deleted", -1), []history.Rule{history.RuleIndex}},
		"rows that nothing would erase":             {drop("erasing"), []history.Rule{history.RuleIndex}},
		"a run to erase that is not deleted":        {dangle("erasing", -1), []history.Rule{history.RuleTombstone}},
		"a receipt of no run":                       {dangle("receipts", -1), []history.Rule{history.RuleIndex}},
		"a receipt is cut":                          {cut("receipts"), []history.Rule{history.RuleRecord}},
		"a hold is cut":                             {cut("holds"), []history.Rule{history.RuleRecord}},
		"an entry is cut":                           {cut("journal"), []history.Rule{history.RuleRecord}},
		"a deleted run that is there": {func(tx *bolt.Tx) error {
			stone, _, _ := row(tx, "tombstones", 0)
			_, live, _ := row(tx, "specs", 0)
			_, _, rec := row(tx, "tombstones", 0)
			return stone.Put(live, rec)
		}, []history.Rule{history.RuleTombstone}},
		"a logged identity that is not there": {func(tx *bolt.Tx) error {
			_, live, _ := row(tx, "specs", 0)
			b := tx.Bucket([]byte("identities"))
			k, _ := b.Cursor().Seek(live)
			return b.Delete(bytes.Clone(k))
		}, []history.Rule{history.RuleIndex}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "perdure.db")
			copyTo(t, source, path)
			edit(t, path, c.damage)
			s := open(t, path, &boltstore.Options{ReadOnly: true})
			var got []history.Rule
			if err := s.Verify(t.Context(), func(v engine.Violation) { got = append(got, history.Rule(v.Rule)) }); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.rules {
				if !slices.Contains(got, want) {
					t.Errorf("the checker finds %v, want %s", got, want)
				}
			}
		})
	}
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
