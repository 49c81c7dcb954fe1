package pgstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/engine/transfer"
	"github.com/perdure/perdure/history"
)

// A database that is moved away is closed also to those who had it open, by the database itself; while somebody holds a run it
// cannot be moved.
func TestMovedAwayIsClosedToAll(t *testing.T) {
	dsn := database(t)
	ctx := t.Context()
	s, err := pgstore.Open(ctx, dsn, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m, err := pgstore.OpenTransfer(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	start := func(key string) (*history.Run, error) {
		run, _, err := s.Start(ctx, &history.Start{Spec: history.Spec{Key: key, Workflow: "w", Version: 1}, Input: []byte(`1`)})
		return run, err
	}
	run, err := start("a")
	if err != nil {
		t.Fatal(err)
	}
	claim := engine.ClaimRequest{Owner: "a", Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: 1, TTL: time.Hour}
	claims, err := s.Claim(ctx, claim)
	if err != nil || len(claims) != 1 {
		t.Fatalf("claims %v: %v", claims, err)
	}
	mark := transfer.Mark{Move: history.NewRunID(s.Now()), Role: transfer.Source, Peer: "elsewhere"}
	if err := m.SetMark(ctx, mark); !errors.Is(err, history.ErrLocked) {
		t.Fatalf("a move while a worker holds a run: %v", err)
	}
	if got, err := m.Mark(ctx); err != nil || !got.IsZero() {
		t.Errorf("the refused move has left a mark %+v: %v", got, err)
	}
	if err := s.Release(ctx, run.ID, claims[0].Token, 0, ""); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a move that goes on marks it again
		if err := m.SetMark(ctx, mark); err != nil {
			t.Fatal(err)
		}
	}
	for name, write := range map[string]func() error{
		"start":  func() error { _, err := start("b"); return err },
		"claim":  func() error { _, err := s.Claim(ctx, claim); return err },
		"cancel": func() error { _, err := s.Cancel(ctx, run.ID, "op", ""); return err },
		"deliver": func() error {
			_, err := s.Deliver(ctx, run.ID, history.InboxItem{Kind: history.InboxSignal, Name: "x"})
			return err
		},
		"definition": func() error { _, err := s.PutDefinition(ctx, "d", []byte("x")); return err },
		"secret":     func() error { _, err := s.Secret(ctx, "x"); return err },
		"hold": func() error {
			_, err := s.PlaceHold(ctx, history.Hold{Scope: history.HoldRun, Run: run.ID, By: "a", Reason: "b"})
			return err
		},
	} {
		if err := write(); !errors.Is(err, history.ErrMoved) {
			t.Errorf("%s: %v, want an error that says that the store was moved", name, err)
		}
	}
	if got, err := s.Run(ctx, run.ID); err != nil || got.Seq != run.Seq {
		t.Errorf("the run reads %+v: %v", got, err)
	}
	if _, err := pgstore.Open(ctx, dsn, nil); !errors.Is(err, history.ErrMoved) {
		t.Errorf("it is opened: %v", err)
	}
	if _, err := transfer.Undo(ctx, m); err != nil {
		t.Fatal(err)
	}
	if _, err := start("b"); err != nil {
		t.Errorf("after it was taken back: %v", err)
	}
}
