package history

import "fmt"

// An Envelope is a payload as a codec stored it (compressed, encrypted) and what is needed to find the codec again:
//
//	+------+---------+-------------------+-------+------------------+-----+------------+
//	| 0x01 | version | codec name length | name  | key id length    | key | data       |
//	|      | 1       | 1 byte            |       | 1 byte           |     | to the end |
//	+------+---------+-------------------+-------+------------------+-----+------------+
//
// What is under the data of one envelope may be another: codecs are applied one after the other. An envelope with no codec
// name holds the bytes as they came. JSON never begins with 0x01, so that a payload without an envelope is known by its
// first byte. Texts (the message of a failure, a status) are enveloped in the same way.
type Envelope struct {
	// Codec names who made Data of what is inside, Key the key that it used, where it uses any.
	Codec, Key string
	Data       []byte
}

const (
	envelopeMark    = 0x01
	envelopeVersion = 1
	// maxEnvelopeName bounds a codec's name and a key's id.
	maxEnvelopeName = 255
)

// Enveloped reports whether stored bytes are, or claim to be, an envelope.
func Enveloped[B ~[]byte | ~string](stored B) bool {
	return len(stored) > 0 && stored[0] == envelopeMark
}

// Append appends the envelope's bytes to b. Names over 255 bytes match ErrInvalid.
func (e *Envelope) Append(b []byte) ([]byte, error) {
	if len(e.Codec) > maxEnvelopeName || len(e.Key) > maxEnvelopeName {
		return nil, fmt.Errorf("codec %.20q with key %.20q: a name has at most %d bytes: %w", e.Codec, e.Key, maxEnvelopeName, ErrInvalid)
	}
	b = append(b, envelopeMark, envelopeVersion, byte(len(e.Codec)))
	b = append(append(b, e.Codec...), byte(len(e.Key)))
	b = append(b, e.Key...)
	return append(b, e.Data...), nil
}

// Bytes returns the envelope's bytes. See Append.
func (e *Envelope) Bytes() ([]byte, error) {
	return e.Append(make([]byte, 0, 4+len(e.Codec)+len(e.Key)+len(e.Data)))
}

// ParseEnvelope is the inverse of Bytes. Data is a slice of stored. What is none matches ErrCorrupt, a later version
// ErrFormat.
func ParseEnvelope(stored []byte) (Envelope, error) {
	switch {
	case len(stored) < 4 || stored[0] != envelopeMark || stored[1] == 0:
		return Envelope{}, fmt.Errorf("envelope of %d bytes: %w", len(stored), ErrCorrupt)
	case stored[1] > envelopeVersion:
		return Envelope{}, fmt.Errorf("envelope version %d, this program reads up to %d: %w", stored[1], envelopeVersion, ErrFormat)
	}
	var e Envelope
	rest, ok := stored[2:], true
	if e.Codec, rest, ok = cutName(rest); ok {
		e.Key, e.Data, ok = cutName(rest)
	}
	if !ok {
		return Envelope{}, fmt.Errorf("envelope of %d bytes is cut short: %w", len(stored), ErrCorrupt)
	}
	return e, nil
}

func cutName(b []byte) (name string, rest []byte, ok bool) {
	if len(b) == 0 {
		return "", nil, false
	}
	n := int(b[0])
	if len(b)-1 < n {
		return "", nil, false
	}
	return string(b[1 : 1+n]), b[1+n:], true
}
