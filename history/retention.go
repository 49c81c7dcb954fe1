package history

import (
	"fmt"
	"math"
	"time"
)

// Forever, as the retention of a start, keeps a run for ever whatever a policy says, where its client is shown a handle. It is
// recorded as 0.
const Forever time.Duration = -1

// HandleLife returns how long after its creation a task can be read, given the run's retention and its age: its
// present age where it is alive, its age at the end where it is over. Zero retention is for ever, and so is the answer.
//
// It is retention × 2^⌈log2(age/retention + 1)⌉, that is the smallest retention × 2^k that covers age + retention. So
// it is never short, and changes rarely: a live run's handle never runs out, and a client that keeps the value that
// it saw last learns of the extension before that value has passed. It is derived, never stored.
func HandleLife(retention, age time.Duration) time.Duration {
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

// Expires returns the instant from which a run that is over may be deleted, by what was promised at its start; zero
// means never, or that only a policy says. A front end showed the run's client a handle that lives for HandleLife, in
// whole milliseconds, and the run is there as long; any other run is kept for its retention after its end.
func (r *Run) Expires() Time {
	switch {
	case !r.Status.Terminal() || r.Retention <= 0:
		return 0
	case r.TaskID == "":
		return r.ClosedAt.Add(r.Retention)
	}
	life := HandleLife(r.Retention, r.ClosedAt.Sub(r.CreatedAt))
	if rest := life % time.Millisecond; rest > 0 && life < math.MaxInt64-time.Millisecond {
		life += time.Millisecond - rest
	}
	return r.CreatedAt.Add(life)
}

// LeftToPolicy reports whether a policy decides how long the run is kept after its end. A run whose client was shown a
// handle without an end is not: it is kept for ever.
func (s *Spec) LeftToPolicy() bool { return s.Retention <= 0 && s.TaskID == "" }

// RetentionRule says how long the finished runs of a tenant and workflow are kept, where their starts did not.
type RetentionRule struct {
	// Tenant and Workflow say which runs the rule is for; nil and "" mean all.
	Tenant   *string `json:"tenant,omitempty"`
	Workflow string  `json:"workflow,omitempty"`
	// Keep is the time from a run's end to its deletion, for runs whose start named none; 0 means for ever.
	Keep time.Duration `json:"keep"`
	// ExportFirst forbids the deletion until an export receipt is there, also where the start named a retention.
	ExportFirst bool `json:"exportFirst,omitempty"`
	// KeepTombstones is the time from a run's deletion to the purge of its tombstone, which also needs an export receipt;
	// 0 means for ever.
	KeepTombstones time.Duration `json:"keepTombstones,omitempty"`
	// KeepGenerations is the time from the end of a generation of a run that goes on (continue-as-new) until the events
	// before it are pruned; 0 means for ever. With ExportFirst the run must have been exported since.
	KeepGenerations time.Duration `json:"keepGenerations,omitempty"`
}

// RetentionPolicy is a list of rules; the first that fits a run counts. A run that none fits is kept as its start says.
type RetentionPolicy []RetentionRule

// For returns the rule for the runs of a tenant and workflow; the zero rule where none fits.
func (p RetentionPolicy) For(tenant, workflow string) RetentionRule {
	for _, r := range p {
		if (r.Tenant == nil || *r.Tenant == tenant) && (r.Workflow == "" || r.Workflow == workflow) {
			return r
		}
	}
	return RetentionRule{}
}

// Check refuses a policy with negative figures. Its error matches ErrInvalid.
func (p RetentionPolicy) Check() error {
	for i, r := range p {
		if r.Keep < 0 || r.KeepTombstones < 0 || r.KeepGenerations < 0 {
			return fmt.Errorf("retention rule %d: keep %s, keep tombstones %s and keep generations %s must not be negative: %w",
				i+1, r.Keep, r.KeepTombstones, r.KeepGenerations, ErrInvalid)
		}
	}
	return nil
}

// Expires returns the instant from which a run that is over may be deleted: by its start, or by the policy where that
// decides; zero means never.
func (p RetentionPolicy) Expires(r *Run) Time {
	if !r.LeftToPolicy() {
		return r.Expires()
	}
	if keep := p.For(r.Tenant, r.Workflow).Keep; keep > 0 && r.Status.Terminal() {
		return r.ClosedAt.Add(keep)
	}
	return 0
}
