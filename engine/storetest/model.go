package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// RunModel runs random operations on a store and on a model of it, and fails where they differ in what they return or,
// after each operation, in what they show. Both are opened on fresh data with the same clock for each sequence of
// operations.
func RunModel(t *testing.T, fresh func() (store, model Backend, remove func())) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b, remove := fresh()
		defer remove()
		m := &machine{T: rt, ctx: context.Background(), clock: NewClock(), askedAt: map[string]history.Position{}, backends: [2]Backend{a, b}}
		m.open()
		defer m.close()
		rt.Repeat(map[string]func(*rapid.T){
			"start": m.start, "claim": m.claimSome, "commit": m.commitSome, "deliver": m.deliverSome, "answer": m.answerSome, "cancel": m.cancelSome,
			"terminate": m.terminateSome, "pause": m.pauseSome, "resume": m.resumeSome, "release": m.releaseSome, "renew": m.renewSome, "expire": m.expire, "wake": m.wake, "reopen": m.reopen,
			"clean": m.cleanSome,
			"":      m.compare,
		})
		m.verify()
	})
}

// machine drives two stores.
type machine struct {
	*rapid.T
	ctx      context.Context
	clock    *Clock
	backends [2]Backend
	stores   [2]engine.Store
	runs     []history.RunID
	claims   []modelClaim // also those that were lost since
	asked    int
	askedAt  map[string]history.Position // of each question
}

// modelClaim is a claim under the tokens of both stores.
type modelClaim struct {
	id     history.RunID
	tokens [2]history.Token
}

func (m *machine) open() {
	for i, b := range m.backends {
		s, err := b.Open(m.clock.Now)
		if err != nil {
			m.Fatal(err)
		}
		m.stores[i] = s
	}
}

func (m *machine) close() {
	for _, s := range m.stores {
		if err := s.Close(); err != nil {
			m.Error(err)
		}
	}
}

func (m *machine) verify() {
	for i, s := range m.stores {
		err := s.Verify(m.ctx, func(v engine.Violation) { m.Errorf("store %d: run %s: %s: %s", i, v.Run, v.Rule, v.Detail) })
		if err != nil {
			m.Error(err)
		}
	}
}

// both calls fn for each store and compares what it returns.
func (m *machine) both(what string, fn func(i int, s engine.Store) (string, error)) {
	var said [2]string
	for i, s := range m.stores {
		out, err := fn(i, s)
		said[i] = out + " / " + class(err)
	}
	if said[0] != said[1] {
		m.Fatalf("%s:\nstore: %s\nmodel: %s", what, said[0], said[1])
	}
}

// class names the sentinels that an error matches.
func class(err error) string {
	if err == nil {
		return "ok"
	}
	var names []string
	for _, s := range []error{
		history.ErrNotFound, history.ErrConflict, history.ErrTerminal, history.ErrAnswered, history.ErrFenced, history.ErrSequence,
		history.ErrInboxMoved, history.ErrInvalid, history.ErrTooLarge, history.ErrClosed, history.ErrCorrupt, history.ErrExpired,
	} {
		if errors.Is(err, s) {
			names = append(names, s.Error())
		}
	}
	if names == nil {
		return err.Error()
	}
	return strings.Join(names, "+")
}

func (m *machine) anyRun(t *rapid.T) history.RunID {
	if len(m.runs) == 0 {
		t.Skip("no run")
	}
	return rapid.SampledFrom(m.runs).Draw(t, "run")
}

// anyClaim draws one of the newest claims mostly, which may still be held.
func (m *machine) anyClaim(t *rapid.T) modelClaim {
	if len(m.claims) == 0 {
		t.Skip("no claim")
	}
	from := m.claims
	if rapid.IntRange(0, 9).Draw(t, "old claim") > 0 {
		from = from[max(0, len(from)-3):]
	}
	return rapid.SampledFrom(from).Draw(t, "claim")
}

