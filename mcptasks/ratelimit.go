package mcptasks

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// rateLimit holds a token bucket for each caller that was active lately.
type rateLimit struct {
	limit rate.Limit
	burst int

	mu      sync.Mutex
	callers map[Caller]*rate.Limiter // guarded by mu
	sweepAt time.Time                // guarded by mu
}

// newRateLimit returns nil where perSecond is not positive: no limit.
func newRateLimit(perSecond float64, burst int) *rateLimit {
	if perSecond <= 0 {
		return nil
	}
	if burst == 0 {
		burst = max(1, int(2*perSecond))
	}
	return &rateLimit{limit: rate.Limit(perSecond), burst: burst, callers: map[Caller]*rate.Limiter{}}
}

func (l *rateLimit) allow(c Caller, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	b := l.callers[c]
	if b == nil {
		b = rate.NewLimiter(l.limit, l.burst)
		l.callers[c] = b
	}
	return b.AllowN(now, 1)
}

// sweep forgets callers whose buckets are full again: a new bucket says the same. mu is held.
func (l *rateLimit) sweep(now time.Time) {
	if now.Before(l.sweepAt) {
		return
	}
	l.sweepAt = now.Add(time.Minute)
	for c, b := range l.callers {
		if b.TokensAt(now) >= float64(l.burst) {
			delete(l.callers, c)
		}
	}
}
