package history_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/perdure/perdure/history"
)

func TestHandleLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		retention := time.Duration(rapid.Int64Range(1, int64(200*365*24*time.Hour)).Draw(t, "retention"))
		age := time.Duration(rapid.Int64Range(0, int64(90*365*24*time.Hour)).Draw(t, "age"))
		life := history.HandleLife(retention, age)
		if life != math.MaxInt64 && (life-retention < age || life%retention != 0) {
			t.Fatalf("%s at age %s gives %s", retention, age, life)
		}
		// It is the checklist's formula, wherever floating point can tell.
		exponent := math.Log2(float64(age)/float64(retention) + 1)
		if exact := math.Abs(exponent-math.Round(exponent)) > 1e-9; exact && life != math.MaxInt64 && life != retention<<int(math.Ceil(exponent)) {
			t.Fatalf("%s at age %s gives %s, the exponent is %g", retention, age, life, exponent)
		}
		// A client that saw the life at some age is told of the next one before that has passed.
		if later := history.HandleLife(retention, life); later <= life && life < math.MaxInt64/2 {
			t.Fatalf("at age %s it is still %s", life, later)
		}
		if history.HandleLife(retention, age+1) < life {
			t.Fatal("it shrinks")
		}
	})
	if history.HandleLife(0, time.Hour) != 0 {
		t.Error("unlimited retention has a limit")
	}
	for age, want := range map[time.Duration]time.Duration{0: 1, time.Hour: 2, time.Hour + 1: 4, 3 * time.Hour: 4, 7*time.Hour + 1: 16} {
		if got := history.HandleLife(time.Hour, age); got != want*time.Hour {
			t.Errorf("at age %s: %s, want %d h", age, got, want)
		}
	}
}

func ended(age time.Duration, spec history.Spec) *history.Run {
	spec.CreatedAt = at
	return &history.Run{Spec: spec, State: history.State{Status: history.StatusFailed, ClosedAt: at.Add(age)}}
}

// A run is never deleted before the end of its retention, nor before the end of the handle that its client was shown.
func TestExpires(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		name string
		run  *history.Run
		want history.Time
	}{
		{"by its retention", ended(3*hour, history.Spec{Retention: hour}), at.Add(4 * hour)},
		{"by its handle", ended(3*hour, history.Spec{Retention: hour, TaskID: "t"}), at.Add(4 * hour)},
		{"by its handle, the next power", ended(3*hour+1, history.Spec{Retention: hour, TaskID: "t"}), at.Add(8 * hour)},
		{"in whole milliseconds", ended(0, history.Spec{Retention: 1, TaskID: "t"}), at.Add(time.Millisecond)},
		{"never", ended(hour, history.Spec{TaskID: "t"}), 0},
		{"by the policy", ended(hour, history.Spec{Workflow: "w"}), at.Add(3 * hour)},
		{"by its start before the policy", ended(hour, history.Spec{Workflow: "w", Retention: hour}), at.Add(2 * hour)},
		{"never: no rule fits", ended(hour, history.Spec{Workflow: "x"}), 0},
		{"a retention that overflows", ended(hour, history.Spec{Retention: math.MaxInt64}), math.MaxInt64},
		{"a handle that overflows", ended(hour, history.Spec{Retention: math.MaxInt64, TaskID: "t"}), math.MaxInt64},
		{"never: it is not over", &history.Run{Spec: history.Spec{Retention: hour}, State: history.State{Status: history.StatusReady}}, 0},
	} {
		policy := history.RetentionPolicy{{Workflow: "w", Keep: 2 * hour}}
		if got := policy.Expires(c.run); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestPolicyTakesTheFirstRuleThatFits(t *testing.T) {
	acme := "acme"
	p := history.RetentionPolicy{{Tenant: &acme, Workflow: "w", Keep: 1}, {Tenant: &acme, Keep: 2}, {Workflow: "w", Keep: 3}, {Keep: 4}}
	for _, c := range []struct {
		tenant, workflow string
		want             time.Duration
	}{{"acme", "w", 1}, {"acme", "x", 2}, {"", "w", 3}, {"", "x", 4}} {
		if got := p.For(c.tenant, c.workflow).Keep; got != c.want {
			t.Errorf("tenant %q, workflow %q: rule %d, want %d", c.tenant, c.workflow, got, c.want)
		}
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	if err := append(p, history.RetentionRule{KeepTombstones: -1}).Check(); !errors.Is(err, history.ErrInvalid) {
		t.Errorf("a negative figure gives %v", err)
	}
}

func TestHoldNamesOneThing(t *testing.T) {
	acme := "acme"
	for _, h := range []history.Hold{
		{Scope: history.HoldRun, Run: runA, Workflow: "w"},
		{Scope: history.HoldRun},
		{Scope: history.HoldWorkflow},
		{Scope: history.HoldTenant},
		{Scope: history.HoldTenant, Tenant: &acme, Workflow: "w"},
		{Scope: "everything"},
	} {
		h.By, h.Reason = "counsel", "case 7"
		if err := h.Check(); !errors.Is(err, history.ErrInvalid) {
			t.Errorf("%+v: %v", h, err)
		}
	}
	h := history.Hold{Scope: "of a later version"}
	if !h.Holds(runA, "", "w") {
		t.Error("a hold of an unknown scope holds nothing")
	}
}
