package crashfile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure/history"
)

// entry is what a line says.
type entry struct {
	run       history.RunID
	seq       uint64 // the newest event of the run when the execution began
	strikes   int
	executing bool
}

// Every line has the same length, so that one can be written in place.
const (
	lineLen    = 65
	maxStrikes = 999_999
	headOpen   = "perdure crashes v1 open"
	headShut   = "perdure crashes v1 shut"
	executing  = "executing"
	resting    = "resting"
)

// padded is a line with this text.
func padded(text string) []byte { return fmt.Appendf(nil, "%-*s\n", lineLen-1, text) }

func (e *entry) line() []byte {
	state := resting
	if e.executing {
		state = executing
	}
	return padded(fmt.Sprintf("%s %20d %6d %s", e.run, e.seq, e.strikes, state))
}

var errLine = errors.New("no line of a crash file")

// parseLine reads a line without its newline. ok is false for a free one.
func parseLine(text string) (e entry, ok bool, err error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return e, false, nil
	}
	if len(text) != lineLen-1 || len(fields) != 4 || fields[3] != executing && fields[3] != resting {
		return e, false, errLine
	}
	if err := e.run.UnmarshalText([]byte(fields[0])); err != nil {
		return e, false, fmt.Errorf("%w: %w", errLine, err)
	}
	if _, err := fmt.Sscanf(fields[1]+" "+fields[2], "%d %d", &e.seq, &e.strikes); err != nil {
		return e, false, fmt.Errorf("%w: %w", errLine, err)
	}
	e.executing = fields[3] == executing
	if e.strikes < 0 || e.strikes > maxStrikes || string(e.line()) != text+"\n" {
		return e, false, errLine
	}
	return e, true, nil
}
