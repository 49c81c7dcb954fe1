package mcptasks

import (
	"time"

	"github.com/perdure/perdure/history"
)

// ttlMs is history.HandleLife in the wire's form, for a run at an instant.
func ttlMs(r *history.Run, now history.Time) *int64 {
	if r.Retention <= 0 {
		return nil
	}
	end := now
	if r.Status.Terminal() {
		end = r.ClosedAt
	}
	life := history.HandleLife(r.Retention, end.Sub(r.CreatedAt))
	ms := life.Milliseconds()
	if life%time.Millisecond > 0 {
		ms++
	}
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
