package kernel

import (
	"fmt"
	"unicode/utf8"

	"github.com/perdure/perdure/history"
)

// maxStatus bounds a status text, which a store rewrites with every commit of the run.
const maxStatus = 4 << 10

// tooLarge is the failure of a payload over the limit, and nil for one within it.
func (x *Execution) tooLarge(what string, payload []byte) *history.Failure {
	if len(payload) <= x.opts.MaxPayload {
		return nil
	}
	return &history.Failure{
		Kind: history.FailureTooLarge, Final: true,
		Message: fmt.Sprintf("%s has %d bytes, at most %d are allowed", what, len(payload), x.opts.MaxPayload),
	}
}

// bound refuses what a function returned where it is over the limit.
func (x *Execution) bound(payload []byte, f *history.Failure) ([]byte, *history.Failure) {
	what := "the result"
	if f != nil && f.Kind == failureContinue {
		what, payload = "the input of the next generation", f.Data
	}
	if large := x.tooLarge(what, payload); large != nil {
		return nil, large
	}
	return payload, f
}

// clip cuts a text at a limit of bytes, between characters.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}

func limitText(events, bytes int, o Options) string {
	return fmt.Sprintf("the history has %d of at most %d events and about %d of at most %d bytes; continue as new before the limit",
		events, o.MaxEvents, bytes, o.MaxBytes)
}
