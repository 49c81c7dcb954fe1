package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure/history"
)

func questionScenarios() []scenario {
	return []scenario{
		{"an answer is there when it is acknowledged and wakes the run", answerWakes},
		{"of concurrent answers the first wins", answerRace},
		{"an answer before the deadline counts, one at the deadline does not", answerDeadline},
		{"an unknown question is not found, a closed one is answered", answerUnknown},
		{"a question that the run closed cannot be answered", answerClosed},
		{"the end of a run closes its questions", answerAfterEnd},
		{"a question's key is used once in a run's life", questionKeys},
	}
}

func answerWakes(e *env) {
	h := e.takeNew("a")
	state := h.commit(h.askBatch("q", 0))
	equal(e, "questions", state.Questions, 1)
	open, err := e.Interrupts(e.ctx, h.id)
	e.ok(err)
	equal(e, "open", len(open), 1)
	equal(e, "method", open[0].Method, history.MethodQuestion)
	for _, c := range []struct {
		keys []string
		open int
	}{{[]string{"q"}, 1}, {[]string{"other", "q"}, 1}, {[]string{"other"}, 0}, {[]string{""}, 0}} {
		open, err = e.Interrupts(e.ctx, h.id, c.keys...)
		e.ok(err)
		equal(e, fmt.Sprintf("open of %q", c.keys), len(open), c.open)
	}
	_, err = e.Interrupts(e.ctx, history.NewRunID(e.Now()), "q")
	e.is(err, history.ErrNotFound)
	e.none()
	e.ok(e.Answer(e.ctx, h.id, answer("q", `{"ok":true}`)))
	e.reopen(0)
	run := e.Run(h.id)
	equal(e, "questions", run.Questions, 0)
	equal(e, "status", run.Status, history.StatusReady)
	e.is(e.Answer(e.ctx, h.id, answer("q", `{"ok":true}`)), history.ErrAnswered)
	e.verify()
	h = e.take()
	item := h.claim.Inbox[0]
	equal(e, "kind", item.Kind, history.InboxAnswer)
	equal(e, "key", item.Key, "q")
	equal(e, "by", item.By, "bob")
	h.commit(h.batch(history.NextRunning, history.Event{Kind: history.InterruptAnswered, Position: "q", Op: "ask", Key: "q", Inbox: item.Seq}))
	e.is(e.Answer(e.ctx, h.id, answer("q", `2`)), history.ErrAnswered)
}

func answerRace(e *env) {
	h := e.takeNew("a")
	h.commit(h.askBatch("q", 0))
	const n = 8
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = e.Answer(e.ctx, h.id, answer("q", fmt.Sprint(i))) })
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		if err == nil {
			equal(e, "earlier winner", winner, -1)
			winner = i
			continue
		}
		e.is(err, history.ErrAnswered)
	}
	h = e.take()
	equal(e, "items", len(h.claim.Inbox), 1)
	equal(e, "payload", string(h.claim.Inbox[0].Payload), fmt.Sprint(winner))
}

func answerDeadline(e *env) {
	for _, c := range []struct {
		key  string
		wait time.Duration
		want error
	}{{"in time", time.Minute - 1, nil}, {"at the deadline", time.Minute, history.ErrAnswered}, {"later", time.Hour, history.ErrAnswered}} {
		h := e.takeNew(c.key)
		h.commit(h.askBatch("q", e.Now().Add(time.Minute)))
		e.clock.Advance(c.wait)
		if err := e.Answer(e.ctx, h.id, answer("q", `1`)); c.want == nil {
			e.ok(err)
		} else {
			e.is(err, c.want)
		}
		_, _, err := e.WakeDue(e.ctx, 10)
		e.ok(err)
		e.take().complete()
	}
}

func answerUnknown(e *env) {
	h := e.takeNew("a")
	h.commit(h.askBatch("q", 0))
	e.is(e.Answer(e.ctx, h.id, answer("q2", `1`)), history.ErrNotFound)
	e.is(e.Answer(e.ctx, history.NewRunID(e.Now()), answer("q", `1`)), history.ErrNotFound)
	e.is(e.Answer(e.ctx, h.id, answer("", `1`)), history.ErrInvalid)
	e.is(e.Answer(e.ctx, h.id, signal("q", "q", `1`)), history.ErrInvalid)
	_, err := e.Interrupts(e.ctx, history.NewRunID(e.Now()))
	e.is(err, history.ErrNotFound)
}

func answerClosed(e *env) {
	h := e.takeNew("a")
	due := e.Now().Add(time.Minute)
	h.commit(h.askBatch("q", due))
	e.pass(time.Minute)
	h = e.take()
	b := h.batch(history.NextRunning, history.Event{Kind: history.InterruptTimedOut, Position: "q", Op: "ask", Key: "q"})
	b.Close, b.DecidedAt, b.Clear = []string{"q"}, due, []history.Timer{{At: due, Position: "q"}}
	equal(e, "questions", h.commit(b).Questions, 0)
	e.is(e.Answer(e.ctx, h.id, answer("q", `1`)), history.ErrAnswered)
	open, err := e.Interrupts(e.ctx, h.id)
	e.ok(err)
	equal(e, "open", len(open), 0)
}

func answerAfterEnd(e *env) {
	h := e.takeNew("a")
	h.commit(h.askBatch("q", e.Now().Add(time.Minute)))
	_, err := e.Terminate(e.ctx, h.id, "op", "stop")
	e.ok(err)
	equal(e, "questions", e.Run(h.id).Questions, 0)
	e.is(e.Answer(e.ctx, h.id, answer("q", `1`)), history.ErrAnswered)
	e.is(e.Answer(e.ctx, h.id, answer("never", `1`)), history.ErrNotFound)
	// A question that is raised in the commit that ends the run.
	h = e.takeNew("b")
	b := h.askBatch("q", 0)
	end := done()
	end.Seq = b.Events[0].Seq + 1
	b.Events, b.Next = append(b.Events, end), history.NextClosed
	equal(e, "questions", h.commit(b).Questions, 0)
	e.is(e.Answer(e.ctx, h.id, answer("q", `1`)), history.ErrAnswered)
}

func questionKeys(e *env) {
	h := e.takeNew("a")
	h.commit(h.askBatch("q", 0))
	e.ok(e.Answer(e.ctx, h.id, answer("q", `1`)))
	h = e.take()
	h.commit(h.batch(history.NextRunning, history.Event{Kind: history.InterruptAnswered, Position: "q", Op: "ask", Key: "q", Inbox: 1}))
	b := h.askBatch("q", 0)
	b.Events[0].Position, b.Open[0].Position = "r", "r"
	h.refused(b, history.ErrInvalid)
	b.Events[0].Key, b.Open[0].Key = "r", "r"
	h.commit(b)
}
