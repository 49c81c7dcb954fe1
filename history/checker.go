package history

import (
	"fmt"
	"reflect"
	"slices"
)

// Facts is what a store keeps of one run beside its events, all read at one instant.
type Facts struct {
	Run       Run
	Timers    []Timer
	Questions []Interrupt // the open ones
	Inbox     []InboxItem // in order, not consumed
	Dead      []InboxItem // in order: consumed by no event, before or after the end
	// Child returns the status of the run with that id; ok is false where there is none.
	Child func(id string) (status Status, ok bool)
}

// Check compares what the store keeps of a run with its replayed history. It may be called once all events were added.
func (r *Replay) Check(f *Facts) []Finding {
	r.checkState(&f.Run)
	r.checkInbox(f)
	r.checkQuestions(f)
	switch {
	case f.Run.Status.Terminal():
		r.checkTerminal(f)
	case f.Run.Status == StatusWaiting:
		r.checkWaiting(f)
	}
	return r.found
}

// checkState compares the stored state with the projection of the events.
func (r *Replay) checkState(run *Run) {
	got, want := &run.State, &r.state
	for _, p := range []struct {
		field     string
		got, want any
	}{
		{"seq", got.Seq, want.Seq},
		{"head", got.Head, want.Head},
		{"bytes", got.Bytes, want.Bytes},
		{"generation", got.Generation, want.Generation},
		{"generation seq", got.GenerationSeq, want.GenerationSeq},
		{"message", got.Message, want.Message},
		{"closed at", got.ClosedAt, want.ClosedAt},
		{"failure", got.Failure, want.Failure},
		{"terminal", got.Status.Terminal(), want.Status.Terminal()},
		{"paused", got.Status == StatusPaused, want.Status == StatusPaused},
	} {
		if p.field == "bytes" && r.erased > 0 && got.Bytes > want.Bytes {
			continue // it counts what was erased
		}
		if !reflect.DeepEqual(p.got, p.want) {
			r.find(RuleProjection, "%s is %v, the events give %v", p.field, p.got, p.want)
		}
	}
	if want.Status.Terminal() && got.Status != want.Status {
		r.find(RuleProjection, "status is %s, the events give %s", got.Status, want.Status)
	}
	if got.UpdatedAt < want.UpdatedAt {
		r.find(RuleProjection, "updated at %s, an event that a client sees is of %s", got.UpdatedAt, want.UpdatedAt)
	}
	if r.canceled && got.CancelRequested.IsZero() {
		r.find(RuleProjection, "the history has a cancel request, the state has none")
	}
	if r.chain.Seq == 0 {
		r.find(RuleChain, "the run has no events")
	}
	if !slices.Contains(Statuses(), got.Status) {
		r.find(RuleProjection, "%s is unknown", got.Status)
	}
}

// checkInbox proves that each item is either in the inbox, or consumed by one event, or dead.
func (r *Replay) checkInbox(f *Facts) {
	fates := make(map[uint64]string, len(f.Inbox)+len(f.Dead))
	fate := func(seq uint64, is string) {
		if was, twice := fates[seq]; twice {
			r.find(RuleInbox, "item %d is %s and %s", seq, was, is)
		}
		fates[seq] = is
	}
	for seq, by := range r.consumed {
		if r.base.consumed(seq) {
			r.find(RuleInbox, "item %d was consumed by a pruned event and by event %d", seq, by)
		}
		fate(seq, fmt.Sprintf("consumed by event %d", by))
		if seq > f.Run.InboxHead {
			r.find(RuleInbox, "event %d consumed item %d, the newest is %d", by, seq, f.Run.InboxHead)
		}
	}
	for _, part := range []struct {
		items []InboxItem
		is    string
	}{{f.Inbox, "in the inbox"}, {f.Dead, "dead"}} {
		var before InboxItem
		for _, i := range part.items {
			fate(i.Seq, part.is)
			if r.base.consumed(i.Seq) {
				r.find(RuleInbox, "item %d is %s and was consumed by a pruned event", i.Seq, part.is)
			}
			if i.Seq <= before.Seq || i.AcceptedAt < before.AcceptedAt {
				r.find(RuleInbox, "item %d of %s follows item %d of %s", i.Seq, i.AcceptedAt, before.Seq, before.AcceptedAt)
			}
			before = i
		}
	}
	for seq := uint64(1); seq <= f.Run.InboxHead; seq++ {
		if fates[seq] == "" && !r.base.consumed(seq) {
			r.find(RuleInbox, "item %d of %d has no fate", seq, f.Run.InboxHead)
		}
	}
	if f.Run.InboxSeen > f.Run.InboxHead {
		r.find(RuleInbox, "item %d was seen, the newest is %d", f.Run.InboxSeen, f.Run.InboxHead)
	}
	for _, i := range f.Inbox {
		if i.Seq > f.Run.InboxHead {
			r.find(RuleInbox, "item %d is above the newest, %d", i.Seq, f.Run.InboxHead)
		}
		if i.Kind == InboxCancel && f.Run.CancelRequested.IsZero() {
			r.find(RuleProjection, "the inbox has a cancel request, the state has none")
		}
	}
}

