package boltstore_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

// populated makes a closed store with a ready run, a waiting one with a timer, a question and items in its inbox, and
// one that is over.
func populated(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "perdure.db")
	s, err := boltstore.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	begin := func(key string) history.Claim {
		start(t, s, key, 10)
		cs, err := s.Claim(ctx, engine.ClaimRequest{Owner: "w", Max: 1, TTL: time.Minute, Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}})
		check(err)
		return cs[0]
	}
	c := begin("over")
	_, err = s.Commit(ctx, history.Batch{Run: c.Run.ID, Token: c.Token, After: 1, Head: c.Run.Head, Next: history.NextClosed, Events: []history.Event{
		{Seq: 2, Kind: history.StepCompleted, Position: "a#0", Payload: []byte(`"result"`)}, {Seq: 3, Kind: history.RunCompleted, Payload: []byte(`1`)},
	}})
	check(err)
	_, err = s.Deliver(ctx, c.Run.ID, history.InboxItem{Kind: history.InboxSignal, Name: "late", Key: "l"})
	check(err)
	c = begin("waits")
	due := s.Now().Add(time.Hour)
	_, err = s.Commit(ctx, history.Batch{
		Run: c.Run.ID, Token: c.Token, After: 1, Head: c.Run.Head, Next: history.NextWaiting,
		Events: []history.Event{
			{Seq: 2, Kind: history.TimerSet, Position: "s#0", Due: due}, {Seq: 3, Kind: history.InterruptOpened, Position: "q#0", Key: "q"},
		},
		Set:  []history.Timer{{At: due, Position: "s#0"}},
		Open: []history.Interrupt{{Key: "q", Position: "q#0", Method: history.MethodQuestion, Body: []byte(`{}`)}},
	})
	check(err)
	_, _, err = s.Start(ctx, &history.Start{Spec: history.Spec{Workflow: "w", Version: 2, Key: "ready", TaskID: "task"}, Signal: &history.InboxItem{
		Kind: history.InboxSignal, Name: "go", Key: "g",
	}})
	check(err)
	_, err = s.PutDefinition(ctx, "d", []byte("data"))
	check(err)
	verify(t, s)
	check(s.Close())
	return path
}

// row picks the n-th row of a bucket.
func row(tx *bolt.Tx, bucket string, n int) (b *bolt.Bucket, k, v []byte) {
	b = tx.Bucket([]byte(bucket))
	c := b.Cursor()
	for k, v = c.First(); n > 0; n-- {
		k, v = c.Next()
	}
	return b, bytes.Clone(k), bytes.Clone(v)
}

func TestVerifyFindsDamage(t *testing.T) {
	drop := func(bucket string) func(tx *bolt.Tx) error {
		return func(tx *bolt.Tx) error {
			b, k, _ := row(tx, bucket, 0)
			return b.Delete(k)
		}
	}
	flip := func(bucket string, n, at int) func(tx *bolt.Tx) error {
		return func(tx *bolt.Tx) error {
			b, k, v := row(tx, bucket, n)
			v[(at+len(v))%len(v)] ^= 1
			return b.Put(k, v)
		}
	}
	dangle := func(bucket string, at int) func(tx *bolt.Tx) error { // a second row, for a run that is not there
		return func(tx *bolt.Tx) error {
			b, k, v := row(tx, bucket, 0)
			k[(at+len(k))%len(k)] ^= 1
			return b.Put(k, v)
		}
	}
	for name, c := range map[string]struct {
		damage func(tx *bolt.Tx) error
		rule   history.Rule
	}{
		"the first event is gone":           {drop("events"), history.RuleChain},
		"a bit of a payload":                {flip("events", 1, -1), history.RuleChain},
		"a bit of a header":                 {flip("events", 1, 12), history.RuleChain},
		"a bit of a digest":                 {flip("events", 2, -40), history.RuleChain},
		"the state is gone":                 {drop("states"), history.RuleRecord},
		"the spec is gone":                  {drop("specs"), history.RuleIndex},
		"a bit of the state":                {flip("states", 0, 40), history.RuleProjection},
		"a bit of the ready time":           {flip("states", 2, 7), history.RuleIndex},
		"the key is gone":                   {drop("keys"), history.RuleIndex},
		"the key leads elsewhere":           {flip("keys", 0, 3), history.RuleIndex},
		"the task is gone":                  {drop("tasks"), history.RuleIndex},
		"a task more":                       {dangle("tasks", 0), history.RuleIndex},
		"the row in ready is gone":          {drop("ready"), history.RuleIndex},
		"a row in ready more":               {dangle("ready", -1), history.RuleIndex},
		"the row in status is gone":         {drop("status"), history.RuleIndex},
		"a row in status more":              {dangle("status", 0), history.RuleIndex},
		"a timer without its row in timers": {drop("timers"), history.RuleIndex},
		"a timer without its reverse row":   {drop("runtimers"), history.RuleIndex},
		"a waiting run without its timer": {func(tx *bolt.Tx) error {
			return errJoin(drop("timers")(tx), drop("runtimers")(tx))
		}, history.RuleWaiting},
		"the inbox item is gone":   {drop("inbox"), history.RuleInbox},
		"an inbox item numbered 0": {dangle("inbox", -1), history.RuleIndex},
		"an inbox item more": {func(tx *bolt.Tx) error {
			b, k, v := row(tx, "inbox", 0)
			k[len(k)-1]++
			return b.Put(k, v)
		}, history.RuleInbox},
		"the question is gone":       {drop("interrupts"), history.RuleQuestion},
		"an answer of no run":        {dangle("interrupts", 3), history.RuleIndex},
		"a dead letter of no run":    {dangle("dead", 3), history.RuleIndex},
		"an identity of no run":      {dangle("identities", 3), history.RuleIndex},
		"the definition's digest":    {drop("digests"), history.RuleIndex},
		"the definition is gone":     {drop("definitions"), history.RuleIndex},
		"a bit of the definition":    {flip("definitions", 0, 0), history.RuleIndex},
		"an end without its event":   {dropLastEvent, history.RuleProjection},
		"an event behind the end":    {repeatLastEvent, history.RuleChain},
		"an event of no run":         {dangle("events", 3), history.RuleIndex},
		"events of one run swapped":  {swapEvents, history.RuleChain},
		"a record of a later format": {func(tx *bolt.Tx) error { b, k, v := row(tx, "specs", 0); v[0] = 9; return b.Put(k, v) }, history.RuleRecord},
	} {
		t.Run(name, func(t *testing.T) {
			path := populated(t)
			edit(t, path, c.damage)
			s := open(t, path, &boltstore.Options{ReadOnly: true})
			var found []history.Rule
			err := s.Verify(t.Context(), func(v engine.Violation) {
				t.Log(v)
				found = append(found, history.Rule(v.Rule))
			})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(found, c.rule) {
				t.Errorf("found %v, want %s", found, c.rule)
			}
		})
	}
}

func errJoin(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// The first run, "over", has the events 1 to 3 in the first rows.
func dropLastEvent(tx *bolt.Tx) error {
	b, k, _ := row(tx, "events", 2)
	return b.Delete(k)
}

func repeatLastEvent(tx *bolt.Tx) error {
	b, k, v := row(tx, "events", 2)
	k[len(k)-1]++
	return b.Put(k, v)
}

func swapEvents(tx *bolt.Tx) error {
	b, k1, v1 := row(tx, "events", 1)
	_, k2, v2 := row(tx, "events", 2)
	return errJoin(b.Put(k1, v2), b.Put(k2, v1))
}
