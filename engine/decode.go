package engine

import (
	"cmp"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// decodeEvent decodes e in place. What cannot be decoded is empty, and e.Sealed says why.
func (c *coder) decodeEvent(run history.RunID, e *history.Event) {
	var sealed, failed *history.Sealed
	if history.Enveloped(e.Payload) {
		e.Payload, sealed = c.decode(eventPlace(run, e), e.Payload)
	}
	if e.Kind == history.StatusReported {
		e.Message, failed = c.plainText(workflow.Place{Run: run, Purpose: "status"}, e.Message)
		sealed = cmp.Or(sealed, failed)
	}
	e.Failure, failed = c.decodeFailure(run, e.Failure)
	e.Sealed = cmp.Or(sealed, failed)
}

// decodeFailure returns a failure with its texts, as far as they can be decoded.
func (c *coder) decodeFailure(run history.RunID, f *history.Failure) (*history.Failure, *history.Sealed) {
	if f == nil {
		return nil, nil
	}
	out := *f // what a store returned may be shared by two of its records
	var s [3]*history.Sealed
	out.Message, s[0] = c.plainText(workflow.Place{Run: run, Purpose: "failure"}, f.Message)
	if history.Enveloped(f.Data) {
		out.Data, s[1] = c.decode(workflow.Place{Run: run, Purpose: "failure data"}, f.Data)
	}
	out.Cause, s[2] = c.decodeFailure(run, f.Cause)
	return &out, cmp.Or(s[:]...)
}

func (c *coder) decodeItem(run history.RunID, i *history.InboxItem) {
	var sealed, failed *history.Sealed
	if history.Enveloped(i.Payload) {
		i.Payload, sealed = c.decode(itemPlace(run, i), i.Payload)
	}
	i.Failure, failed = c.decodeFailure(sourceOf(run, i), i.Failure)
	i.Sealed = cmp.Or(sealed, failed)
	i.Content, i.EncodedFor = history.Digest{}, history.RunID{} // of what is stored, and that is not this any more
}

func (c *coder) decodeItems(run history.RunID, items []history.InboxItem) {
	for i := range items {
		c.decodeItem(run, &items[i])
	}
}

func (c *coder) decodeState(run history.RunID, s *history.State) {
	s.Message, _ = c.plainText(workflow.Place{Run: run, Purpose: "status"}, s.Message)
	s.Failure, _ = c.decodeFailure(run, s.Failure)
}

func (c *coder) decodeRun(r *history.Run) { c.decodeState(r.ID, &r.State) }

func (c *coder) decodeClaim(cl *history.Claim) {
	c.decodeRun(&cl.Run)
	c.decodeItems(cl.Run.ID, cl.Inbox)
	if cl.Fresh != nil {
		c.decodeEvent(cl.Run.ID, cl.Fresh)
	}
}