func (m *machine) start(t *rapid.T) {
	spec := history.Spec{
		ID: history.NewRunID(history.TimeOf(m.clock.Now())), Key: rapid.SampledFrom([]string{"a", "b", "c", ""}).Draw(t, "key"),
		Workflow: workflow, Version: 1, Priority: rapid.IntRange(-1, 1).Draw(t, "priority"),
		Queue: rapid.SampledFrom([]string{"", "mail"}).Draw(t, "queue"), Tenant: rapid.SampledFrom([]string{"", "", "acme", "b"}).Draw(t, "tenant"),
	}
	spec.Retention = time.Duration(rapid.IntRange(0, 2).Draw(t, "retention")) * time.Minute
	if limit := rapid.IntRange(0, 2).Draw(t, "concurrency"); limit > 0 {
		spec.ConcurrencyKey, spec.ConcurrencyLimit = rapid.SampledFrom([]string{"k", "l"}).Draw(t, "concurrency key"), limit
	}
	start := history.Start{Spec: spec, Input: []byte(rapid.SampledFrom([]string{"1", "2"}).Draw(t, "input")), ReuseAfterFailure: rapid.Bool().Draw(t, "reuse")}
	if rapid.Bool().Draw(t, "with signal") {
		item := m.signal(t)
		start.Signal = &item
	}
	fresh := false
	m.both("start", func(_ int, s engine.Store) (string, error) {
		run, existed, err := s.Start(m.ctx, &start)
		if fresh = err == nil && !existed; err != nil {
			return "", err
		}
		return fmt.Sprint(show(*run), existed), nil
	})
	if fresh {
		m.runs = append(m.runs, spec.ID)
	}
}

func (m *machine) signal(t *rapid.T) history.InboxItem {
	return signal(rapid.SampledFrom([]string{"go", "stop"}).Draw(t, "name"), rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "id"),
		rapid.SampledFrom([]string{"x", "y"}).Draw(t, "payload"))
}

func (m *machine) claimSome(t *rapid.T) {
	limit := rapid.IntRange(1, 3).Draw(t, "max")
	limits := map[string]int{}
	if rapid.Bool().Draw(t, "limited") {
		limits["mail"] = rapid.IntRange(0, 1).Draw(t, "of mail")
	}
	var got [2][]history.Claim
	m.both("claim", func(i int, s engine.Store) (string, error) {
		var err error
		got[i], err = s.Claim(m.ctx, engine.ClaimRequest{Owner: "w", Workflows: []history.WorkflowKey{versionOne()}, Max: limit, Limits: limits, TTL: ttl})
		var out []string
		for _, c := range got[i] {
			out = append(out, fmt.Sprint(show(c.Run), items(c.Inbox), c.Now))
		}
		return fmt.Sprint(out), err
	})
	for i, c := range got[0] {
		m.claims = append(m.claims, modelClaim{c.Run.ID, [2]history.Token{c.Token, got[1][i].Token}})
	}
}

func (m *machine) commitSome(t *rapid.T) {
	c := m.anyClaim(t)
	plan := m.plan(t, c.id)
	m.both("commit", func(i int, s engine.Store) (string, error) {
		run, err := s.Run(m.ctx, c.id)
		if err != nil {
			return "", err
		}
		b := plan(run)
		b.Run, b.Token, b.Head = c.id, c.tokens[i], run.Head // the heads differ: a token is in the digest
		state, err := s.Commit(m.ctx, b)
		return showState(&state), err
	})
}

