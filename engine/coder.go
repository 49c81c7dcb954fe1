package engine

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// coder encodes and decodes the payloads of records by a list of codecs. It changes nothing that it is given: what it
// returns is a copy, or the same where there is nothing to do. It is immutable.
//
// What is a payload: the payload of an event and of an inbox item, the body of a question, message and data of a failure
// and its causes, and the text of a reported status. All else is what operators list and stores index, and stays as it is.
type coder struct {
	codecs []workflow.Codec // that encode, in their order
	named  map[string]workflow.Codec
	// keyed makes the digests; nil where no codec hides anything.
	keyed workflow.Digester
}

// maxLayers bounds the envelopes in each other that are decoded.
const maxLayers = 8

func newCoder(codecs []workflow.Codec) (*coder, error) {
	c := &coder{named: make(map[string]workflow.Codec, len(codecs))}
	if len(codecs) >= maxLayers {
		return nil, fmt.Errorf("%d codecs, want less than %d: %w", len(codecs), maxLayers, history.ErrInvalid)
	}
	for _, x := range codecs {
		if x == nil || x.Name() == "" || c.named[x.Name()] != nil {
			return nil, fmt.Errorf("codecs: one is nil, has no name, or has that of another: %w", history.ErrInvalid)
		}
		c.named[x.Name()] = x
		if d, ok := x.(interface{ DecodesOnly() bool }); ok && d.DecodesOnly() {
			continue
		}
		c.codecs = append(c.codecs, x)
		if d, ok := x.(workflow.Digester); ok {
			c.keyed = d
		}
	}
	return c, nil
}

// touches reports whether encode changes b.
func (c *coder) touches(b []byte) bool {
	return len(b) > 0 && (len(c.codecs) > 0 || history.Enveloped(b))
}

// passes reports whether encode changes none of the events: the usual case without codecs.
func (c *coder) passes(events []history.Event) bool {
	if len(c.codecs) > 0 {
		return false
	}
	for i := range events {
		e := &events[i]
		if history.Enveloped(e.Payload) || history.Enveloped(e.Message) || e.Failure != nil || e.Sealed != nil || e.PayloadErased {
			return false
		}
	}
	return true
}

// passesStart reports whether encode changes nothing of the start: the usual case without codecs.
func (c *coder) passesStart(s *history.Start) bool {
	return len(c.codecs) == 0 && !history.Enveloped(s.Input) && s.Signal == nil && len(s.Adopt)+len(s.Children)+len(s.Facts) == 0
}

// encode returns b as it is stored.
func (c *coder) encode(at workflow.Place, b []byte) ([]byte, error) {
	if !c.touches(b) {
		return b, nil
	}
	if history.Enveloped(b) { // it only looks like one
		plain := history.Envelope{Data: b}
		var err error
		if b, err = plain.Bytes(); err != nil {
			return nil, err
		}
	}
	for _, x := range c.codecs {
		layer, err := guarded(func() (history.Envelope, error) {
			data, key, err := x.Encode(at, b)
			return history.Envelope{Codec: x.Name(), Key: key, Data: data}, err
		})
		if err != nil {
			return nil, fmt.Errorf("codec %s: %w", x.Name(), err)
		}
		if layer.Data == nil {
			continue
		}
		if b, err = layer.Bytes(); err != nil {
			return nil, fmt.Errorf("codec %s: %w", x.Name(), err)
		}
	}
	return b, nil
}

// decode is the inverse of encode. Where it fails it says why, and returns nothing.
func (c *coder) decode(at workflow.Place, b []byte) ([]byte, *history.Sealed) {
	for range maxLayers {
		if !history.Enveloped(b) {
			return b, nil
		}
		layer, err := history.ParseEnvelope(b)
		if err != nil {
			return nil, &history.Sealed{Reason: err.Error()}
		}
		if layer.Codec == "" {
			return layer.Data, nil
		}
		if b, err = c.open(at, &layer); err != nil {
			return nil, &history.Sealed{Codec: layer.Codec, Key: layer.Key, Reason: err.Error()}
		}
	}
	return nil, &history.Sealed{Reason: fmt.Sprintf("more than %d codecs were applied", maxLayers)}
}

func (c *coder) open(at workflow.Place, layer *history.Envelope) ([]byte, error) {
	x := c.named[layer.Codec]
	switch {
	case x == nil && layer.Key != "":
		return nil, errors.New("this process has no keys")
	case x == nil:
		return nil, errors.New("this process has no such codec")
	}
	b, err := guarded(func() ([]byte, error) { return x.Decode(at, layer.Key, layer.Data) })
	var panicked *panicError
	switch {
	case errors.Is(err, workflow.ErrNoKey):
		return nil, errors.New("this process does not have the key")
	case errors.As(err, &panicked):
		return nil, fmt.Errorf("the codec panicked: %v", panicked.value)
	}
	return b, err
}

// text encodes a text.
func (c *coder) text(at workflow.Place, s string) (string, error) {
	if s == "" || len(c.codecs) == 0 && !history.Enveloped(s) {
		return s, nil
	}
	b, err := c.encode(at, []byte(s))
	return string(b), err
}

// plainText decodes a text. One that cannot be decoded says so.
func (c *coder) plainText(at workflow.Place, s string) (string, *history.Sealed) {
	if !history.Enveloped(s) {
		return s, nil
	}
	b, sealed := c.decode(at, []byte(s))
	if sealed != nil {
		return "[" + sealed.String() + "]", sealed
	}
	return string(b), nil
}

// eventPlace binds a payload to its event. A result is bound to its run alone, for a parent's inbox gets it too, and a
// question to its key, for its row gets it too.
func eventPlace(run history.RunID, e *history.Event) workflow.Place {
	switch {
	case e.Kind == history.InterruptOpened:
		return questionPlace(run, e.Key)
	case e.Kind.Terminal():
		return resultPlace(run)
	}
	return workflow.Place{Run: run, Purpose: "event", Detail: strconv.FormatUint(e.Seq, 10)}
}

func resultPlace(run history.RunID) workflow.Place {
	return workflow.Place{Run: run, Purpose: "result"}
}

func questionPlace(run history.RunID, key string) workflow.Place {
	return workflow.Place{Run: run, Purpose: "question", Detail: key}
}

// itemPlace binds a payload to the run that it was sent to, and to what it says it is.
func itemPlace(run history.RunID, i *history.InboxItem) workflow.Place {
	if i.Kind == history.InboxChild {
		return resultPlace(sourceOf(run, i))
	}
	return workflow.Place{
		Run: sourceOf(run, i), Purpose: "inbox", Detail: fmt.Sprintf("%d %d %s %s", i.Kind, len(i.Name), i.Name, i.Key),
	}
}

// sourceOf returns the run that the payload of an item was encoded for: a child's outcome is the child's.
func sourceOf(run history.RunID, i *history.InboxItem) history.RunID {
	if i.Kind == history.InboxChild {
		if id, err := ulid.ParseStrict(i.Key); err == nil {
			return id
		}
	}
	if i.EncodedFor != (history.RunID{}) {
		return i.EncodedFor
	}
	return run
}

// digests returns what a plain digest is stored as: the newest first, the plain one (of the time before there were keys)
// last.
func (c *coder) digests(purpose, name string, plain history.Digest) []history.Digest {
	if c.keyed == nil {
		return []history.Digest{plain}
	}
	b := fmt.Appendf(nil, "%s %d %s", purpose, len(name), name)
	return append(c.keyed.Digests(append(b, plain[:]...)), plain)
}
