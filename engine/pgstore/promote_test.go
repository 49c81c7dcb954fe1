package pgstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/history"
)

// After a promotion a worker of before can write nothing, and another goes on, under a token that is above all others.
func TestPromote(t *testing.T) {
	dsn := database(t)
	ctx := t.Context()
	if _, err := pgstore.Promote(ctx, postgres.Server(t).DSN("postgres")); !errors.Is(err, history.ErrFormat) {
		t.Errorf("a database without tables: %v", err)
	}
	s, err := pgstore.Open(ctx, dsn, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run, _, err := s.Start(ctx, &history.Start{Spec: history.Spec{Workflow: "w", Version: 1}, Input: []byte(`1`)})
	if err != nil {
		t.Fatal(err)
	}
	claim := func() history.Claim {
		t.Helper()
		claims, err := s.Claim(ctx, engine.ClaimRequest{Owner: "a", Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: 1, TTL: time.Hour})
		if err != nil || len(claims) != 1 {
			t.Fatalf("claims %v: %v", claims, err)
		}
		return claims[0]
	}
	old := claim()
	cleaner, err := s.LeaseCleanup(ctx, "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	p, err := pgstore.Promote(ctx, dsn)
	if err != nil || p.Leases != 1 || p.To != p.From+1 {
		t.Fatalf("promoted: %+v: %v", p, err)
	}
	commit := func(token history.Token) error {
		e := history.Event{Seq: run.Seq + 1, Kind: history.RunCompleted, Payload: []byte(`2`)}
		_, err := s.Commit(ctx, history.Batch{Run: run.ID, Token: token, After: run.Seq, Head: run.Head, Next: history.NextClosed, Events: []history.Event{e}})
		return err
	}
	if err := commit(old.Token); !errors.Is(err, history.ErrFenced) {
		t.Errorf("a worker of before commits: %v", err)
	}
	if lost, err := s.Renew(ctx, "a", time.Hour, map[history.RunID]history.Token{run.ID: old.Token}); err != nil || len(lost) != 1 {
		t.Errorf("a worker of before renews: lost %v: %v", lost, err)
	}
	if err := s.Release(ctx, run.ID, old.Token, 0, ""); !errors.Is(err, history.ErrFenced) {
		t.Errorf("a worker of before releases: %v", err)
	}
	if _, err := s.Erase(ctx, cleaner); !errors.Is(err, history.ErrFenced) {
		t.Errorf("who cleaned up before erases: %v", err)
	}
	fresh := claim()
	if fresh.Token.Epoch != uint64(p.To) || fresh.Token.Compare(old.Token) <= 0 {
		t.Errorf("the new token is %s, the old one %s", fresh.Token, old.Token)
	}
	if err := commit(old.Token); !errors.Is(err, history.ErrFenced) {
		t.Errorf("a worker of before commits: %v", err)
	}
	if err := commit(fresh.Token); err != nil {
		t.Error(err)
	}
}