// checkQuestions compares the open questions with those that events opened. One whose answer waits in the inbox is open
// for the events and closed for the store.
func (r *Replay) checkQuestions(f *Facts) {
	if len(f.Questions) != f.Run.Questions {
		r.find(RuleQuestion, "%d are open, the state counts %d", len(f.Questions), f.Run.Questions)
	}
	answered := map[string]bool{}
	for _, i := range f.Inbox {
		if i.Kind == InboxAnswer {
			answered[i.Key] = true
		}
	}
	rows := map[string]bool{}
	for i := range f.Questions {
		q := &f.Questions[i]
		rows[q.Key] = true
		switch {
		case !r.questions[q.Key]:
			r.find(RuleQuestion, "%q is open, the events do not open it or close it", q.Key)
		case answered[q.Key]:
			r.find(RuleQuestion, "%q is open and has its answer in the inbox", q.Key)
		}
	}
	if f.Run.Status.Terminal() {
		return
	}
	for key := range r.questions {
		if !rows[key] && !answered[key] {
			r.find(RuleQuestion, "%q was opened by an event and is neither open nor answered", key)
		}
	}
}

func (r *Replay) checkTerminal(f *Facts) {
	if len(f.Timers) > 0 || len(f.Questions) > 0 || len(f.Inbox) > 0 {
		r.find(RuleTerminal, "the run is over and keeps %d timers, %d questions and %d inbox items", len(f.Timers), len(f.Questions), len(f.Inbox))
	}
}

// checkWaiting proves that a waiting run will be woken: each of its open waits has the row that wakes it.
func (r *Replay) checkWaiting(f *Facts) {
	if f.Run.InboxHead > f.Run.InboxSeen {
		r.find(RuleWaiting, "the inbox has item %d, the run has seen %d", f.Run.InboxHead, f.Run.InboxSeen)
	}
	rows := make(map[Timer]bool, len(f.Timers))
	for _, t := range f.Timers {
		rows[t] = true
	}
	can := len(f.Timers) > 0 || len(f.Questions) > 0
	for pos, e := range r.open {
		switch e.Kind {
		case ReceiveOpened, StepStarted: // a step whose outcome nobody knows waits for an operator
			can = true
		case ChildStarted:
			can = true
			r.checkChild(f, &e)
		}
		if !e.Due.IsZero() && !rows[Timer{At: e.Due, Position: pos}] {
			r.find(RuleWaiting, "%q (%s, event %d) is due at %s and has no timer", pos, e.Kind, e.Seq, e.Due)
		}
	}
	if d := f.Run.Deadline; !d.IsZero() && !r.deadline && !rows[Timer{At: d}] {
		r.find(RuleWaiting, "the run's deadline %s has no timer", d)
	}
	if !can {
		r.find(RuleWaiting, "the run waits, and has no timer, question, receive or child")
	}
}

// checkChild proves that the outcome of a child that the run waits for is still to come.
func (r *Replay) checkChild(f *Facts, e *Event) {
	if f.Child == nil {
		return
	}
	status, ok := f.Child(e.Key)
	came := slices.ContainsFunc(f.Inbox, func(i InboxItem) bool { return i.Kind == InboxChild && i.Key == e.Key })
	switch {
	case came:
	case !ok:
		r.find(RuleWaiting, "%q waits for child %s, which is not there", e.Position, e.Key)
	case status.Terminal():
		r.find(RuleWaiting, "%q waits for child %s, which is %s without an outcome in the inbox", e.Position, e.Key, status)
	}
}
