package pgstore_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/engine/pgstore/pgtest"
	"github.com/perdure/perdure/history"
)

// broken is a store whose connections pass a proxy, and the same database without one.
type broken struct {
	*testing.T
	proxy  *pgtest.Proxy
	store  *pgstore.Store // through the proxy
	direct *pgstore.Store
	dsn    string // without the proxy
	name   string
	made   int // runs and other things, whose names begin with name
}

// breakable opens a store through a proxy. It asks for nothing by itself while the test runs.
func breakable(t *testing.T) *broken {
	t.Helper()
	dsn := database(t)
	proxy, err := postgres.Server(t).NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &broken{T: t, proxy: proxy, dsn: dsn, direct: open(t, dsn)}
	through, err := proxy.DSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	if b.store, err = pgstore.Open(t.Context(), through+" pool_max_conns=1", &pgstore.Options{Poll: -1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// of is the same for a part of the test.
func (b *broken) of(t *testing.T) *broken {
	c := *b
	c.T = t
	c.name = strings.ReplaceAll(t.Name(), "/", " ")
	return &c
}

func (b *broken) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// fresh is a name that nothing has.
func (b *broken) fresh() string {
	b.made++
	return fmt.Sprintf("%s %d", b.name, b.made)
}

// begin starts a run of a workflow of its own, so that one claim is of one run.
func (b *broken) begin(change ...func(*history.Spec)) history.Run {
	b.Helper()
	name := b.fresh()
	spec := history.Spec{Key: name, Workflow: name, Version: 1}
	for _, c := range change {
		c(&spec)
	}
	run, _, err := b.direct.Start(b.Context(), &history.Start{Spec: spec})
	b.ok(err)
	return *run
}

func claimOf(run history.Run) engine.ClaimRequest {
	return engine.ClaimRequest{Owner: "me", Workflows: []history.WorkflowKey{{Name: run.Workflow, Version: 1}}, Max: 10, TTL: time.Minute}
}

// take starts a run and claims it.
func (b *broken) take(change ...func(*history.Spec)) history.Claim {
	b.Helper()
	return b.takeBy(b.direct, change...)
}

// takeHere starts a run and claims it through the store whose connections break.
func (b *broken) takeHere() history.Claim {
	b.Helper()
	return b.takeBy(b.store)
}

func (b *broken) takeBy(s *pgstore.Store, change ...func(*history.Spec)) history.Claim {
	b.Helper()
	run := b.begin(change...)
	claims, err := s.Claim(b.Context(), claimOf(run))
	b.ok(err)
	if len(claims) != 1 {
		b.Fatalf("%d claims of run %s", len(claims), run.ID)
	}
	return claims[0]
}

func after(c history.Claim, next history.Next, events ...history.Event) history.Batch {
	b := history.Batch{Run: c.Run.ID, Token: c.Token, After: c.Run.Seq, Head: c.Run.Head, InboxSeen: c.Run.InboxSeen, Next: next}
	for i, e := range events {
		e.Seq = c.Run.Seq + 1 + uint64(i)
		b.Events = append(b.Events, e)
	}
	return b
}

// finished is a run that has completed with a result, and whose retention is over.
func (b *broken) finished() history.Run {
	b.Helper()
	c := b.take(func(s *history.Spec) { s.Retention = 1 })
	_, err := b.direct.Commit(b.Context(), after(c, history.NextClosed, history.Event{Kind: history.RunCompleted, Payload: []byte("1")}))
	b.ok(err)
	return b.run(c.Run.ID)
}

func (b *broken) run(id history.RunID) history.Run {
	b.Helper()
	run, err := b.direct.Run(b.Context(), id)
	b.ok(err)
	return run
}

func (b *broken) events(id history.RunID) []history.Event {
	b.Helper()
	events, err := b.direct.History(b.Context(), id, 1, 1000)
	b.ok(err)
	return events
}

// count counts the events of a kind.
func (b *broken) count(id history.RunID, kind history.Kind) (n int) {
	b.Helper()
	for _, e := range b.events(id) {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func (b *broken) want(what string, got, want any) {
	b.Helper()
	if !reflect.DeepEqual(got, want) {
		b.Errorf("%s: %v, want %v", what, got, want)
	}
}

func receipt(run history.Run) history.Receipt {
	return history.Receipt{Run: run.ID, Destination: "file", Digest: history.Sum([]byte("line")), Bytes: 4, Events: run.Seq, Head: run.Head}
}

func (b *broken) cleaner() history.Token {
	b.Helper()
	token, err := b.direct.LeaseCleanup(b.Context(), "cleaner", time.Minute)
	b.ok(err)
	return token
}

func (b *broken) inbox(id history.RunID) []history.InboxItem {
	b.Helper()
	items, _, err := b.direct.Inbox(b.Context(), id, 0)
	b.ok(err)
	return items
}

func (b *broken) deadLetters(id history.RunID) []history.InboxItem {
	b.Helper()
	items, err := b.direct.DeadLetters(b.Context(), id)
	b.ok(err)
	return items
}

func (b *broken) journal() []history.Entry {
	b.Helper()
	entries, err := b.direct.Journal(b.Context(), 1, 1000)
	b.ok(err)
	return entries
}

func (b *broken) journaled(verb string, subject history.RunID) (n int) {
	b.Helper()
	for _, e := range b.journal() {
		if e.Verb == verb && e.Subject == subject.String() {
			n++
		}
	}
	return n
}

// journaledFrom counts the entries about runs of which this is the first.
func (b *broken) journaledFrom(verb string, first history.RunID) (n int) {
	b.Helper()
	for _, e := range b.journal() {
		if e.Verb == verb && e.From == first {
			n++
		}
	}
	return n
}

// head reads what a commit changes.
func (b *broken) head(id history.RunID) func() any {
	return func() any {
		b.Helper()
		return b.run(id).Head
	}
}

func (b *broken) holdsOn(run history.RunID) (n int) {
	b.Helper()
	holds, err := b.direct.Holds(b.Context(), true)
	b.ok(err)
	for _, h := range holds {
		if h.Run == run {
			n++
		}
	}
	return n
}

// payloads counts the events that have one.
func (b *broken) payloads(id history.RunID) (n int) {
	b.Helper()
	for _, e := range b.events(id) {
		if len(e.Payload) > 0 {
			n++
		}
	}
	return n
}

// held checks that a claim is still good.
func (b *broken) held(c history.Claim) {
	b.Helper()
	lost, err := b.direct.Renew(b.Context(), "me", time.Hour, map[history.RunID]history.Token{c.Run.ID: c.Token})
	b.ok(err)
	b.want("lost", len(lost), 0)
}

// passes waits until the store's time is past an instant, which is close.
func (b *broken) passes(at history.Time) {
	for b.direct.Now() <= at {
		time.Sleep(time.Millisecond)
	}
}

// rowIsLocked reports whether another transaction has the row of a run.
func (b *broken) rowIsLocked(id history.RunID) bool {
	b.Helper()
	c, err := pgx.Connect(b.Context(), b.dsn)
	b.ok(err)
	defer c.Close(b.Context())
	var free int
	b.ok(c.QueryRow(b.Context(), "select count(*) from (select from perdure_runs where id = $1 for update skip locked) r", id[:]).Scan(&free))
	return free == 0
}
