package history

import (
	"fmt"
	"slices"
)

// Check refuses a start that could not be stored or found again. Its errors match ErrInvalid or ErrTooLarge.
func (s *Start) Check() error {
	if err := s.check(); err != nil {
		return fmt.Errorf("start of workflow %q: %w", s.Spec.Workflow, err)
	}
	return nil
}

func (s *Start) check() error {
	if err := invalidName("workflow", s.Spec.Workflow); err != nil {
		return err
	}
	if s.Spec.Queue != "" {
		if err := invalidName("queue", s.Spec.Queue); err != nil {
			return err
		}
	}
	if s.Spec.Version < 0 || int64(s.Spec.Version) > 1<<31-1 {
		return fmt.Errorf("version %d is not between 0 and 2^31-1: %w", s.Spec.Version, ErrInvalid)
	}
	for _, f := range []struct{ what, value string }{
		{"tenant", s.Spec.Tenant},
		{"key", s.Spec.Key},
		{"task id", s.Spec.TaskID},
		{"principal", s.Spec.Principal},
		{"concurrency key", s.Spec.ConcurrencyKey},
	} {
		if err := checkSize(f.what, len(f.value), MaxKey); err != nil {
			return err
		}
	}
	if err := checkSize("input", len(s.Input), MaxRecord/2); err != nil {
		return err
	}
	switch n := s.Spec.ConcurrencyLimit; {
	case n < 0 || int64(n) > 1<<31-1:
		return fmt.Errorf("concurrency limit %d is not between 1 and 2^31-1: %w", n, ErrInvalid)
	case (n == 0) != (s.Spec.ConcurrencyKey == ""):
		return fmt.Errorf("concurrency key %q with limit %d: one needs the other: %w", s.Spec.ConcurrencyKey, n, ErrInvalid)
	}
	if n := max(len(s.Spec.Tags), len(s.Spec.Accepts)); n > maxElements {
		return fmt.Errorf("%d tags or kinds of questions, at most %d are allowed: %w", n, maxElements, ErrInvalid)
	}
	if s.Spec.Deadline < 0 || s.Spec.Retention < 0 {
		return fmt.Errorf("deadline %d and retention %s must not be negative: %w", s.Spec.Deadline, s.Spec.Retention, ErrInvalid)
	}
	if s.Signal != nil {
		if err := s.Signal.CheckSignal(); err != nil {
			return err
		}
	}
	return s.checkAdopted()
}

// CheckDelivery refuses an item that a store's Deliver does not take: it takes signals, outcomes of children and operators'
// decisions.
func (i *InboxItem) CheckDelivery() error {
	switch i.Kind {
	case InboxChild:
		return i.CheckChild()
	case InboxOperator:
		if i.Name == "" || i.Key == "" {
			return fmt.Errorf("operator's decision %q on %q: both are needed: %w", i.Name, i.Key, ErrInvalid)
		}
		if fromOutside(i.Name) {
			return fmt.Errorf("%q is no decision: %w", i.Name, ErrInvalid)
		}
		return i.checkSizes("decision")
	default:
		return i.CheckSignal()
	}
}

// CheckSignal refuses an item that is no well-formed signal.
func (i *InboxItem) CheckSignal() error {
	if i.Kind != InboxSignal {
		return fmt.Errorf("inbox item (%s) is not a signal: %w", i.Kind, ErrInvalid)
	}
	if err := invalidName("signal", i.Name); err != nil {
		return err
	}
	return i.checkSizes("signal")
}

// CheckChild refuses an item that is no well-formed outcome of a child.
func (i *InboxItem) CheckChild() error {
	if i.Kind != InboxChild || i.Key == "" {
		return fmt.Errorf("inbox item (%s) with key %q is not the outcome of a child: %w", i.Kind, i.Key, ErrInvalid)
	}
	return i.checkSizes("child")
}

func (i *InboxItem) checkSizes(what string) error {
	if err := checkSize(what+" id", len(i.Key), MaxKey); err != nil {
		return err
	}
	return checkSize(what+" payload", len(i.Payload), MaxRecord/2)
}

// CheckAnswer refuses an item that cannot answer a question.
func (i *InboxItem) CheckAnswer() error {
	if i.Kind != InboxAnswer || i.Key == "" {
		return fmt.Errorf("inbox item (%s) with key %q is not an answer: %w", i.Kind, i.Key, ErrInvalid)
	}
	return i.checkSizes("answer")
}

// Check refuses a batch that contradicts itself, whatever the run's state is. Its errors match ErrInvalid or
// ErrTooLarge and say which part is wrong: they are mistakes of the caller's code.
//
// Invariants that it keeps:
//   - events are numbered After+1 and up, are of kinds that a holder may write, and have a position exactly where
//     their kind belongs to an operation;
//   - a terminal event is the last, and comes with NextClosed; NextClosed comes with one;
//   - Open lists exactly the questions of the InterruptOpened events, and Consume exactly the Inbox numbers of the
//     events: so the history tells the fate of both.
func (b *Batch) Check() error {
	for _, check := range []func() error{b.checkNext, b.checkEvents, b.checkTimers, b.checkQuestions, b.checkInbox, b.checkChildren} {
		if err := check(); err != nil {
			return fmt.Errorf("batch of run %s after event %d: %w", b.Run, b.After, err)
		}
	}
	return nil
}

