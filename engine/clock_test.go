package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// TestClockChangesNeverFireATimerEarlyOrTwice steps the wall clock under a sleeping run.
func TestClockChangesNeverFireATimerEarlyOrTwice(t *testing.T) {
	for name, step := range map[string]time.Duration{"back an hour": -time.Hour, "forward a day": 24 * time.Hour} {
		for _, open := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, open %v", name, open), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var shift atomic.Int64
					// Round strips the monotonic reading, as a new process would have none in common with the old.
					wall := func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
					var fired witness
					w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
						if err := workflow.Sleep(ctx, 2*time.Hour); err != nil {
							return "", err
						}
						return workflow.Step(ctx, "s", func(context.Context) (string, error) { fired.add("fired"); return "", nil })
					})
					env := newEnvWith(t, envOptions{clock: wall}, w)
					h := start(env, w, 0)
					env.await(h.ID(), waiting)
					due := env.timers(h.ID())[0].At
					began := time.Now()
					if !open {
						env.close()
					}
					shift.Store(int64(step))
					if !open {
						env.openOn(envOptions{clock: wall})
					}
					env.ended(h.ID(), history.StatusCompleted)
					es := of(env.events(h.ID()), history.TimerFired)
					if len(es) != 1 || es[0].At < due || len(fired.list()) != 1 {
						t.Errorf("fired %v, due %s, %d steps", es, due, len(fired.list()))
					}
					latest := 2*time.Hour + time.Minute
					if step < 0 { // store time stands still until this clock has caught up
						latest -= step
					}
					if d := time.Since(began); d > latest {
						t.Errorf("fired after %s", d)
					}
				})
			})
		}
	}
}
