package memstore_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/storetest/memstore"
	"github.com/perdure/perdure/history"
)

// taken is a run that is held.
type taken struct {
	*testing.T
	store *memstore.Store
	claim history.Claim
	state history.State
}

func take(t *testing.T) *taken {
	t.Helper()
	s, err := memstore.Open(memstore.NewDisk(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1}}); err != nil {
		t.Fatal(err)
	}
	claims, err := s.Claim(t.Context(), engine.ClaimRequest{Owner: "me", Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: 1, TTL: time.Hour})
	if err != nil || len(claims) != 1 {
		t.Fatalf("%d claims, %v", len(claims), err)
	}
	return &taken{T: t, store: s, claim: claims[0], state: claims[0].Run.State}
}

// commit commits one step, and whatever change adds.
func (r *taken) commit(change func(*history.Batch)) error {
	at := history.Position(fmt.Sprintf("s#%d", r.state.Seq))
	b := history.Batch{
		Run: r.claim.Run.ID, Token: r.claim.Token, After: r.state.Seq, Head: r.state.Head, Next: history.NextRunning,
		Events: []history.Event{{Seq: r.state.Seq + 1, Kind: history.StepCompleted, Position: at, Op: "step", Name: "s"}},
	}
	change(&b)
	state, err := r.store.Commit(r.Context(), b)
	if err == nil {
		r.state = state
	}
	return err
}

func (r *taken) commits(n int) {
	r.Helper()
	for range n {
		if err := r.commit(func(*history.Batch) {}); err != nil {
			r.Fatal(err)
		}
	}
}

// TestCommitDoesNotCopyTheHistory: what a commit allocates does not grow with what is there.
func TestCommitDoesNotCopyTheHistory(t *testing.T) {
	const before, measured, most = 10_000, 100, 64 << 10 // bytes a commit: a copy of the records' places alone takes 240,000
	r := take(t)
	r.commits(before)
	var m0, m1 runtime.MemStats
	runtime.ReadMemStats(&m0)
	r.commits(measured)
	runtime.ReadMemStats(&m1)
	if each := (m1.TotalAlloc - m0.TotalAlloc) / measured; each > most {
		t.Errorf("a commit to a run with %d events allocates %d bytes", before, each)
	}
}

// TestRefusedCommitLeavesTheHistoryAlone: a commit that is refused after it has appended its events, in the array that
// the next one appends to.
func TestRefusedCommitLeavesTheHistoryAlone(t *testing.T) {
	r := take(t)
	for range 20 { // so that the array grows in between, or does not
		if err := r.commit(func(b *history.Batch) { b.Events[0].Name, b.Consume = "refused", []uint64{77} }); err == nil {
			t.Fatal("a commit that consumes what is not there is not refused")
		}
		r.commits(1)
	}
	events, err := r.store.History(t.Context(), r.claim.Run.ID, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(events); n == 0 || uint64(n) != r.state.Seq {
		t.Errorf("%d events, want %d", n, r.state.Seq)
	}
	for i, e := range events {
		if e.Seq != uint64(i+1) || e.Name == "refused" {
			t.Errorf("event %d: %+v", i+1, e)
		}
	}
	if err := r.store.Verify(t.Context(), func(v engine.Violation) { t.Errorf("%+v", v) }); err != nil {
		t.Error(err)
	}
}

// TestDeliveryDoesNotCopyTheInbox: what a delivery allocates does not grow with the signals that wait, nor with those that are
// remembered.
func TestDeliveryDoesNotCopyTheInbox(t *testing.T) {
	const before, measured, most = 5_000, 100, 64 << 10
	r := take(t)
	r.deliver(0, before)
	var m0, m1 runtime.MemStats
	runtime.ReadMemStats(&m0)
	r.deliver(before, measured)
	runtime.ReadMemStats(&m1)
	if each := (m1.TotalAlloc - m0.TotalAlloc) / measured; each > most {
		t.Errorf("a delivery to a run with %d signals allocates %d bytes", before, each)
	}
}

// TestRefusedCommitRemembersNoSignal: a commit that is refused after it has given a child a signal.
func TestRefusedCommitRemembersNoSignal(t *testing.T) {
	r := take(t)
	child := func(workflow string) history.Start {
		return history.Start{
			Spec:   history.Spec{Workflow: workflow, Version: 1, Key: "child"},
			Signal: &history.InboxItem{Kind: history.InboxSignal, Name: "x", Key: "id", Payload: []byte("1")},
		}
	}
	first := child("w")
	first.Signal = nil
	if err := r.commit(func(b *history.Batch) { b.Children = []history.Start{first} }); err != nil {
		t.Fatal(err)
	}
	err := r.commit(func(b *history.Batch) { b.Children = []history.Start{child("w"), child("another workflow")} })
	if !errors.Is(err, history.ErrConflict) {
		t.Fatalf("a child's key that another workflow has: %v", err)
	}
	if err := r.commit(func(b *history.Batch) { b.Children = []history.Start{child("w")} }); err != nil {
		t.Fatal(err)
	}
	again, _, err := r.store.Start(t.Context(), &first)
	if err != nil || again.State.InboxHead != 1 {
		t.Errorf("the child has accepted %d signals, want 1; %v", again.State.InboxHead, err)
	}
}

// deliver delivers n signals, each with an id of its own.
func (r *taken) deliver(from, n int) {
	r.Helper()
	for i := range n {
		item := history.InboxItem{Kind: history.InboxSignal, Name: "x", Key: fmt.Sprint(from + i), Payload: []byte("1")}
		if d, err := r.store.Deliver(r.Context(), r.claim.Run.ID, item); err != nil || d != engine.Delivered {
			r.Fatalf("signal %s: %s, %v", item.Key, d, err)
		}
	}
}
