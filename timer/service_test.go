package timer_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/timer"
)

// source is a sorted list of timers.
type source struct {
	mu    sync.Mutex
	due   []history.Time
	fired []history.Time // when each was woken
	fails int            // how many calls fail from now on
	calls int
}

func (s *source) Now() history.Time { return history.TimeOf(time.Now()) }

func (s *source) set(at history.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = append(s.due, at)
	slices.Sort(s.due)
}

func (s *source) WakeDue(_ context.Context, limit int) (woken int, next history.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.fails > 0 {
		s.fails--
		return 0, 0, errors.New("cannot read")
	}
	now := s.Now()
	for len(s.due) > 0 && s.due[0] <= now && woken < limit {
		s.due = s.due[1:]
		s.fired = append(s.fired, now)
		woken++
	}
	if len(s.due) > 0 {
		next = s.due[0]
	}
	return woken, next, nil
}

// serve runs a service until the test ends.
func serve(t *testing.T, s *source, maxNap time.Duration) *timer.Service {
	t.Helper()
	service := timer.NewService(s, timer.Options{MaxNap: maxNap, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		service.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return service
}

func (s *source) want(t *testing.T, want ...history.Time) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.fired, want) {
		t.Errorf("fired at %v, want %v", s.fired, want)
	}
}

func TestServiceFiresEachTimerAtItsInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		begin := s.Now()
		s.set(begin.Add(-time.Hour)) // overdue
		s.set(begin.Add(time.Minute))
		s.set(begin.Add(48 * time.Hour))
		serve(t, s, 0)
		s.want(t, begin)
		time.Sleep(time.Minute)
		s.want(t, begin, begin.Add(time.Minute))
		time.Sleep(100 * time.Hour)
		s.want(t, begin, begin.Add(time.Minute), begin.Add(48*time.Hour))
	})
}

func TestServiceIsToldOfAnEarlierTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		begin := s.Now()
		s.set(begin.Add(20 * time.Second))
		service := serve(t, s, 0)
		synctest.Wait()
		for _, d := range []time.Duration{15 * time.Second, 5 * time.Second, 10 * time.Second} {
			s.set(begin.Add(d))
			service.Notify(begin.Add(d))
		}
		time.Sleep(time.Minute)
		s.want(t, begin.Add(5*time.Second), begin.Add(10*time.Second), begin.Add(15*time.Second), begin.Add(20*time.Second))
	})
}

func TestServiceFindsATimerWhoseHintWasLost(t *testing.T) {
	for _, tc := range []struct{ maxNap, late time.Duration }{{0, time.Minute}, {3 * time.Second, 3 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			s := &source{}
			begin := s.Now()
			serve(t, s, tc.maxNap)
			synctest.Wait()
			s.set(begin.Add(time.Second)) // and tells nobody
			time.Sleep(time.Hour)
			s.want(t, begin.Add(tc.late))
		})
	}
}

func TestServiceGoesOnAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{fails: 3}
		begin := s.Now()
		s.set(begin)
		serve(t, s, 0)
		time.Sleep(time.Minute)
		s.want(t, begin.Add(3*time.Second))
	})
}

func TestServiceFiresMoreThanOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		for range 2500 {
			s.set(s.Now())
		}
		serve(t, s, 0)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.fired) != 2500 || s.calls != 3 {
			t.Errorf("%d fired in %d calls, want 2500 in 3", len(s.fired), s.calls)
		}
	})
}
