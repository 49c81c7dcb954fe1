package worker

import (
	"slices"
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
			unload(r.put(id, x))
		}
		one := r.take(history.RunID{1}) // used: now 2 is the oldest
		unload(r.put(history.RunID{1}, one))
		id, x := parked(t, &gone, 3)
		unload(r.put(id, x))
		if !slices.Equal(gone, []byte{2}) {
			t.Errorf("unloaded %v, want 2", gone)
		}
		if r.take(history.RunID{2}) != nil {
			t.Error("an unloaded execution is still there")
		}
		r.unloadAll()
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
			unload(r.put(id, x))
			time.Sleep(40 * time.Second)
		}
		r.unloadIdle(time.Now())
		if !slices.Equal(gone, []byte{1, 2}) {
			t.Errorf("unloaded %v, want 1 and 2: idle for 120 s and 80 s of 60", gone)
		}
		r.unloadAll()
	})
}

func TestNoResidents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone []byte
		r := newResidents(-1, time.Minute)
		id, x := parked(t, &gone, 1)
		unload(r.put(id, x))
		if len(gone) != 1 || r.take(id) != nil {
			t.Errorf("it was kept")
		}
	})
}

func TestResidentOfAnEndedRunIsDroppedOnTheSide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone []byte
		r := newResidents(10, time.Minute)
		id, x := parked(t, &gone, 1)
		unload(r.put(id, x))
		r.drop(id)
		r.drop(id)
		r.unloadAll() // waits for it
		if len(gone) != 1 {
			t.Errorf("unloaded %v", gone)
		}
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
