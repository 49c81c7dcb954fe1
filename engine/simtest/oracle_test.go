package simtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// oracle knows what was promised to whom, and what has happened. It sees each request where it reaches the store
// (claimed, committed, delivered …), each reply where it reaches a caller (told, ackStart …), and after each request
// what has changed (look).
type oracle struct {
	w          *world
	violations []string

	byKey  map[string]history.RunID
	runs   map[history.RunID]*record
	order  []history.RunID // as they were first seen
	dirty  map[history.RunID]bool
	newest history.Token
	// written is the time of the newest write: no opening may show an earlier one.
	written history.Time
	leases  map[history.RunID]lease
	// effects counts the times that steps were entered, by idempotency key and attempt; steps says whose keys they are.
	effects map[string]map[uint32]int
	steps   map[string]string
	asks    []question
}

type lease struct {
	token   history.Token
	owner   string
	expires history.Time
}

// record is what the oracle knows of a run.
type record struct {
	name   string
	run    history.Run
	task   task
	events []history.Event
	heads  map[uint64]history.Digest
	paused bool
	gone   bool
	// canceled says that a cancel request was accepted.
	canceled bool

	items     map[uint64]history.InboxItem
	itemAt    history.Time
	consumed  map[uint64]uint64 // item → event
	open      map[history.Position]history.Event
	closed    map[history.Position]bool
	entered   map[history.Position]bool
	signals   map[string]string // accepted, by id
	acked     map[string]string // acknowledged, by id
	questions map[string]history.Event
	answers   map[string][]byte // accepted, by key
}

func (r *record) over() bool { return r.run.Status.Terminal() }

func newOracle(w *world) *oracle {
	return &oracle{
		w: w, byKey: map[string]history.RunID{}, runs: map[history.RunID]*record{}, dirty: map[history.RunID]bool{},
		leases: map[history.RunID]lease{}, effects: map[string]map[uint32]int{}, steps: map[string]string{},
	}
}

func (o *oracle) fail(rule, format string, args ...any) {
	text := rule + ": " + fmt.Sprintf(format, args...)
	o.violations = append(o.violations, text)
	o.w.note("VIOLATION %s", text)
}

func (o *oracle) name(id history.RunID) string {
	if r := o.runs[id]; r != nil {
		return r.name
	}
	return id.String()
}

// opened is told that the store was opened: no lease is left, and its time is not before the newest write.
func (o *oracle) opened() {
	clear(o.leases)
	o.w.shown = o.written
	o.w.store.Subscribe(func(c engine.Change) { o.dirty[c.Run] = true })
}

// claimed: a claim's token is newer than all before, and its run has no other holder.
func (o *oracle) claimed(req *history.ClaimRequest, cs []history.Claim, err error) {
	if err != nil {
		return
	}
	now := o.w.storeNow()
	for _, c := range cs {
		r := o.record(c.Run.ID)
		if c.Token.Compare(o.newest) <= 0 {
			o.fail("tokens grow", "%s is claimed under %s, %s was given out before", r.name, c.Token, o.newest)
		}
		if l, held := o.leases[c.Run.ID]; held {
			o.fail("one holder", "%s is claimed by %s while %s holds it until %s (it is %s)", r.name, req.Owner, l.owner, l.expires, now)
		}
		if r.over() || r.paused {
			o.fail("one holder", "%s is claimed, and it is %s", r.name, r.run.Status)
		}
		waiting := len(r.items) - len(r.consumed)
		if len(c.Inbox) != waiting {
			o.fail("nothing lost", "%s is claimed with %d inbox items, %d were accepted and not consumed", r.name, len(c.Inbox), waiting)
		}
		o.w.note("%s holds %s under %s", req.Owner, r.name, c.Token)
		o.newest = c.Token
		o.leases[c.Run.ID] = lease{c.Token, req.Owner, now.Add(req.TTL)}
	}
}

func (o *oracle) renewed(held map[history.RunID]history.Token) {
	until := o.w.storeNow().Add(leaseTTL)
	for id, l := range o.leases {
		if held[id] == l.token {
			l.expires = max(l.expires, until)
			o.leases[id] = l
		}
	}
}

func (o *oracle) expired() {
	now := o.w.storeNow()
	for id, l := range o.leases {
		if l.expires <= now {
			delete(o.leases, id)
		}
	}
}

func (o *oracle) released(id history.RunID, token history.Token, err error) {
	l, held := o.leases[id]
	switch {
	case err == nil && (!held || l.token != token):
		o.fail("fencing", "%s is released under the stale token %s", o.name(id), token)
	case err == nil:
		delete(o.leases, id)
	}
}

