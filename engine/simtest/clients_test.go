package simtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// client is who calls from outside: it never crashes.
type client struct{}

func (client) reply(fn func()) { fn() }

// unknown reports whether a caller cannot tell what became of its request, or knows that it did not arrive.
func unknown(err error) bool {
	return errors.Is(err, errUnreachable) || errors.Is(err, errNoReply)
}

// retry is when a client that got no reply tries again, as long as it does.
func (w *world) retry(left int, again func(left int)) {
	if left > 0 {
		w.after(3*time.Second, func() { again(left - 1) })
	}
}

func key(run int) string { return fmt.Sprintf("k%d", run) }

func (w *world) act(a act) {
	w.note("act: %s", a)
	ctx := context.Background()
	id, known := w.oracle.byKey[key(a.Run)]
	switch a.Kind {
	case "start", "restart":
		w.start(w.startOf(a.Run, a.N), 5)
		return
	case "sweep":
		w.sweep(fmt.Sprintf("sweeper %d", a.N%2), a.N%3 == 0)
		return
	}
	if !known {
		return
	}
	switch a.Kind {
	case "clash":
		s := w.startOf(a.Run, 0)
		s.Input = []byte(`{"node":{"k":"seq","n":"other"}}`)
		w.start(s, 0)
	case "signal":
		w.signal(w.family(id, a.N), fmt.Sprintf("s%d", a.N%4), fmt.Sprintf("p%d", a.N%4), 3)
	case "reject":
		w.signal(id, fmt.Sprintf("s%d", a.N%4), "another", 0)
	case "answer", "rivals":
		keys := w.oracle.asked()
		if len(keys) == 0 {
			return
		}
		q := keys[a.N%len(keys)]
		w.answer(q, w.answerOf(a.N), 1)
		if a.Kind == "rivals" {
			w.answer(q, w.answerOf(a.N+1), 1)
		}
	case "cancel":
		w.end("cancel", w.family(id, a.N/7), 3, func(s engine.Store, id history.RunID) (history.Run, error) {
			return s.Cancel(ctx, id, "client", "")
		})
	case "terminate":
		w.end("terminate", id, 3, func(s engine.Store, id history.RunID) (history.Run, error) { return s.Terminate(ctx, id, "client", "") })
	case "pause":
		w.end("pause", id, 0, func(s engine.Store, id history.RunID) (history.Run, error) { return s.Pause(ctx, id, "client", "") })
	case "resume":
		w.resume(id)
	case "decide":
		w.decide(id, a.N)
	}
}

// family is the run or one of its children.
func (w *world) family(id history.RunID, n int) history.RunID {
	all := append([]history.RunID{id}, w.oracle.children(id)...)
	return all[n%len(all)]
}

func (w *world) startOf(run, n int) history.Start {
	s := history.Start{
		Spec: history.Spec{
			Tenant: "t", Key: key(run), Workflow: w.code.flow.Key().Name, Version: w.code.flow.Key().Version,
		},
		Input: w.sc.Tasks[run].encode(),
	}
	if n%4 == 1 {
		s.Spec.Retention = time.Minute
	}
	if n%9 == 2 {
		s.Spec.ConcurrencyKey, s.Spec.ConcurrencyLimit = "one", 1
	}
	if n%7 == 3 {
		s.Spec.Deadline = w.storeNow().Add(time.Duration(n) * time.Second / 4)
	}
	if n%5 == 0 {
		s.Signal = &history.InboxItem{Kind: history.InboxSignal, Name: "sig", Key: "s0", Payload: []byte(`"p0"`)}
	}
	return s
}

func (w *world) start(s history.Start, left int) {
	s.Spec.ID = w.newID(w.storeNow())
	s.Spec.CreatedAt = 0
	call(w, client{}, "start "+s.Spec.Key, func(store engine.Store) (history.Run, error) {
		run, existed, err := store.Start(context.Background(), &s)
		w.oracle.started(&s, run, existed, err)
		if err != nil {
			return history.Run{}, err
		}
		return *run, nil
	}, func(run history.Run, err error) {
		switch {
		case unknown(err):
			w.retry(left, func(left int) { w.start(s, left) })
		case err == nil:
			w.oracle.ackStart(s.Spec.Key, run.ID)
		}
	})
}

func (w *world) signal(id history.RunID, signalID, payload string, left int) {
	item := history.InboxItem{Kind: history.InboxSignal, Name: "sig", Key: signalID, Payload: fmt.Appendf(nil, "%q", payload)}
	call(w, client{}, fmt.Sprintf("signal %s to %s", signalID, w.oracle.name(id)), func(s engine.Store) (engine.Delivery, error) {
		d, err := s.Deliver(context.Background(), id, item)
		w.oracle.delivered(id, &item, d, err)
		return d, err
	}, func(d engine.Delivery, err error) {
		switch {
		case unknown(err):
			w.retry(left, func(left int) { w.signal(id, signalID, payload, left) })
		case err == nil:
			w.oracle.ackSignal(id, &item)
		}
	})
}

