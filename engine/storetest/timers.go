package storetest

import (
	"fmt"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func timerScenarios() []scenario {
	return []scenario{
		{"a pending timer has its row after a crash", timerRowSurvives},
		{"all timers that fell due while the process was down fire at open, in order", overdueFire},
		{"a timer never fires before its instant and never twice", timerOnce},
		{"a cleared timer does not fire", timerCleared},
		{"a wake-up for a run that is held tells its holder", timerOfHeldRun},
		{"more timers than fit in memory fire in order", manyTimers},
		{"more ready runs than fit in memory are claimed in order", manyReady},
		{"a timer that is set again fires again", timerSetAgain},
	}
}

func timerRowSurvives(e *env) {
	h := e.takeNew("a")
	at := e.Now().Add(time.Hour)
	h.sleep("s#0", at)
	e.reopen(0)
	timers, err := e.Timers(e.ctx, h.id)
	e.ok(err)
	equal(e, "timers", fmt.Sprint(timers), fmt.Sprint([]history.Timer{{At: at, Position: "s#0"}}))
	n, next := e.pass(0)
	equal(e, "woken", n, 0)
	equal(e, "next", next, at)
	e.none()
	n, next = e.pass(time.Hour)
	equal(e, "woken", n, 1)
	equal(e, "next", next, 0)
	h = e.take()
	if h.claim.Now < at {
		e.Fatalf("the claim's time is %s, before the timer's, %s", h.claim.Now, at)
	}
}

func overdueFire(e *env) {
	order := []int{3, 1, 4, 2, 5}
	ids := map[int]history.RunID{}
	for _, i := range order {
		h := e.takeNew(fmt.Sprint("r", i))
		ids[i] = h.id
		h.sleep("s#0", e.Now().Add(time.Duration(i)*time.Minute))
	}
	e.reopen(24 * time.Hour)
	n, next := e.pass(0)
	equal(e, "woken", n, len(order))
	equal(e, "next", next, 0)
	for i := range order {
		equal(e, fmt.Sprint("claim ", i), e.take().id, ids[i+1])
	}
}

func timerOnce(e *env) {
	h := e.takeNew("a")
	at := e.Now().Add(time.Minute)
	h.sleep("s#0", at)
	n, _ := e.pass(time.Minute - 1)
	equal(e, "woken early", n, 0)
	n, _ = e.pass(-time.Hour) // the clock steps back
	equal(e, "woken after a step back", n, 0)
	before := e.Now()
	n, _ = e.pass(time.Hour + 1)
	equal(e, "woken", n, 1)
	if e.Now() < before {
		e.Fatal("the store's time ran backwards")
	}
	n, _ = e.pass(time.Hour)
	equal(e, "woken twice", n, 0)
	h = e.take()
	b := h.batch(history.NextRunning, history.Event{Kind: history.TimerFired, Position: "s#0", Op: "sleep"})
	b.Clear = []history.Timer{{At: at, Position: "s#0"}}
	h.commit(b)
	e.reopen(24 * time.Hour) // a step forward
	n, next := e.pass(0)
	equal(e, "woken after reopening", n, 0)
	equal(e, "next", next, 0)
}

func timerCleared(e *env) {
	h := e.takeNew("a")
	at := e.Now().Add(time.Minute)
	h.receive("paid", at)
	e.deliver(h.id, signal("paid", "", `1`), engine.Delivered)
	h = e.take()
	b := h.batch(history.NextWaiting, received("paid", 1), history.Event{Kind: history.ReceiveOpened, Position: "x#0", Names: []string{"x"}})
	b.Clear = []history.Timer{{At: at, Position: "paid#0"}}
	h.commit(b)
	n, next := e.pass(time.Hour)
	equal(e, "woken", n, 0)
	equal(e, "next", next, 0)
	e.none()
}

func timerOfHeldRun(e *env) {
	changes := make(chan engine.Change, 100)
	cancel := e.Subscribe(func(c engine.Change) { changes <- c })
	defer cancel()
	h := e.takeNew("a")
	at := e.Now().Add(time.Second)
	b := h.sleepBatch("s#0", at)
	b.Next = history.NextRunning
	h.commit(b)
	n, _ := e.pass(time.Second)
	equal(e, "woken", n, 0)
	for c := range changes {
		if c.Due {
			equal(e, "run", c.Run, h.id)
			equal(e, "status", c.Status, history.StatusRunning)
			equal(e, "ready", c.Ready, false)
			break
		}
	}
	// It was not cleared, so that waiting on makes the run ready at once.
	state := h.commit(h.batch(history.NextWaiting))
	equal(e, "status", state.Status, history.StatusReady)
}

// many is more than a window of any store holds twice.
const many = 2500

func manyTimers(e *env) {
	base := e.Now()
	ids := make([]history.RunID, many)
	e.startMany(many)
	for i := range many {
		h := e.take()
		at := (i * 7919) % many // a permutation: 7919 is prime
		ids[at] = h.id
		h.sleep("s#0", base.Add(time.Hour+time.Duration(at)*time.Second))
	}
	e.reopen(0)
	_, next := e.pass(0)
	equal(e, "next", next, base.Add(time.Hour))
	n, next := e.pass(time.Hour + 99*time.Second)
	equal(e, "woken", n, 100)
	equal(e, "next", next, base.Add(time.Hour+100*time.Second))
	e.clock.Advance(many * time.Second)
	n, next, err := e.WakeDue(e.ctx, 10)
	e.ok(err)
	equal(e, "woken with a limit", n, 10)
	equal(e, "next with a limit", next, base.Add(time.Hour+110*time.Second))
	n, next = e.pass(0)
	equal(e, "woken", n, many-110)
	equal(e, "next", next, 0)
	for i := 0; i < many; {
		for _, c := range e.claims("w", 300) {
			if c.Run.ID != ids[i] {
				e.Fatalf("claim %d is run %s (%s), want %s", i, c.Run.ID, c.Run.Key, ids[i])
			}
			i++
		}
	}
	e.none()
}

// startMany starts n runs from a few goroutines, so that a store can commit them in groups.
func (e *env) startMany(n int) {
	e.Helper()
	e.parallel(32, n, func(i int) error {
		_, _, err := e.Start(e.ctx, &history.Start{Spec: specWith(fmt.Sprint("m", i))})
		return err
	})
}

func manyReady(e *env) {
	e.startMany(many)
	got := map[history.RunID]bool{}
	first := e.claims("w", 10)
	for _, c := range first {
		got[c.Run.ID] = true
	}
	for _, c := range first[:5] { // come back to the front of the line
		e.ok(e.Release(e.ctx, c.Run.ID, c.Token, 0, ""))
	}
	back := e.claims("w", 5)
	for i, c := range back {
		equal(e, "claimed again", c.Run.ID, first[i].Run.ID)
	}
	var last history.RunID
	for {
		cs := e.claims("w", 777)
		if len(cs) == 0 {
			break
		}
		for _, c := range cs {
			if got[c.Run.ID] {
				e.Fatalf("run %s was claimed twice", c.Run.ID)
			}
			got[c.Run.ID] = true
			if c.Run.ID.Compare(last) <= 0 { // they all became ready at the same instant
				e.Fatalf("run %s was claimed after %s", c.Run.ID, last)
			}
			last = c.Run.ID
		}
	}
	equal(e, "claimed", len(got), many)
}

func timerSetAgain(e *env) {
	h := e.takeNew("a")
	at := e.Now().Add(time.Second)
	h.sleep("s#0", at)
	n, _ := e.pass(time.Second)
	equal(e, "woken", n, 1)
	h = e.take()
	later := at.Add(time.Minute)
	b := h.batch(history.NextWaiting, history.Event{Kind: history.TimerFired, Position: "s#0", Op: "sleep"},
		history.Event{Kind: history.TimerSet, Position: "s#1", Op: "sleep", Due: later})
	b.Clear = []history.Timer{{At: at, Position: "s#0"}}
	b.Set = []history.Timer{{At: later, Position: "s#1"}}
	equal(e, "status", h.commit(b).Status, history.StatusWaiting)
	n, _ = e.pass(time.Minute)
	equal(e, "woken", n, 1)
	e.take()
}
