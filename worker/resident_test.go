package worker

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// parked is an execution that waits, and tells when it is unloaded.
func parked(t *testing.T, unloaded *[]byte, n byte) (history.RunID, *kernel.Execution) {
	t.Helper()
	run := &history.Run{Spec: history.Spec{ID: history.RunID{n}}}
	run.Seq = 1
	events := []history.Event{{Seq: 1, Kind: history.RunStarted}}
	x := kernel.New(run, events, func(b *kernel.Branch, _ []byte) ([]byte, *history.Failure) {
		defer func() { *unloaded = append(*unloaded, n) }()
		_, f := b.Receive(kernel.ReceiveSpec{Name: "never", Signals: []string{"never"}})
		return nil, f
	}, kernel.Options{})
	if a := x.Advance(kernel.Input{Now: 1}); a.Next != history.NextWaiting {
		t.Fatalf("next %d", a.Next)
	}
	return run.ID, x
}

func TestResidentsDropTheLeastRecentlyUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone []byte
		r := newResidents(2, time.Hour)
		for _, n := range []byte{1, 2} {
			id, x := parked(t, &gone, n)
			end(r.put(id, x))
		}
		one, _ := r.take(history.RunID{1}) // used: now 2 is the oldest
		end(r.put(history.RunID{1}, one))
		id, x := parked(t, &gone, 3)
		end(r.put(id, x))
		if !slices.Equal(gone, []byte{2}) {
			t.Errorf("unloaded %v, want 2", gone)
		}
		if _, ok := r.take(history.RunID{2}); ok {
			t.Error("an unloaded execution is still there")
		}
		end(r.takeAll())
		if len(gone) != 3 || !r.empty() {
			t.Errorf("unloaded %v, want all", gone)
		}
	})
}

func TestResidentsDropWhatIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone []byte
		r := newResidents(10, time.Minute)
		for _, n := range []byte{1, 2, 3} {
			id, x := parked(t, &gone, n)
			end(r.put(id, x))
			time.Sleep(40 * time.Second)
		}
		end(r.takeIdle(time.Now()))
		if !slices.Equal(gone, []byte{1, 2}) {
			t.Errorf("unloaded %v, want 1 and 2: idle for 120 s and 80 s of 60", gone)
		}
		end(r.takeAll())
	})
}

func TestNoResidents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone []byte
		r := newResidents(-1, time.Minute)
		id, x := parked(t, &gone, 1)
		end(r.put(id, x))
		if _, kept := r.take(id); kept || len(gone) != 1 {
			t.Errorf("it was kept")
		}
	})
}

// end unloads, and waits for it.
func end(xs []*kernel.Execution) {
	u := unloads{grace: time.Hour, log: slog.New(slog.DiscardHandler)}
	for _, x := range xs { // in order
		u.add(x)
		u.wait()
	}
}

func TestUnloadThatHangsIsLoggedAndLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var log bytes.Buffer
		u := unloads{grace: time.Minute, log: slog.New(slog.NewTextHandler(&log, nil))}
		u.wait() // for nothing
		run := &history.Run{Spec: history.Spec{ID: history.RunID{7}}}
		run.Seq = 1
		x := kernel.New(run, []history.Event{{Seq: 1, Kind: history.RunStarted}}, func(b *kernel.Branch, _ []byte) ([]byte, *history.Failure) {
			defer func() { <-release }()
			_, f := b.Receive(kernel.ReceiveSpec{Name: "never", Signals: []string{"never"}})
			return nil, f
		}, kernel.Options{})
		x.Advance(kernel.Input{Now: 1})
		before := time.Now()
		u.add(x)
		u.wait()
		synctest.Wait()
		if d := time.Since(before); d != time.Minute || !strings.Contains(log.String(), run.ID.String()) {
			t.Errorf("waited %s, logged %q", d, log.String())
		}
		close(release)
		u.wait()
	})
}

func TestOptionsHaveDefaults(t *testing.T) {
	o := Options{}.withDefaults()
	if o.Name == "" || o.MaxRuns <= 0 || o.LeaseTTL <= 0 || o.StallTimeout <= 0 || o.StopGrace <= 0 || o.ResidentFor <= 0 ||
		o.MaxResident <= 0 || o.MaxPayload <= 0 || o.PollInterval <= 0 || o.ProgressEvery <= 0 || o.Log == nil || o.Kernel.Log == nil {
		t.Errorf("a zero option has no default: %+v", o)
	}
	if o := (Options{MaxResident: -1}).withDefaults(); o.MaxResident != -1 {
		t.Errorf("MaxResident -1 became %d", o.MaxResident)
	}
}

func TestOwnersDiffer(t *testing.T) {
	a, b := New(nil, nil, Options{Name: "same"}), New(nil, nil, Options{Name: "same"})
	if a.Owner() == b.Owner() {
		t.Errorf("two incarnations are called %q", a.Owner())
	}
}
