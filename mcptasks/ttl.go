package mcptasks

import (
	"math"
	"time"

	"github.com/perdure/perdure/history"
)

// handleLife returns how long after its creation a task can be read, given the run's retention and its age: its
// present age where it is alive, its age at the end where it is over. Zero retention is for ever, and so is the answer.
//
// It is retention × 2^⌈log2(age/retention + 1)⌉, that is the smallest retention × 2^k that covers age + retention. So
// it is never short, and changes rarely: a live run's handle never runs out, and a client that keeps the value that
// it saw last learns of the extension before that value has passed. It is derived, never stored.
func handleLife(retention, age time.Duration) time.Duration {
	if retention <= 0 {
		return 0
	}
	age = max(age, 0)
	life := retention
	for life-retention < age {
		if life > math.MaxInt64/2 {
			return math.MaxInt64
		}
		life *= 2
	}
	return life
}

// ttlMs is handleLife in the wire's form, for a run at an instant.
func ttlMs(r *history.Run, now history.Time) *int64 {
	if r.Retention <= 0 {
		return nil
	}
	end := now
	if r.Status.Terminal() {
		end = r.ClosedAt
	}
	ms := int64(math.Ceil(float64(handleLife(r.Retention, end.Sub(r.CreatedAt))) / float64(time.Millisecond)))
	return &ms
}

// pollInterval advises when to ask again: an eighth of the time since something last changed, between low and high.
// So a run that moves is polled often, and one that sleeps for days seldom. Where work is being done, or a person is
// being asked, an answer can come at any moment, and the interval stays at or below 5 s.
func pollInterval(r *history.Run, now history.Time, low, high time.Duration) time.Duration {
	const busy = 5 * time.Second
	if r.Status != history.StatusWaiting || r.Questions > 0 {
		high = min(high, max(busy, low))
	}
	return min(max(now.Sub(r.UpdatedAt)/8, low), high)
}
