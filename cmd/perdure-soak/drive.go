package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/perdure/perdure/mcptasks"
)

// drive is the client of one run, from its call to its end. It gives up when ctx ends.
func (l *load) drive(ctx context.Context, p plan) {
	r := l.witness.begin(p)
	client := l.clients[p.n%len(l.clients)]
	if !l.call(ctx, client, r) {
		return
	}
	if p.twice {
		l.call(ctx, client, r)
	}
	var others sync.WaitGroup
	defer others.Wait()
	switch p.kind {
	case mail:
		others.Go(func() { l.send(ctx, r) })
	case endless:
		others.Go(func() { l.cancel(ctx, client, r) })
	}
	l.follow(ctx, client, r)
}

// insist calls fn until it succeeds or ctx ends: whoever sends something is told whether it has come.
func insist(ctx context.Context, fn func() error) bool {
	for {
		if err := fn(); err == nil {
			return true
		}
		if !pause(ctx, 100*time.Millisecond) {
			return false
		}
	}
}

// pause waits, and reports whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// call starts the run, under a key that makes it safe to repeat.
func (l *load) call(ctx context.Context, client *mcptasks.Client, r *record) bool {
	return insist(ctx, func() error {
		out, err := client.Call(ctx, mcptasks.CallRequest{Tool: string(r.kind), Arguments: r.arguments(), IdempotencyKey: r.key()})
		switch {
		case err != nil:
			return err
		case out.Task == nil:
			l.witness.violate("wrong", r.n, "the call of %s has no task", r.kind)
		default:
			l.witness.started(r, out.Task.TaskID)
		}
		return nil
	})
}

// send sends the signals, each under an id of its own, and only when the one before was acknowledged. Every third is
// sent again after that.
func (l *load) send(ctx context.Context, r *record) {
	for i := 1; i <= letters; i++ {
		if !pause(ctx, r.wait) {
			return
		}
		id := fmt.Sprintf("letter-%d", i)
		unsure := false // an earlier try may have come
		deliver := func() error {
			delivery, err := l.server.signal(ctx, r.task, "letter", id, i)
			var refused *refusal
			switch {
			case errors.As(err, &refused) && refused.status < http.StatusInternalServerError:
				l.witness.violate("lost", r.n, "signal %s is refused: %v", id, refused)
				return nil
			case err != nil:
				unsure = true
				return err
			case delivery != "delivered" && (delivery != "duplicate" || !unsure):
				l.witness.violate("wrong", r.n, "signal %s was taken as a %s", id, delivery)
			}
			return nil
		}
		if !insist(ctx, deliver) {
			return
		}
		l.witness.signalled(r)
		if (r.n+i)%3 == 0 {
			unsure = true
			if insist(ctx, deliver) {
				l.witness.count(func(c *counts) { c.SignalsTwice++ })
			}
		}
	}
}

func (l *load) cancel(ctx context.Context, client *mcptasks.Client, r *record) {
	if !pause(ctx, r.wait) {
		return
	}
	if insist(ctx, func() error { return client.Cancel(ctx, r.task) }) {
		l.witness.cancelledNow(r)
	}
}

// follow watches the run to its end, by subscription where there is room and else by polling.
func (l *load) follow(ctx context.Context, client *mcptasks.Client, r *record) {
	if r.listen {
		select {
		case l.listening <- struct{}{}:
			ended := l.subscribe(ctx, client, r)
			<-l.listening
			if ended {
				return
			}
		default:
		}
	}
	for {
		select {
		case <-l.polls:
		case <-ctx.Done():
			return
		}
		if l.poll(ctx, client, r) {
			return
		}
	}
}

// subscribe reports whether the run has ended.
func (l *load) subscribe(ctx context.Context, client *mcptasks.Client, r *record) bool {
	for d, err := range client.Listen(ctx, r.task) {
		switch {
		case errors.Is(err, mcptasks.ErrTaskNotFound):
			l.witness.violate("lost", r.n, "the subscription does not know task %s", r.task)
			return true
		case err != nil:
			return false
		}
		l.witness.count(func(c *counts) { c.Notified++ })
		if l.observe(ctx, client, r, &d) {
			return true
		}
	}
	return false
}

// poll reports whether the run has ended.
func (l *load) poll(ctx context.Context, client *mcptasks.Client, r *record) bool {
	answered := l.witness.hasAnswer(r)
	d, err := client.Get(ctx, r.task)
	if ctx.Err() != nil {
		return false
	}
	l.witness.count(func(c *counts) { c.Polls++ })
	switch {
	case errors.Is(err, mcptasks.ErrTaskNotFound):
		l.witness.violate("lost", r.n, "task %s was acknowledged, and is not there", r.task)
		return true
	case err != nil:
		return false
	case answered && d.Status == mcptasks.InputRequired:
		l.witness.violate("lost", r.n, "the answer to task %s was acknowledged, and its question is open", r.task)
	}
	return l.observe(ctx, client, r, d)
}

// observe acts on a state of the task, and reports whether the run has ended.
func (l *load) observe(ctx context.Context, client *mcptasks.Client, r *record, d *mcptasks.DetailedTask) bool {
	if d.Status.Terminal() {
		l.witness.end(r, d)
		return true
	}
	if d.Status == mcptasks.InputRequired && !l.witness.hasAnswer(r) {
		l.answer(ctx, client, r, d)
	}
	return false
}

// answer answers the question, and offers another answer when the first is acknowledged: the first must count.
func (l *load) answer(ctx context.Context, client *mcptasks.Client, r *record, d *mcptasks.DetailedTask) {
	if r.kind != question || len(d.InputRequests) != 1 {
		l.witness.violate("wrong", r.n, "%s asks %d questions", r.kind, len(d.InputRequests))
		return
	}
	for key := range d.InputRequests {
		with := func(number int) error {
			content := map[string]any{"action": "accept", "content": map[string]any{"number": number}}
			return client.Update(ctx, r.task, map[string]any{key: content})
		}
		if !insist(ctx, func() error { return with(r.plan.answer) }) {
			return
		}
		l.witness.answeredBy(r)
		if with(r.plan.answer+1) == nil { // an error is the server's absence
			l.witness.count(func(c *counts) { c.Rivals++ })
		}
	}
}
