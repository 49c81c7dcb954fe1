package transfer

import (
	"context"
	"fmt"
	"iter"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Store is a store that takes part in a move. It is used by one goroutine, but for Rows: those of one store may be read by
// several at once while nothing else is called.
type Store interface {
	// String names the store for people, without a password.
	fmt.Stringer

	// Mark reads the store's mark; the zero Mark where it has none.
	Mark(ctx context.Context) (Mark, error)
	// SetMark replaces the mark, durably. A store that has one is opened for work by nobody: the error matches
	// history.ErrMoved. A mark with the role Source keeps out also those who had the store open before. It matches
	// history.ErrLocked where somebody works with the store, and changes nothing then. The zero Mark lets all in again.
	SetMark(ctx context.Context, m Mark) error

	// Head reads the store's numbers, and SetHead makes the store go on after those of another.
	Head(ctx context.Context) (Head, error)
	SetHead(ctx context.Context, h Head) error

	// Rows yields the rows of a kind after one, of which only the fields count that rows are sorted by; the zero Row is before
	// all. It yields an error at most once, at the end.
	Rows(ctx context.Context, k Kind, after Row) iter.Seq2[Row, error]
	// Put adds rows of one kind, which are not there, and replaces the mark, in one transaction.
	Put(ctx context.Context, rows []Row, m Mark) error
	// Clear deletes all rows, and keeps the mark.
	Clear(ctx context.Context) error

	// Verify is that of engine.Reader.
	Verify(ctx context.Context, fn func(engine.Violation)) error
}

// Role is what a store is in a move.
type Role string

// The roles.
const (
	Source Role = "source"
	Target Role = "target"
)

// Mark says that a store takes part in a move, and how far that has come.
type Mark struct {
	// Move identifies the move; both stores have the same.
	Move history.RunID `json:"move"`
	Role Role          `json:"role"`
	// Peer names the other store, for people.
	Peer string `json:"peer"`
	// Done, of a source, says that the target has everything, and may be in use.
	Done bool `json:"done,omitempty"`
	// Kind and After are the newest row that a target has got. Kind 0: none.
	Kind  Kind `json:"kind,omitempty"`
	After Row  `json:"after,omitzero"`
}

// IsZero reports whether it is no mark.
func (m *Mark) IsZero() bool { return m.Role == "" }

// Refuse is the error for an opening of a store that has the mark. It matches history.ErrMoved.
func (m *Mark) Refuse() error {
	switch {
	case m.Role == Target:
		return fmt.Errorf("a move of %s into it has not ended: run perdure move again: %w", m.Peer, history.ErrMoved)
	case m.Done:
		return fmt.Errorf("its runs go on in %s: %w", m.Peer, history.ErrMoved)
	}
	return fmt.Errorf("a move to %s has not ended: run perdure move again, or take it back with perdure move --undo: %w", m.Peer, history.ErrMoved)
}

// Head is the numbers that a store must never fall behind.
type Head struct {
	// Epoch is the first half of the newest fencing tokens, Time the store's time.
	Epoch uint64
	Time  history.Time
}
