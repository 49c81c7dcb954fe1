package history

import "fmt"

// Replay adds up the events of one run, independently of the store that keeps them, so that [Replay.Check] can compare.
// The zero value is not usable: see [NewReplay].
type Replay struct {
	base  Base // zero where the history is whole
	codec *Codec
	chain Chain
	state State
	// open holds the opening event of each open operation, closed the positions of the current generation that are over.
	open   map[Position]Event
	closed map[Position]bool
	// questions holds, by key, whether a question is open as far as the events tell.
	questions map[string]bool
	// asked is the newest question of an open operation.
	asked map[Position]string
	// consumed tells, by inbox item, which event took it.
	consumed map[uint64]uint64
	// canceled and deadline say that the run took note of a cancel request, or of its deadline.
	canceled, deadline bool
	token              Token
	// erased counts the events whose payload was erased.
	erased int
	found  []Finding
}

// Finding is something in a run that must not be. The rules have stable names.
type Finding struct {
	Rule   Rule
	Detail string
}

// Rule names what a checker checks.
type Rule string

const (
	// RuleChain: the records of a history are gapless, decode, and their digests form a chain.
	RuleChain Rule = "chain"
	// RuleEvents: events follow each other as the kinds allow: one start, nothing after the end, an operation closes once.
	RuleEvents Rule = "events"
	// RuleToken: the tokens of a history never go back.
	RuleToken Rule = "token"
	// RuleProjection: the stored state equals what the events add up to.
	RuleProjection Rule = "projection"
	// RuleWaiting: what a waiting run waits for can come: it has its timer, question, receive or child.
	RuleWaiting Rule = "waiting"
	// RuleQuestion: the open questions are those that events opened and nothing closed.
	RuleQuestion Rule = "question"
	// RuleInbox: each inbox item has one fate, and the items are in order.
	RuleInbox Rule = "inbox"
	// RuleTerminal: a run that is over keeps no timer, question or inbox item.
	RuleTerminal Rule = "terminal"
	// RuleIndex: index rows and records agree, both ways.
	RuleIndex Rule = "index"
	// RuleTombstone: a run is there or has a tombstone, and not both.
	RuleTombstone Rule = "tombstone"
	// RuleRecord: a record cannot be read.
	RuleRecord Rule = "record"
)

// NewReplay returns a replay of no events.
func NewReplay(c *Codec) *Replay {
	return &Replay{
		codec: c, open: map[Position]Event{}, closed: map[Position]bool{}, questions: map[string]bool{},
		asked: map[Position]string{}, consumed: map[uint64]uint64{},
	}
}

// Erased returns how many of the events had their payload erased.
func (r *Replay) Erased() int { return r.erased }

// Seq returns the sequence of the newest event.
func (r *Replay) Seq() uint64 { return r.chain.Seq }

// Add replays the next record. An error says that the rest of the history cannot be judged; lesser findings are
// kept for Check.
func (r *Replay) Add(rec []byte) error {
	e, err := r.chain.Verify(r.codec, rec)
	if err != nil {
		return err
	}
	if err := r.state.Apply(&e, r.chain.Head, len(rec)); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if !e.Token.IsZero() {
		if e.Token.Compare(r.token) < 0 {
			r.find(RuleToken, "event %d has token %s, an earlier one had %s", e.Seq, e.Token, r.token)
		}
		r.token = e.Token
	}
	if e.Inbox != 0 {
		if by, twice := r.consumed[e.Inbox]; twice {
			r.find(RuleInbox, "item %d was consumed by event %d and by event %d", e.Inbox, by, e.Seq)
		}
		r.consumed[e.Inbox] = e.Seq
	}
	if e.PayloadErased {
		r.erased++
	}
	switch e.Kind {
	case CancelRequested:
		r.canceled = true
	case DeadlineExceeded:
		r.deadline = true
	case RunContinued:
		clear(r.open)
		clear(r.closed)
		clear(r.asked)
	case InterruptOpened:
		delete(r.questions, r.asked[e.Position]) // asked anew: the one before is over
		r.questions[e.Key], r.asked[e.Position] = true, e.Key
	}
	if !e.Kind.OfRun() {
		r.operation(e)
	}
	return nil
}

// operation follows the operation at the event's position.
func (r *Replay) operation(e Event) {
	if r.closed[e.Position] {
		r.find(RuleEvents, "event %d (%s) is at %q, which is closed", e.Seq, e.Kind, e.Position)
	}
	if !e.Kind.Closes() {
		e.Payload = nil // not needed, and it may be large
		r.open[e.Position] = e
		return
	}
	delete(r.open, e.Position)
	r.closed[e.Position] = true
	if key, ok := r.asked[e.Position]; ok {
		delete(r.questions, key)
		delete(r.asked, e.Position)
	}
}

func (r *Replay) find(rule Rule, format string, args ...any) {
	r.found = append(r.found, Finding{Rule: rule, Detail: fmt.Sprintf(format, args...)})
}