// plan draws a batch. What it returns depends on the run only in what both stores agree on.
func (m *machine) plan(t *rapid.T, id history.RunID) func(run history.Run) history.Batch {
	next := rapid.SampledFrom([]history.Next{
		history.NextRunning, history.NextRunning, history.NextWaiting, history.NextWaiting, history.NextReady, history.NextClosed, history.NextBlocked,
	}).Draw(t, "next")
	stale := rapid.IntRange(0, 9).Draw(t, "stale") == 0
	wait := time.Duration(rapid.IntRange(-1, 5).Draw(t, "timer")) * time.Minute
	decide := rapid.Bool().Draw(t, "decides")
	seen := rapid.Bool().Draw(t, "looks at the inbox")
	ask := rapid.IntRange(0, 3).Draw(t, "asks") == 0
	ended := rapid.SampledFrom([]history.Kind{history.RunCompleted, history.RunFailed, history.RunCanceled}).Draw(t, "end")
	inbox, _, err := m.stores[0].Inbox(m.ctx, id, 0)
	if errors.Is(err, history.ErrNotFound) {
		t.Skip("the run is deleted")
	}
	if err != nil {
		m.Fatal(err)
	}
	timers, err := m.stores[0].Timers(m.ctx, id)
	if err != nil {
		m.Fatal(err)
	}
	m.asked++
	question := fmt.Sprint("q", m.asked)
	now := history.TimeOf(m.clock.Now())
	return func(run history.Run) history.Batch {
		b := history.Batch{After: run.Seq, Next: next, InboxSeen: run.InboxSeen}
		if stale {
			b.After++
		}
		add := func(e history.Event) {
			e.Seq = b.After + 1 + uint64(len(b.Events))
			b.Events = append(b.Events, e)
		}
		at := func(name string) history.Position { return history.Position(fmt.Sprintf("%s#%d", name, run.Seq)) }
		if seen {
			b.InboxSeen = run.InboxHead
			if len(inbox) > 0 {
				add(m.taking(&inbox[0]))
				b.Consume = []uint64{inbox[0].Seq}
			}
		}
		for _, timer := range timers {
			if timer.At <= now {
				add(history.Event{Kind: history.TimerFired, Position: timer.Position, Op: "sleep"})
				b.Clear = append(b.Clear, timer)
				if decide {
					b.DecidedAt = max(b.DecidedAt, timer.At)
				}
			}
		}
		if wait >= 0 {
			due := now.Add(wait)
			add(history.Event{Kind: history.TimerSet, Position: at("sleep"), Op: "sleep", Due: due})
			b.Set = []history.Timer{{At: due, Position: at("sleep")}}
		} else {
			add(history.Event{Kind: history.ReceiveOpened, Position: at("receive"), Op: "receive", Names: []string{"go"}})
		}
		if ask {
			m.askedAt[question] = at("ask")
			add(history.Event{Kind: history.InterruptOpened, Position: at("ask"), Op: "ask", Key: question})
			b.Open = []history.Interrupt{{Key: question, Position: at("ask"), Method: history.MethodQuestion, Body: []byte(`1`), OpenedAt: now}}
		}
		switch next {
		case history.NextClosed:
			e := history.Event{Kind: ended, Payload: []byte(`1`)}
			if ended != history.RunCompleted {
				e.Failure = &history.Failure{Kind: history.FailureApplication, Message: "no"}
			}
			add(e)
		case history.NextBlocked:
			b.Reason = "differs"
		}
		return b
	}
}

// taking is the event that consumes an item. That of an answer closes its question.
func (m *machine) taking(i *history.InboxItem) history.Event {
	if i.Kind == history.InboxAnswer {
		return history.Event{Kind: history.InterruptAnswered, Position: m.askedAt[i.Key], Op: "ask", Key: i.Key, Inbox: i.Seq}
	}
	return history.Event{Kind: history.OperatorActed, Name: "took", Inbox: i.Seq}
}

func (m *machine) deliverSome(t *rapid.T) {
	id, item := m.anyRun(t), m.signal(t)
	m.both("deliver", func(_ int, s engine.Store) (string, error) {
		d, err := s.Deliver(m.ctx, id, item)
		return d.String(), err
	})
}

func (m *machine) answerSome(t *rapid.T) {
	if m.asked == 0 {
		t.Skip("no question")
	}
	id, key := m.anyRun(t), fmt.Sprint("q", rapid.IntRange(1, m.asked).Draw(t, "question"))
	if open, err := m.stores[0].Interrupts(m.ctx, id); err == nil && len(open) > 0 {
		key = open[0].Key
	}
	m.both("answer", func(_ int, s engine.Store) (string, error) { return "", s.Answer(m.ctx, id, answer(key, `1`)) })
}

func (m *machine) cancelSome(t *rapid.T) {
	id := m.anyRun(t)
	m.both("cancel", func(_ int, s engine.Store) (string, error) {
		run, err := s.Cancel(m.ctx, id, "op", "x")
		return show(run), err
	})
}

func (m *machine) terminateSome(t *rapid.T) {
	id := m.anyRun(t)
	m.both("terminate", func(_ int, s engine.Store) (string, error) {
		run, err := s.Terminate(m.ctx, id, "op", "x")
		return show(run), err
	})
}

func (m *machine) pauseSome(t *rapid.T) {
	id := m.anyRun(t)
	m.both("pause", func(_ int, s engine.Store) (string, error) {
		run, err := s.Pause(m.ctx, id, "op", "x")
		return show(run), err
	})
}

func (m *machine) resumeSome(t *rapid.T) {
	id := m.anyRun(t)
	m.both("resume", func(_ int, s engine.Store) (string, error) {
		run, err := s.Resume(m.ctx, id, "op", "x")
		return show(run), err
	})
}