// question is where a question was asked.
type question struct {
	run history.RunID
	key string
}

func (w *world) answerOf(n int) workflow.Answer {
	if n%5 == 0 {
		return workflow.Answer{Action: workflow.Dismiss}
	}
	return workflow.Answer{Action: workflow.Accept, Content: fmt.Appendf(nil, `{"a":"answer %d"}`, n)}
}

func (w *world) answer(q question, a workflow.Answer, left int) {
	payload, err := json.Marshal(a)
	if err != nil {
		panic(err) // made of texts
	}
	item := history.InboxItem{Kind: history.InboxAnswer, Key: q.key, Name: string(a.Action), Payload: payload}
	call(w, client{}, fmt.Sprintf("answer %s of %s", q.key, w.oracle.name(q.run)), func(s engine.Store) (struct{}, error) {
		err := s.Answer(context.Background(), q.run, item)
		w.oracle.answered(q, &item, err)
		return struct{}{}, err
	}, func(_ struct{}, err error) {
		switch {
		case unknown(err):
			w.retry(left, func(left int) { w.answer(q, a, left) })
		case err == nil:
			w.oracle.ackAnswer(q, payload)
		}
	})
}

func (w *world) end(op string, id history.RunID, left int, fn func(engine.Store, history.RunID) (history.Run, error)) {
	call(w, client{}, op+" "+w.oracle.name(id), func(s engine.Store) (history.Run, error) {
		run, err := fn(s, id)
		if err != nil && !errors.Is(err, history.ErrNotFound) {
			w.oracle.fail("operator", "%s of %s: %v", op, w.oracle.name(id), err)
		}
		return run, err
	}, func(run history.Run, err error) {
		switch {
		case unknown(err):
			w.retry(left, func(left int) { w.end(op, id, left, fn) })
		case err == nil:
			w.oracle.ackEnd(op, id, &run)
		}
	})
}

func (w *world) resume(id history.RunID) {
	w.end("resume", id, 0, func(s engine.Store, id history.RunID) (history.Run, error) {
		return s.Resume(context.Background(), id, "client", "")
	})
}

// decide settles the at-most-once steps of a run that wait for an operator.
func (w *world) decide(id history.RunID, n int) {
	for _, pos := range w.oracle.undecided(id) {
		item := history.InboxItem{
			Kind: history.InboxOperator, Name: []string{"retry", "complete", "fail"}[n%3], Key: string(pos), By: "operator",
		}
		if item.Name == "complete" {
			item.Payload = []byte(`"decided"`)
		}
		call(w, client{}, "decide "+string(pos), func(s engine.Store) (engine.Delivery, error) {
			return s.Deliver(context.Background(), id, item)
		}, func(engine.Delivery, error) {})
	}
}

// sweep deletes what is due, as the engine's sweeper does; an eager one asks for everything.
func (w *world) sweep(owner string, eager bool) {
	ctx := context.Background()
	call(w, client{}, "lease clean-up", func(s engine.Store) (history.Token, error) {
		return s.LeaseCleanup(ctx, owner, time.Minute)
	}, func(token history.Token, err error) {
		if err != nil {
			return
		}
		call(w, client{}, "look for what is due", func(s engine.Store) (engine.ExpiredPage, error) {
			return s.Expired(ctx, engine.ExpiredQuery{})
		}, func(page engine.ExpiredPage, err error) {
			if err != nil {
				return
			}
			if eager { // what is not due must be refused
				for _, id := range w.oracle.order {
					if !w.oracle.runs[id].gone && !slices.Contains(page.Runs, id) {
						page.Runs = append(page.Runs, id)
					}
				}
			}
			call(w, client{}, "delete", func(s engine.Store) (engine.Deletion, error) {
				for _, id := range page.Runs {
					w.oracle.agree(w.oracle.record(id)) // while its history is still there
				}
				out, err := s.Delete(ctx, token, nil, page.Runs)
				for _, id := range out.Deleted {
					w.oracle.deleted(id)
				}
				return out, err
			}, func(engine.Deletion, error) {})
		})
	})
}

// clearUp is what operators do in the end, so that everything can end: paused runs are resumed, questions answered,
// ambiguous steps decided.
func (w *world) clearUp() {
	for _, id := range sortedKeys(w.oracle.runs) {
		r := w.oracle.runs[id]
		switch {
		case r.over() || r.gone:
		case r.paused:
			w.resume(id)
		default:
			w.decide(id, w.rng.IntN(3))
		}
	}
	for _, q := range slices.Clone(w.oracle.asked()) {
		if r := w.oracle.runs[q.run]; !r.over() && !r.gone && r.questions[q.key].Due.IsZero() {
			w.answer(q, workflow.Answer{Action: workflow.Accept, Content: []byte(`{"a":"at last"}`)}, 0)
		}
	}
}