// committed: only the holder of the newest claim commits, after the newest event, and not while the run is paused.
func (o *oracle) committed(b *history.Batch, st history.State, err error) {
	r := o.record(b.Run)
	l, held := o.leases[b.Run]
	holder := held && l.token == b.Token
	switch {
	case err != nil && (errors.Is(err, history.ErrInvalid) || errors.Is(err, history.ErrConflict)):
		o.fail("batches fit", "%s of %s: %v", b.Token, r.name, err)
	case err != nil && errors.Is(err, history.ErrFenced) && holder && !r.over():
		o.fail("fencing", "the holder of %s is fenced: %v", r.name, err)
	case err != nil:
	case !holder:
		o.fail("fencing", "%s takes a batch under the stale token %s", r.name, b.Token)
	case r.paused:
		o.fail("pause", "%s takes a batch while it is paused", r.name)
	case b.After != r.run.Seq || b.Head != r.run.Head || st.Seq != b.After+uint64(len(b.Events)):
		o.fail("one history", "%s takes a batch after event %d, its newest is %d, and is then at %d", r.name, b.After, r.run.Seq, st.Seq)
	case b.Next != history.NextRunning:
		delete(o.leases, b.Run)
	}
	if err == nil {
		o.passedOn(b)
	}
}

// passedOn: a cancel reaches the children in the commit that records it.
func (o *oracle) passedOn(b *history.Batch) {
	for _, id := range b.Cancels {
		child, err := o.w.store.Run(context.Background(), id)
		if err == nil && !child.Status.Terminal() && child.CancelRequested.IsZero() {
			o.fail("parent and child", "%s is canceled, its child %s is not", o.name(b.Run), o.name(id))
		}
	}
}

// told: what is acknowledged is in the history.
func (o *oracle) told(b *history.Batch, st history.State) {
	if r := o.record(b.Run); !r.gone && r.heads[st.Seq] != st.Head {
		o.fail("nothing lost", "%s acknowledged event %d with another head than it has", r.name, st.Seq)
	}
}

func (o *oracle) started(s *history.Start, run *history.Run, existed bool, err error) {
	old, known := o.byKey[s.Spec.Key]
	gone := known && o.runs[old].gone
	clash := known && s.Signal != nil && o.runs[old].signals[s.Signal.Key] != "" && o.runs[old].signals[s.Signal.Key] != string(s.Signal.Payload)
	same := !known || bytes.Equal(s.Input, o.runs[old].task.encode())
	switch {
	case !same:
		if !errors.Is(err, history.ErrConflict) {
			o.fail("idempotent start", "key %s: another input is answered with %v", s.Spec.Key, err)
		}
	case gone:
		if !errors.Is(err, history.ErrExpired) {
			o.fail("idempotent start", "key %s of a deleted run: answered with %v", s.Spec.Key, err)
		}
	case clash:
		if !errors.Is(err, history.ErrConflict) {
			o.fail("idempotent start", "key %s with a signal whose id is taken: answered with %v", s.Spec.Key, err)
		}
	case err != nil:
		o.fail("idempotent start", "key %s: %v", s.Spec.Key, err)
	case existed != known || known && run.ID != old:
		o.fail("idempotent start", "key %s: run %s (existed: %v), known is %s", s.Spec.Key, run.ID, existed, old)
	case !known:
		o.byKey[s.Spec.Key] = run.ID
	}
	if err == nil && s.Signal != nil {
		d := engine.Delivered
		if r := o.runs[run.ID]; r != nil && r.signals[s.Signal.Key] != "" {
			d = engine.Duplicate
		}
		o.record(run.ID)
		o.delivered(run.ID, s.Signal, d, nil)
	}
}

func (o *oracle) ackStart(key string, id history.RunID) {
	if o.byKey[key] != id {
		o.fail("idempotent start", "key %s: %s is acknowledged, the run is %s", key, id, o.byKey[key])
	}
}

// delivered: an id is accepted once, whatever became of the run.
func (o *oracle) delivered(id history.RunID, item *history.InboxItem, d engine.Delivery, err error) {
	r := o.record(id)
	was, known := r.signals[item.Key]
	payload := string(item.Payload)
	switch {
	case r.gone:
		if !errors.Is(err, history.ErrNotFound) {
			o.fail("signals", "%s is deleted and takes signal %s: %v", r.name, item.Key, err)
		}
	case known && was != payload:
		if !errors.Is(err, history.ErrConflict) {
			o.fail("signals", "%s takes signal %s with another payload: %v", r.name, item.Key, err)
		}
	case err != nil:
		o.fail("signals", "signal %s to %s: %v", item.Key, r.name, err)
	case known != (d == engine.Duplicate):
		o.fail("signals", "signal %s to %s is a %s, accepted before: %v", item.Key, r.name, d, known)
	case !known:
		r.signals[item.Key] = payload
	}
}

