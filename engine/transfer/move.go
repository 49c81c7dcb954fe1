package transfer

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Options configures [Move]. The zero value is useful.
type Options struct {
	// Progress, where it is set, is told of each batch of rows.
	Progress func(Progress)
	// BatchRows and BatchBytes bound the rows of one transaction of the target. Defaults: 5,000 and 8 MiB.
	BatchRows, BatchBytes int
}

// Progress is how far a move has come.
type Progress struct {
	// Stage is "copy", "compare" or "verify".
	Stage string
	Kind  Kind
	// Rows counts those of the kind in this stage.
	Rows uint64
}

// Report says what a move came to.
type Report struct {
	From, To string
	// Resumed says that it went on with a move that had not ended.
	Resumed bool
	// Rows counts, by kind, what was moved and compared.
	Rows map[Kind]uint64
}

// Move moves everything from one store to another, which must be empty, or have got a part of it by a move that did not end. It
// has ended when the target may be opened; the source may not be from its beginning on. Its error matches history.ErrLocked
// where the source is in use, history.ErrConflict where the target is not empty, history.ErrMoved where one of the two takes
// part in another move, and history.ErrCorrupt where the source has violations, or the target has got something else than the
// source has. After an error both stores stay marked: call it again, or call [Undo] with each.
func Move(ctx context.Context, from, to Store, o Options) (Report, error) {
	m := mover{from: from, to: to, o: o, report: Report{From: from.String(), To: to.String(), Rows: map[Kind]uint64{}}}
	if m.o.BatchRows <= 0 {
		m.o.BatchRows = 5_000
	}
	if m.o.BatchBytes <= 0 {
		m.o.BatchBytes = 8 << 20
	}
	if m.o.Progress == nil {
		m.o.Progress = func(Progress) {}
	}
	if err := m.run(ctx); err != nil {
		return m.report, fmt.Errorf("move %s to %s: %w", m.report.From, m.report.To, err)
	}
	return m.report, nil
}

type mover struct {
	from, to Store
	o        Options
	report   Report
	// source and target are the marks of the two.
	source, target Mark
}

