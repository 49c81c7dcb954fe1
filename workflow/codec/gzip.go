package codec

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// gzipFrom is the size in bytes from which on compression is tried.
const gzipFrom = 512

// Gzip compresses (RFC 1952). It leaves payloads as they are that are short or do not get smaller.
type Gzip struct {
	// DecodeOnly reads what was compressed before, and compresses no more.
	DecodeOnly bool
}

// NewGzip returns the codec. It needs no settings.
func NewGzip() Gzip { return Gzip{} }

var _ workflow.Codec = Gzip{}

// Name implements workflow.Codec.
func (Gzip) Name() string { return "gzip" }

// DecodesOnly implements workflow.Codec's option.
func (g Gzip) DecodesOnly() bool { return g.DecodeOnly }

// Encode implements workflow.Codec.
func (Gzip) Encode(_ workflow.Place, b []byte) ([]byte, string, error) {
	if len(b) < gzipFrom {
		return nil, "", nil
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, "", fmt.Errorf("gzip: %w", err)
	}
	if _, err := w.Write(b); err != nil {
		return nil, "", fmt.Errorf("gzip: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, "", fmt.Errorf("gzip: %w", err)
	}
	if out.Len() >= len(b) {
		return nil, "", nil
	}
	return out.Bytes(), "", nil
}

// Decode implements workflow.Codec. What would be larger than any payload is refused with history.ErrTooLarge.
func (Gzip) Decode(_ workflow.Place, _ string, data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(r, history.MaxRecord+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("gzip: %w", err)
	case len(b) > history.MaxRecord:
		return nil, &history.SizeError{What: "what was compressed", Size: len(b), Max: history.MaxRecord}
	}
	return b, nil
}
