package worker

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/perdure/perdure/history"
)

// QueueLimit bounds what one worker takes of a queue. The zero value bounds nothing.
type QueueLimit struct {
	// Running bounds the runs of the queue that the worker holds at once. A run that waits is not held. 0: no bound.
	Running int
	// PerSecond bounds how many runs of the queue the worker claims in a second: starts, and what wakes. Burst is how many
	// it may claim at once after a rest (default 1). 0: no bound.
	PerSecond float64
	Burst     int
}

// limits keeps the bounds of a worker's queues.
type limits struct {
	wake   func()
	queues map[string]*queueLimit
}

type queueLimit struct {
	QueueLimit
	rate *rate.Limiter // nil: no bound

	mu sync.Mutex
	// held counts the runs of the queue that are held. guarded by mu
	held int
	// starved says that a claim was bounded by held, so that a hand-back is worth a look. guarded by mu
	starved bool
	// byRate says that the newest claim was bounded by the rate. guarded by mu
	byRate bool
	// later wakes the claim loop when the rate allows more; nil while nothing waits for it. guarded by mu
	later *time.Timer
}

func newLimits(of map[string]QueueLimit, wake func()) *limits {
	l := &limits{wake: wake, queues: make(map[string]*queueLimit)}
	for name, q := range of {
		limit := &queueLimit{QueueLimit: q}
		if q.PerSecond > 0 {
			limit.rate = rate.NewLimiter(rate.Limit(q.PerSecond), max(q.Burst, 1))
		}
		l.queues[name] = limit
	}
	return l
}

// ask returns how many runs of each limited queue may be claimed now.
func (l *limits) ask(want int) map[string]int {
	if len(l.queues) == 0 {
		return nil
	}
	left := make(map[string]int, len(l.queues))
	for name, q := range l.queues {
		left[name] = q.ask(want)
	}
	return left
}

// claimed looks at what a claim came to: where the rate was all that bounded it, another is due when there is more.
func (l *limits) claimed(allowed map[string]int, claims []history.Claim) {
	for name, n := range allowed {
		q, took := l.queues[name], 0
		for i := range claims {
			if claims[i].Run.Queue == name {
				took++
			}
		}
		if took == n {
			q.wakeLater(l.wake)
		}
	}
}

func (q *queueLimit) ask(want int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := want
	if q.Running > 0 {
		n = min(n, max(q.Running-q.held, 0))
	}
	q.starved = n < want
	q.byRate = false
	if q.rate != nil {
		tokens := int(q.rate.Tokens())
		q.byRate = tokens < n
		n = min(n, tokens)
	}
	return n
}

// wakeLater looks again when the next token is there.
func (q *queueLimit) wakeLater(wake func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.later != nil || !q.byRate {
		return
	}
	missing := 1 - (q.rate.Tokens() - float64(int(q.rate.Tokens())))
	wait := time.Duration(missing / q.PerSecond * float64(time.Second))
	q.later = time.AfterFunc(wait+time.Millisecond, func() {
		q.mu.Lock()
		q.later = nil
		q.mu.Unlock()
		wake()
	})
}

// took counts a claimed run.
func (l *limits) took(queue string) {
	q := l.queues[queue]
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held++
	if q.rate != nil {
		q.rate.Allow() // ask has seen the token
	}
}

// gave counts a run that is no longer held.
func (l *limits) gave(queue string) {
	q := l.queues[queue]
	if q == nil {
		return
	}
	q.mu.Lock()
	q.held--
	starved := q.starved
	q.mu.Unlock()
	if starved {
		l.wake()
	}
}

// stop ends the timers.
func (l *limits) stop() {
	for _, q := range l.queues {
		q.mu.Lock()
		if q.later != nil {
			q.later.Stop()
		}
		q.mu.Unlock()
	}
}