func (m *mover) run(ctx context.Context) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	head, err := m.from.Head(ctx)
	if err != nil {
		return err
	}
	for _, k := range Kinds() {
		if k < m.target.Kind {
			continue
		}
		if err := m.copy(ctx, k); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	if err := m.to.SetHead(ctx, head); err != nil {
		return err
	}
	for _, k := range Kinds() {
		if err := m.compare(ctx, k); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	m.o.Progress(Progress{Stage: "verify", Kind: Runs, Rows: m.report.Rows[Runs]})
	if err := sound(ctx, m.to); err != nil {
		return err
	}
	// The source first: at no moment may both be opened.
	m.source.Done = true
	if err := m.from.SetMark(ctx, m.source); err != nil {
		return err
	}
	return m.to.SetMark(ctx, Mark{})
}

// begin marks both stores, or finds their marks.
func (m *mover) begin(ctx context.Context) (err error) {
	if m.source, err = m.from.Mark(ctx); err != nil {
		return err
	}
	if m.target, err = m.to.Mark(ctx); err != nil {
		return err
	}
	if m.source.Role == Target {
		return fmt.Errorf("%s: %w", m.from, m.source.Refuse())
	}
	m.report.Resumed = !m.source.IsZero() && m.target.Role == Target && m.target.Move == m.source.Move
	switch {
	case m.report.Resumed:
		return nil
	case m.source.Done, m.target.Role == Source:
		return errors.Join(refusal(m.from, m.source), refusal(m.to, m.target))
	}
	if m.target.IsZero() {
		if err := empty(ctx, m.to); err != nil {
			return err
		}
	}
	head, err := m.from.Head(ctx)
	if err != nil {
		return err
	}
	// Also a source that is marked gets a new move: it may have another target, which must not go on with this one's.
	m.source = Mark{Move: history.NewRunID(head.Time), Role: Source, Peer: m.to.String()}
	m.target = Mark{Move: m.source.Move, Role: Target, Peer: m.from.String()}
	if err := m.from.SetMark(ctx, m.source); err != nil {
		return err
	}
	if err := sound(ctx, m.from); err != nil {
		return errors.Join(err, m.from.SetMark(ctx, Mark{}))
	}
	if err := m.to.SetMark(ctx, m.target); err != nil {
		return err
	}
	return m.to.Clear(ctx) // what a move that was taken back has left
}

func refusal(s Store, m Mark) error {
	if m.IsZero() {
		return nil
	}
	return fmt.Errorf("%s: %w", s, m.Refuse())
}

// empty refuses a store that has a row.
func empty(ctx context.Context, s Store) error {
	for _, k := range Kinds() {
		for _, err := range s.Rows(ctx, k, Row{}) {
			if err != nil {
				return err
			}
			return fmt.Errorf("%s is not empty, it has %s: %w", s, k, history.ErrConflict)
		}
	}
	return nil
}

// sound refuses a store with violations.
func sound(ctx context.Context, s Store) error {
	var first *engine.Violation
	n := 0
	err := s.Verify(ctx, func(v engine.Violation) {
		if n++; first == nil {
			first = &v
		}
	})
	if err == nil && n > 0 {
		err = fmt.Errorf("%s has %d violations, the first: run %s: %s: %s: %w", s, n, first.Run, first.Rule, first.Detail, history.ErrCorrupt)
	}
	return err
}

// copy copies the rows of a kind that the target does not have yet.
func (m *mover) copy(ctx context.Context, k Kind) error {
	var after Row
	if m.target.Kind == k {
		after = m.target.After
	}
	var batch []Row
	size, n := 0, uint64(0)
	put := func() error {
		last := batch[len(batch)-1]
		last.Rec, last.State = nil, nil
		m.target.Kind, m.target.After = k, last
		if err := m.to.Put(ctx, batch, m.target); err != nil {
			return err
		}
		n += uint64(len(batch))
		m.o.Progress(Progress{Stage: "copy", Kind: k, Rows: n})
		batch, size = batch[:0], 0
		return nil
	}
	for r, err := range m.from.Rows(ctx, k, after) {
		if err != nil {
			return err
		}
		batch, size = append(batch, r), size+r.Size()
		if len(batch) < m.o.BatchRows && size < m.o.BatchBytes {
			continue
		}
		if err := put(); err != nil {
			return err
		}
	}
	if len(batch) == 0 {
		return nil
	}
	return put()
}

// compare refuses a target that has other rows of a kind than the source.
func (m *mover) compare(ctx context.Context, k Kind) error {
	next, stop := iter.Pull2(m.to.Rows(ctx, k, Row{}))
	defer stop()
	n := uint64(0)
	for want, err := range m.from.Rows(ctx, k, Row{}) {
		if err != nil {
			return err
		}
		got, err, ok := next()
		if err != nil {
			return err
		}
		if !ok || !got.Equal(&want) {
			return fmt.Errorf("row %d (run %s) is not what was copied; clear the target with perdure move --undo, and begin anew: %w", n+1, want.Run, history.ErrCorrupt)
		}
		if n++; n%uint64(m.o.BatchRows) == 0 {
			m.o.Progress(Progress{Stage: "compare", Kind: k, Rows: n})
		}
	}
	if got, err, more := next(); err != nil {
		return err
	} else if more {
		return fmt.Errorf("the target has a row (run %s) that the source has not: somebody works with it: %w", got.Run, history.ErrCorrupt)
	}
	m.report.Rows[k] = n
	return nil
}

// Undo takes a store out of a move: a source may be opened again, and a target that has not got everything is emptied. It
// returns the mark that the store had. Where that says that the move was done, the runs go on in the other store, and must not
// in both. A store without a mark matches history.ErrConflict.
func Undo(ctx context.Context, s Store) (Mark, error) {
	m, err := s.Mark(ctx)
	if err == nil && m.IsZero() {
		err = fmt.Errorf("it takes part in no move: %w", history.ErrConflict)
	}
	if err == nil && m.Role == Target {
		err = s.Clear(ctx)
	}
	if err == nil {
		err = s.SetMark(ctx, Mark{})
	}
	if err != nil {
		return m, fmt.Errorf("undo the move of %s: %w", s, err)
	}
	return m, nil
}