func (b *Batch) checkNext() error {
	terminal := len(b.Events) > 0 && b.Events[len(b.Events)-1].Kind.Terminal()
	switch {
	case b.Next > NextClosed:
		return fmt.Errorf("next %d is unknown: %w", b.Next, ErrInvalid)
	case b.Next == NextClosed && !terminal:
		return fmt.Errorf("closes the run without a terminal event at its end: %w", ErrInvalid)
	case b.Next != NextClosed && terminal:
		return fmt.Errorf("has the terminal event %q and does not close the run: %w", b.Events[len(b.Events)-1].Kind, ErrInvalid)
	case b.Next == NextBlocked && b.Reason == "":
		return fmt.Errorf("blocks the run without a reason: %w", ErrInvalid)
	}
	return nil
}

func (b *Batch) checkEvents() error {
	for i := range b.Events {
		if err := b.checkEvent(i); err != nil {
			e := &b.Events[i]
			return fmt.Errorf("event %d (%s): %w", e.Seq, e.Kind, err)
		}
	}
	return nil
}

func (b *Batch) checkEvent(i int) error {
	e := &b.Events[i]
	switch want := b.After + 1 + uint64(i); {
	case e.Seq != want:
		return fmt.Errorf("sequence must be %d: %w", want, ErrInvalid)
	case !e.Kind.Known() || e.Kind == RunStarted:
		return fmt.Errorf("a holder does not write this kind: %w", ErrInvalid)
	case e.Kind.Terminal() && i != len(b.Events)-1:
		return fmt.Errorf("a terminal event must be the last: %w", ErrInvalid)
	case e.Kind.OfRun() && e.Position != "":
		return fmt.Errorf("position %q on an event of the run: %w", e.Position, ErrInvalid)
	case !e.Kind.OfRun() && e.Position == "":
		return fmt.Errorf("has no position: %w", ErrInvalid)
	case !e.Token.IsZero() && e.Token != b.Token:
		return fmt.Errorf("token %s is not the batch's, %s: %w", e.Token, b.Token, ErrInvalid)
	case (e.Kind == RunFailed || e.Kind == RunCanceled) && e.Failure == nil:
		return fmt.Errorf("has no failure: %w", ErrInvalid)
	case (e.Kind == TimerSet || e.Kind == StepRetried) && e.Due <= 0:
		return fmt.Errorf("has no due time: %w", ErrInvalid)
	case e.Kind == OperatorActed && fromOutside(e.Name):
		return fmt.Errorf("a holder does not write the verb %q: %w", e.Name, ErrInvalid)
	case e.Kind == InterruptOpened && e.Key == "":
		return fmt.Errorf("has no key: %w", ErrInvalid)
	case e.Failure.Depth() > MaxCauses:
		return fmt.Errorf("its failure has %d causes, one under the other, at most %d are allowed: %w", e.Failure.Depth(), MaxCauses, ErrInvalid)
	case len(e.Names) > maxElements:
		return fmt.Errorf("has %d names, at most %d are allowed: %w", len(e.Names), maxElements, ErrInvalid)
	}
	if err := checkSize("position", len(e.Position), MaxPosition); err != nil {
		return err
	}
	return checkSize("payload", len(e.Payload), MaxRecord/2)
}

func (b *Batch) checkTimers() error {
	for _, t := range slices.Concat(b.Set, b.Clear) {
		if t.At <= 0 {
			return fmt.Errorf("timer %q has no time: %w", t.Position, ErrInvalid)
		}
		if err := checkSize("timer position", len(t.Position), MaxPosition); err != nil {
			return err
		}
	}
	return nil
}

func (b *Batch) checkQuestions() error {
	opened := map[string]Position{}
	for i := range b.Events {
		if e := &b.Events[i]; e.Kind == InterruptOpened {
			opened[e.Key] = e.Position
		}
	}
	for i := range b.Open {
		q := &b.Open[i]
		switch p, ok := opened[q.Key]; {
		case !ok:
			return fmt.Errorf("opens question %q without an event, or twice: %w", q.Key, ErrInvalid)
		case p != q.Position:
			return fmt.Errorf("question %q is at %q in its event and at %q in its row: %w", q.Key, p, q.Position, ErrInvalid)
		case q.Method == "":
			return fmt.Errorf("question %q has no method: %w", q.Key, ErrInvalid)
		}
		if err := checkSize("question key", len(q.Key), MaxKey); err != nil {
			return err
		}
		delete(opened, q.Key)
	}
	for key := range opened {
		return fmt.Errorf("an event opens question %q and Open does not: %w", key, ErrInvalid)
	}
	return nil
}

func (b *Batch) checkInbox() error {
	moved := map[uint64]bool{}
	for i := range b.Events {
		e := &b.Events[i]
		if e.Inbox == 0 {
			continue
		}
		if moved[e.Inbox] {
			return fmt.Errorf("two events take inbox item %d: %w", e.Inbox, ErrInvalid)
		}
		moved[e.Inbox] = true
	}
	for _, n := range b.Consume {
		if !moved[n] {
			return fmt.Errorf("consumes inbox item %d without an event that names it, or twice: %w", n, ErrInvalid)
		}
		delete(moved, n)
	}
	for n := range moved {
		return fmt.Errorf("an event takes inbox item %d and Consume does not: %w", n, ErrInvalid)
	}
	return nil
}

func (b *Batch) checkChildren() error {
	for i := range b.Children {
		c := &b.Children[i]
		if err := c.Check(); err != nil {
			return fmt.Errorf("child %d: %w", i, err)
		}
		if c.Spec.Parent != (RunID{}) && c.Spec.Parent != b.Run {
			return fmt.Errorf("child %d has parent %s: %w", i, c.Spec.Parent, ErrInvalid)
		}
	}
	return nil
}

func invalidName(what, name string) error {
	if err := CheckName(what, name); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}
