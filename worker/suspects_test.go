package worker

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestSuspectsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, never := newSuspects(), make(chan struct{})
		var acquitted atomic.Int32
		take := func(ctx context.Context, lost <-chan struct{}) (done func(), ok bool) {
			return s.take(ctx, lost, func() { acquitted.Add(1) })
		}
		first, ok := take(t.Context(), never)
		if !ok {
			t.Fatal("the first had to wait")
		}
		began := time.Now()
		if _, ok := take(t.Context(), never); ok || time.Since(began) != turnPatience {
			t.Errorf("a second at once: %t, after %s", ok, time.Since(began))
		}
		gone := make(chan struct{})
		close(gone)
		ended, end := context.WithCancel(t.Context())
		end()
		if _, ok := take(t.Context(), gone); ok {
			t.Error("a run that was lost has a turn")
		}
		if _, ok := take(ended, never); ok {
			t.Error("a worker that ends begins a turn")
		}
		first()
		second, ok := take(t.Context(), never)
		if !ok || acquitted.Load() != 0 {
			t.Errorf("after the first: %t, %d acquitted", ok, acquitted.Load())
		}
		time.Sleep(turnLimit)
		synctest.Wait()
		third, ok := take(t.Context(), never)
		if !ok || acquitted.Load() != 1 {
			t.Errorf("beside one that goes on: %t, %d acquitted", ok, acquitted.Load())
		}
		second() // it gives no turn up that it no longer has
		if _, ok := take(t.Context(), never); ok {
			t.Error("two have a turn")
		}
		third()
		if fourth, ok := take(t.Context(), never); ok {
			fourth()
		} else {
			t.Error("no turn after the third")
		}
	})
}
