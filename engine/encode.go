package engine

import (
	"fmt"
	"slices"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// encodeEvent encodes e in place. It refuses an event whose payload could not be read: it would be lost.
func (c *coder) encodeEvent(run history.RunID, e *history.Event) error {
	if err := e.Readable(); err != nil {
		return err
	}
	var err error
	if e.Payload, err = c.encode(eventPlace(run, e), e.Payload); err != nil {
		return fmt.Errorf("event %d: %w", e.Seq, err)
	}
	if e.Kind == history.StatusReported {
		if e.Message, err = c.text(workflow.Place{Run: run, Purpose: "status"}, e.Message); err != nil {
			return fmt.Errorf("event %d: %w", e.Seq, err)
		}
	}
	if e.Failure, err = c.encodeFailure(run, e.Failure); err != nil {
		return fmt.Errorf("event %d: %w", e.Seq, err)
	}
	return nil
}

func (c *coder) encodeEvents(run history.RunID, events []history.Event) ([]history.Event, error) {
	events = slices.Clone(events)
	for i := range events {
		if err := c.encodeEvent(run, &events[i]); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// encodeAdopted also says by which digests the run remembers the signals that it adopts.
func (c *coder) encodeAdopted(run history.RunID, events []history.Event) ([]history.Event, error) {
	out, err := c.encodeEvents(run, events)
	for i := range out {
		if e := &events[i]; e.Kind == history.SignalReceived {
			out[i].Content = c.content(&history.InboxItem{Kind: history.InboxSignal, Name: e.Name, Key: e.Key, Payload: e.Payload})[0]
		}
	}
	return out, err
}

func (c *coder) encodeFailure(run history.RunID, f *history.Failure) (*history.Failure, error) {
	if f == nil {
		return nil, nil
	}
	out := *f
	var err error
	if out.Message, err = c.text(workflow.Place{Run: run, Purpose: "failure"}, f.Message); err != nil {
		return nil, err
	}
	if out.Data, err = c.encode(workflow.Place{Run: run, Purpose: "failure data"}, f.Data); err != nil {
		return nil, err
	}
	out.Cause, err = c.encodeFailure(run, f.Cause)
	return &out, err
}

// encodeItem returns the item as it is stored, and the digests that its content may be known by.
func (c *coder) encodeItem(run history.RunID, i history.InboxItem) (history.InboxItem, []history.Digest, error) {
	if err := i.Readable(); err != nil {
		return i, nil, err
	}
	known := c.content(&i)
	i.EncodedFor = history.RunID{}
	payload, err := c.encode(itemPlace(run, &i), i.Payload)
	if err != nil {
		return i, nil, fmt.Errorf("inbox item %q: %w", i.Key, err)
	}
	if i.Failure, err = c.encodeFailure(sourceOf(run, &i), i.Failure); err != nil {
		return i, nil, fmt.Errorf("inbox item %q: %w", i.Key, err)
	}
	i.Payload, i.Content = payload, history.Digest{}
	return i, known, nil
}

// content returns the digests by which a store knows the content of a signal again. The zero digest stands for what the
// stored bytes tell by themselves.
func (c *coder) content(i *history.InboxItem) []history.Digest {
	if i.Kind != history.InboxSignal || i.Key == "" || !c.touches(i.Payload) {
		return []history.Digest{{}}
	}
	plain := *i
	plain.Content = history.Digest{}
	return c.digests("signal", i.Key, history.SignalDigest(&plain))
}

// encodedStart is a start as it is stored, and the digests that its input and its signal may be known by.
type encodedStart struct {
	history.Start
	inputs, signals []history.Digest
}

// encodeStart encodes a start that is well formed.
func (c *coder) encodeStart(s history.Start, now history.Time) (encodedStart, error) {
	s.Fill(now)
	run := s.Spec.ID
	out := encodedStart{Start: s}
	out.inputs = c.digests("start", s.Spec.Tenant+"\x00"+s.Spec.Key, s.Spec.InputDigest)
	out.Spec.InputDigest = out.inputs[0]
	first := s.First()
	var err error
	if out.Input, err = c.encode(eventPlace(run, &first), s.Input); err != nil {
		return out, fmt.Errorf("input: %w", err)
	}
	if s.Signal != nil {
		i, known, err := c.encodeItem(run, *s.Signal)
		if err != nil {
			return out, err
		}
		if c.touches(s.Signal.Payload) {
			i.EncodedFor = run // a run that is there gets it where the start is a repetition
		}
		out.signals, i.Content = known, known[0]
		out.Signal = &i
	}
	if len(s.Adopt) > 0 {
		if out.Adopt, err = c.encodeAdopted(run, s.Adopt); err != nil {
			return out, err
		}
	}
	out.Facts = slices.Clone(s.Facts)
	for j := range out.Facts {
		i, known, err := c.encodeItem(run, out.Facts[j])
		if err != nil {
			return out, err
		}
		i.Content = known[0]
		out.Facts[j] = i
	}
	out.Children, err = c.encodeChildren(s.Children, now)
	return out, err
}

func (c *coder) encodeChildren(children []history.Start, now history.Time) ([]history.Start, error) {
	children = slices.Clone(children)
	for i := range children {
		e, err := c.encodeStart(children[i], now)
		if err != nil {
			return nil, fmt.Errorf("child %d: %w", i, err)
		}
		children[i] = e.Start
	}
	return children, nil
}

func (c *coder) encodeBatch(b history.Batch, now history.Time) (history.Batch, error) {
	var err error
	if b.Events, err = c.encodeEvents(b.Run, b.Events); err != nil {
		return b, err
	}
	b.Open = slices.Clone(b.Open)
	for i := range b.Open {
		q := &b.Open[i]
		if err := q.Readable(); err != nil {
			return b, err
		}
		if q.Body, err = c.encode(questionPlace(b.Run, q.Key), q.Body); err != nil {
			return b, fmt.Errorf("question %q: %w", q.Key, err)
		}
	}
	b.Children, err = c.encodeChildren(b.Children, now)
	return b, err
}