func (o *oracle) ackSignal(id history.RunID, item *history.InboxItem) {
	o.runs[id].acked[item.Key] = string(item.Payload)
}

// answered: the first answer wins, and none at or after the deadline.
func (o *oracle) answered(q question, item *history.InboxItem, err error) {
	r := o.runs[q.run]
	if err != nil {
		return
	}
	asked := r.questions[q.key]
	_, before := r.answers[q.key]
	switch {
	case before:
		o.fail("first answer wins", "question %s of %s takes a second answer", q.key, r.name)
	case !asked.Due.IsZero() && o.w.storeNow() >= asked.Due:
		o.fail("first answer wins", "question %s of %s takes an answer at %s, due at %s", q.key, r.name, o.w.storeNow(), asked.Due)
	case r.over():
		o.fail("first answer wins", "question %s of %s takes an answer after the end", q.key, r.name)
	}
	r.answers[q.key] = item.Payload
}

func (o *oracle) ackAnswer(q question, payload []byte) {
	if r := o.runs[q.run]; !bytes.Equal(r.answers[q.key], payload) {
		o.fail("first answer wins", "%s of %s: acknowledged %s, accepted %s", q.key, r.name, payload, r.answers[q.key])
	}
}

// ackEnd: what an operator asked for, and is told, has happened.
func (o *oracle) ackEnd(op string, id history.RunID, run *history.Run) {
	asked := run.Status.Terminal() || op == "cancel" && !run.CancelRequested.IsZero() || op == "pause" && run.Status == history.StatusPaused
	if op != "resume" && !asked {
		o.fail("operator", "%s of %s is acknowledged, it is %s", op, o.name(id), run.Status)
	}
}

// deleted: only runs that are over go, after their retention.
func (o *oracle) deleted(id history.RunID) {
	r := o.record(id)
	if !r.over() || r.run.Retention == 0 || r.run.ClosedAt.Add(r.run.Retention) > o.w.storeNow() {
		o.fail("retention", "%s is deleted: it is %s, closed at %s, its retention is %s", r.name, r.run.Status, r.run.ClosedAt, r.run.Retention)
	}
	r.gone = true
	o.w.trace.seen["deleted"]++
}

// entered is told that a step begins. Its function runs on the loop's goroutine.
func (o *oracle) entered(ctx context.Context, atMostOnce bool) {
	info := workflow.StepInfo(ctx)
	r := o.record(info.Run)
	pos := info.Position
	whose := r.name + " " + string(pos)
	if was, known := o.steps[info.IdempotencyKey]; known && was != whose {
		o.fail("idempotency keys", "%s has the key of %s", whose, was)
	}
	o.steps[info.IdempotencyKey] = whose
	if o.effects[info.IdempotencyKey] == nil {
		o.effects[info.IdempotencyKey] = map[uint32]int{}
	}
	o.effects[info.IdempotencyKey][info.Attempt]++
	n := o.effects[info.IdempotencyKey][info.Attempt]
	o.w.note("effect of %s, attempt %d, entered %d times", whose, info.Attempt, n)
	r.entered[pos] = true
	if n > 1 {
		o.w.trace.seen["step entered again"]++
	}
	l, held := o.leases[info.Run]
	newest := held && l.token == info.Token
	switch {
	case atMostOnce && n > 1:
		o.fail("at most once", "attempt %d of %s is entered %d times", info.Attempt, whose, n)
	case newest && r.closed[pos]:
		o.fail("results stand", "%s is entered by the run's holder, its result is recorded", whose)
	case newest && atMostOnce && r.open[pos].Kind != history.StepStarted:
		o.fail("commit before effect", "%s is entered, its beginning is not recorded", whose)
	}
}

// record is the record of a run; the first look makes it.
func (o *oracle) record(id history.RunID) *record {
	if r := o.runs[id]; r != nil {
		return r
	}
	r := &record{
		name: fmt.Sprintf("r%d", len(o.order)), heads: map[uint64]history.Digest{}, items: map[uint64]history.InboxItem{},
		consumed: map[uint64]uint64{}, open: map[history.Position]history.Event{}, closed: map[history.Position]bool{},
		entered: map[history.Position]bool{}, signals: map[string]string{}, acked: map[string]string{},
		questions: map[string]history.Event{}, answers: map[string][]byte{},
	}
	o.runs[id] = r
	o.order = append(o.order, id)
	return r
}