func (m *machine) releaseSome(t *rapid.T) {
	c := m.anyClaim(t)
	retry := history.TimeOf(m.clock.Now()).Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "retry")) * time.Minute)
	reason := rapid.SampledFrom([]string{"", "stalled"}).Draw(t, "reason")
	m.both("release", func(i int, s engine.Store) (string, error) {
		return "", s.Release(m.ctx, c.id, c.tokens[i], retry, reason)
	})
}

func (m *machine) renewSome(t *rapid.T) {
	named := rapid.SliceOfN(rapid.Bool(), len(m.claims), len(m.claims)).Draw(t, "named")
	m.both("renew", func(i int, s engine.Store) (string, error) {
		held := map[history.RunID]history.Token{}
		for n, c := range m.claims {
			if named[n] {
				held[c.id] = c.tokens[i]
			}
		}
		lost, err := s.Renew(m.ctx, "w", ttl, held)
		slices.SortFunc(lost, history.RunID.Compare)
		return fmt.Sprint(lost), err
	})
}

func (m *machine) expire(t *rapid.T) {
	m.clock.Advance(time.Duration(rapid.IntRange(0, 70).Draw(t, "seconds")) * time.Second)
	m.both("expire", func(_ int, s engine.Store) (string, error) {
		n, err := s.ExpireLeases(m.ctx)
		return fmt.Sprint(n), err
	})
}

func (m *machine) wake(t *rapid.T) {
	m.clock.Advance(time.Duration(rapid.IntRange(0, 130).Draw(t, "seconds")) * time.Second)
	m.both("wake", func(_ int, s engine.Store) (string, error) {
		n, next, err := s.WakeDue(m.ctx, 100)
		return fmt.Sprint(n, next), err
	})
}

func (m *machine) reopen(t *rapid.T) {
	m.close()
	m.clock.Advance(time.Duration(rapid.IntRange(0, 60).Draw(t, "seconds")) * time.Second)
	m.open()
	// A run that was woken and not written since may wait again, for a timer that is due: see WakeDue.
	m.both("wake", func(_ int, s engine.Store) (string, error) {
		_, next, err := s.WakeDue(m.ctx, 100)
		return fmt.Sprint(next), err
	})
}

// compare reads everything from both.
func (m *machine) compare(*rapid.T) {
	m.both("list", func(_ int, s engine.Store) (string, error) {
		page, err := s.List(m.ctx, engine.Filter{Limit: 1000})
		var out []string
		for _, r := range page.Runs {
			out = append(out, show(r))
		}
		return strings.Join(out, "\n"), err
	})
	m.both("tombstones", m.graves)
	for _, id := range m.runs {
		m.both("run "+id.String(), func(_ int, s engine.Store) (string, error) { return m.everything(s, id) })
	}
}

func (m *machine) everything(s engine.Store, id history.RunID) (string, error) {
	run, err := s.Run(m.ctx, id)
	if err != nil {
		return "", err
	}
	inbox, _, err1 := s.Inbox(m.ctx, id, 0)
	dead, err2 := s.DeadLetters(m.ctx, id)
	timers, err3 := s.Timers(m.ctx, id)
	open, err4 := s.Interrupts(m.ctx, id)
	events, err5 := s.History(m.ctx, id, 1, 10_000)
	var kinds []string
	for _, e := range events {
		kinds = append(kinds, fmt.Sprint(e.Seq, e.Kind, e.At, e.Position, e.Key, e.Inbox, string(e.Payload), e.Failure))
	}
	return fmt.Sprint(show(run), items(inbox), items(dead), timers, open, kinds), errors.Join(err1, err2, err3, err4, err5)
}

func show(r history.Run) string {
	return fmt.Sprint(r.ID, r.Key, r.Priority, r.Queue, showState(&r.State))
}

// showState leaves out what depends on the tokens, which differ between two stores.
func showState(s *history.State) string {
	return fmt.Sprint(s.Status, s.Reason, s.Message, s.Seq, s.GenerationSeq, s.InboxHead, s.InboxSeen, s.Questions, s.CancelRequested,
		s.UpdatedAt, s.ClosedAt, s.Claimed, s.Failure)
}

func items(list []history.InboxItem) string {
	var out []string
	for _, i := range list {
		out = append(out, fmt.Sprint(i.Seq, i.Kind, i.Name, i.Key, i.AcceptedAt, string(i.Payload), i.By, i.Message))
	}
	return fmt.Sprint(out)
}
