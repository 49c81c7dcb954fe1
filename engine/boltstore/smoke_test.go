package boltstore_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

func TestSmoke(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.db")
	s, err := boltstore.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	run, existed, err := s.Start(ctx, history.Start{Spec: history.Spec{Workflow: "w", Version: 1}, Input: []byte(`1`)})
	if err != nil || existed {
		t.Fatal(run, existed, err)
	}
	claim := func() history.Claim {
		t.Helper()
		cs, err := s.Claim(ctx, engine.ClaimRequest{Owner: "o", Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: 10, TTL: time.Minute})
		if err != nil || len(cs) != 1 {
			t.Fatal(cs, err)
		}
		return cs[0]
	}
	c := claim()
	at := s.Now().Add(50 * time.Millisecond)
	st, err := s.Commit(ctx, history.Batch{Run: run.ID, Token: c.Token, After: 1, Head: c.Run.Head,
		Events: []history.Event{{Seq: 2, Kind: history.TimerSet, Position: "s#0", Due: at}},
		Set:    []history.Timer{{At: at, Position: "s#0"}}, Next: history.NextWaiting})
	if err != nil || st.Status != history.StatusWaiting {
		t.Fatal(st, err)
	}
	n, next, err := s.WakeDue(ctx, 10)
	if n != 0 || next != at || err != nil {
		t.Fatal(n, next, err)
	}
	if d, err := s.Deliver(ctx, run.ID, history.InboxItem{Kind: history.InboxSignal, Name: "x", Key: "k"}); d != engine.Delivered || err != nil {
		t.Fatal(d, err)
	}
	c = claim()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = boltstore.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c = claim()
	if len(c.Inbox) != 1 {
		t.Fatal(c)
	}
	st, err = s.Commit(ctx, history.Batch{Run: run.ID, Token: c.Token, After: 2, Head: c.Run.Head,
		Events: []history.Event{{Seq: 3, Kind: history.RunCompleted, Payload: []byte(`2`)}}, Next: history.NextClosed})
	if err != nil || st.Status != history.StatusCompleted {
		t.Fatal(st, err)
	}
	dl, err := s.DeadLetters(ctx, run.ID)
	if err != nil || len(dl) != 1 {
		t.Fatal(dl, err)
	}
	p, err := s.List(ctx, engine.Filter{})
	if err != nil || len(p.Runs) != 1 {
		t.Fatal(p, err)
	}
}