// look reads what the last request changed, and judges it.
func (o *oracle) look() {
	for len(o.dirty) > 0 {
		ids := sortedKeys(o.dirty)
		clear(o.dirty)
		o.written = o.w.storeNow()
		for _, id := range ids {
			o.lookAt(id)
		}
	}
}

func (o *oracle) lookAt(id history.RunID) {
	ctx, s := context.Background(), o.w.store
	r := o.record(id)
	if r.gone {
		return
	}
	run, err := s.Run(ctx, id)
	if err != nil {
		o.fail("nothing lost", "%s cannot be read: %v", r.name, err)
		return
	}
	was := r.run
	if was.Status.Terminal() && (run.Status != was.Status || run.Seq != was.Seq) {
		o.fail("the end is final", "%s was %s at event %d and is %s at event %d", r.name, was.Status, was.Seq, run.Status, run.Seq)
	}
	if run.Seq < was.Seq {
		o.fail("nothing lost", "%s goes back from event %d to %d", r.name, was.Seq, run.Seq)
	}
	if run.Status == history.StatusBlocked {
		o.fail("replay", "%s is blocked: %s", r.name, run.Reason)
	}
	r.run = run
	r.heads[run.Seq] = run.Head
	o.lookAtInbox(id, r)
	events, err := s.History(ctx, id, was.Seq+1, 10_000)
	if err != nil {
		o.fail("nothing lost", "the history of %s: %v", r.name, err)
		return
	}
	for i := range events {
		o.happened(r, &events[i])
		r.events = append(r.events, events[i])
	}
	if run.Status.Terminal() || run.Status == history.StatusPaused {
		delete(o.leases, id)
	}
	o.w.note("%s is %s at event %d, head %x", r.name, run.Status, run.Seq, run.Head[:4])
}

// lookAtInbox notes the new items.
func (o *oracle) lookAtInbox(id history.RunID, r *record) {
	items, _, err := o.w.store.Inbox(context.Background(), id, 0)
	if err != nil {
		o.fail("nothing lost", "the inbox of %s: %v", r.name, err)
		return
	}
	if r.over() {
		dead, err := o.w.store.DeadLetters(context.Background(), id)
		if err != nil {
			o.fail("nothing lost", "the dead letters of %s: %v", r.name, err)
			return
		}
		items = dead
	}
	for _, i := range items {
		if _, known := r.items[i.Seq]; known {
			continue
		}
		if i.AcceptedAt < r.itemAt || i.AcceptedAt > o.w.storeNow() {
			o.fail("order of acceptance", "item %d of %s is accepted at %s, the one before at %s", i.Seq, r.name, i.AcceptedAt, r.itemAt)
		}
		if i.Kind == history.InboxCancel && r.canceled {
			o.fail("operator", "%s takes a second cancel request", r.name)
		}
		r.canceled = r.canceled || i.Kind == history.InboxCancel
		r.items[i.Seq], r.itemAt = i, i.AcceptedAt
	}
}

// happened judges one new event against all that was before it.
func (o *oracle) happened(r *record, e *history.Event) {
	now := o.w.storeNow()
	if e.At > now {
		o.fail("clock", "event %d of %s is of %s, it is %s", e.Seq, r.name, e.At, now)
	}
	opened, isOpen := r.open[e.Position]
	o.w.trace.seen["event: "+e.Kind.String()]++
	if e.Inbox != 0 {
		o.consumes(r, e)
	}
	switch e.Kind {
	case history.RunStarted, history.RunContinued:
		clear(r.open)
		clear(r.closed)
		clear(r.entered)
		if e.Kind == history.RunContinued {
			break
		}
		if err := json.Unmarshal(e.Payload, &r.task); err != nil {
			o.fail("nothing lost", "the input of %s: %v", r.name, err)
		}
	case history.TimerFired:
		o.notEarly(r, e, opened.Due)
	case history.ReceiveTimedOut:
		limit := e.At
		if isOpen {
			limit = opened.Due
			o.notEarly(r, e, opened.Due)
		}
		for seq, i := range r.items {
			if _, taken := r.consumed[seq]; !taken && i.Kind == history.InboxSignal && i.AcceptedAt < limit {
				o.fail("in time wins", "event %d of %s times a receive out, signal %q was accepted at %s, before %s", e.Seq, r.name, i.Key, i.AcceptedAt, limit)
			}
		}
	case history.SignalReceived:
		item := r.items[e.Inbox]
		if isOpen && !opened.Due.IsZero() && item.AcceptedAt >= opened.Due {
			o.fail("in time wins", "event %d of %s receives a signal of %s, due was %s", e.Seq, r.name, item.AcceptedAt, opened.Due)
		}
		for seq, i := range r.items {
			if _, taken := r.consumed[seq]; !taken && i.Kind == history.InboxSignal && seq < e.Inbox {
				o.fail("order of acceptance", "event %d of %s receives item %d before item %d", e.Seq, r.name, e.Inbox, seq)
			}
		}
	case history.InterruptOpened:
		if _, twice := r.questions[e.Key]; twice {
			o.fail("first answer wins", "%s asks under key %s again", r.name, e.Key)
		}
		r.questions[e.Key] = *e
		o.asks = append(o.asks, question{o.idOf(r), e.Key})
	case history.InterruptAnswered:
		if !bytes.Contains(r.answers[opened.Key], e.Payload) {
			o.fail("first answer wins", "event %d of %s has answer %s, accepted was %s", e.Seq, r.name, e.Payload, r.answers[opened.Key])
		}
	case history.InterruptTimedOut:
		o.notEarly(r, e, opened.Due)
		if a, ok := r.answers[opened.Key]; ok {
			o.fail("first answer wins", "question %s of %s times out, it was answered with %s", opened.Key, r.name, a)
		}
	case history.StepCompleted:
		if !r.entered[e.Position] && e.By == "" {
			o.fail("results stand", "%s of %s has a result and was never entered", e.Position, r.name)
		}
	case history.DeadlineExceeded:
		o.notEarly(r, e, r.run.Deadline)
	case history.OperatorActed:
		switch e.Name {
		case history.VerbPause:
			r.paused = true
		case history.VerbResume:
			r.paused = false
		}
	}
	switch {
	case e.Kind.OfRun():
	case e.Kind.Closes():
		if r.closed[e.Position] {
			o.fail("results stand", "event %d of %s (%s) closes %s again", e.Seq, r.name, e.Kind, e.Position)
		}
		delete(r.open, e.Position)
		r.closed[e.Position] = true
	case e.Kind == history.StepRetried || e.Kind == history.BranchesDecided:
	default:
		r.open[e.Position] = *e
	}
}

func (o *oracle) idOf(r *record) history.RunID { return r.run.ID }

func (o *oracle) notEarly(r *record, e *history.Event, due history.Time) {
	if due.IsZero() || e.At < due {
		o.fail("never early", "event %d of %s (%s) is of %s, due at %s", e.Seq, r.name, e.Kind, e.At, due)
	}
}

// consumes: an event takes an item that was accepted, as it was accepted, once.
func (o *oracle) consumes(r *record, e *history.Event) {
	item, known := r.items[e.Inbox]
	switch by, twice := r.consumed[e.Inbox]; {
	case !known:
		o.fail("nothing twice", "event %d of %s takes item %d, which was not accepted", e.Seq, r.name, e.Inbox)
	case twice:
		o.fail("nothing twice", "event %d of %s takes item %d, which event %d took", e.Seq, r.name, e.Inbox, by)
	case e.Kind == history.SignalReceived && (item.Key != e.Key || !bytes.Equal(item.Payload, e.Payload)):
		o.fail("nothing lost", "event %d of %s receives %s %s, accepted was %s %s", e.Seq, r.name, e.Key, e.Payload, item.Key, item.Payload)
	}
	r.consumed[e.Inbox] = e.Seq
}

func (o *oracle) asked() []question { return o.asks }

// children are the runs that a run has started, as far as it is known.
func (o *oracle) children(id history.RunID) (ids []history.RunID) {
	for _, c := range o.order {
		if o.runs[c].run.Parent == id && !o.runs[c].gone {
			ids = append(ids, c)
		}
	}
	return ids
}

// undecided are the at-most-once steps of a run that wait for an operator.
func (o *oracle) undecided(id history.RunID) (steps []history.Position) {
	r := o.runs[id]
	if r.run.Status != history.StatusWaiting || r.run.Reason == "" {
		return nil
	}
	for pos, e := range r.open {
		if e.Kind == history.StepStarted {
			steps = append(steps, pos)
		}
	}
	slices.Sort(steps)
	return steps
}

// settled reports whether every run is over.
func (o *oracle) settled() bool {
	for _, r := range o.runs {
		if !r.over() {
			return false
		}
	}
	return o.w.now > healAt+5*time.Minute // and nothing that was late is still under way
}
