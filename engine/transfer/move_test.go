package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/engine/pgstore/pgtest"
	"github.com/perdure/perdure/engine/storetest"
	"github.com/perdure/perdure/engine/transfer"
	"github.com/perdure/perdure/history"
)

// postgres is the tests' server.
var postgres = pgtest.Shared{Prepare: func(ctx context.Context, dsn string) error {
	_, err := pgstore.Migrate(ctx, dsn)
	return err
}}

func TestMain(m *testing.M) { os.Exit(postgres.Main(m)) }

// place is where a store is.
type place interface {
	open(clock *storetest.Clock) (engine.Store, error)
	transfer(t *testing.T) mover
}

type mover interface {
	transfer.Store
	io.Closer
}

type file string

func newFile(t *testing.T) place { return file(filepath.Join(t.TempDir(), "perdure.db")) }

func (f file) open(clock *storetest.Clock) (engine.Store, error) {
	return boltstore.Open(string(f), &boltstore.Options{Clock: clock.Now})
}

func (f file) transfer(t *testing.T) mover {
	t.Helper()
	m, err := boltstore.OpenTransfer(string(f), true, nil)
	ok(t, err)
	return m
}

type database string

func newDatabase(t *testing.T) place {
	t.Helper()
	return database(postgres.Prepared(t))
}

func (d database) open(clock *storetest.Clock) (engine.Store, error) {
	return pgstore.Open(context.Background(), string(d), &pgstore.Options{Clock: clock.Now})
}

func (d database) transfer(t *testing.T) mover {
	t.Helper()
	m, err := pgstore.OpenTransfer(context.Background(), string(d))
	ok(t, err)
	return m
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want one that matches %q", err, want)
	}
}

// kinds are the kinds of stores.
var kinds = map[string]func(t *testing.T) place{"file": newFile, "database": newDatabase}

// furnish makes a store with something of everything, and closes it.
func furnish(t *testing.T, p place) (*storetest.Furnished, *storetest.Clock) {
	t.Helper()
	clock := storetest.NewClock()
	s, err := p.open(clock)
	ok(t, err)
	defer s.Close() // where it fails; closing twice is no error
	f := storetest.Furnish(t, s, clock)
	ok(t, s.Close())
	return f, clock
}

// move moves a store in small batches, with each of the two opened for it.
func move(t *testing.T, from, to place) (transfer.Report, error) {
	t.Helper()
	a := from.transfer(t)
	defer a.Close()
	b := to.transfer(t)
	defer b.Close()
	return transfer.Move(t.Context(), a, b, transfer.Options{BatchRows: 7})
}

// dump is all rows of a store.
func dump(t *testing.T, p place) string {
	t.Helper()
	m := p.transfer(t)
	defer m.Close()
	var b strings.Builder
	for _, k := range transfer.Kinds() {
		for r, err := range m.Rows(t.Context(), k, transfer.Row{}) {
			ok(t, err)
			fmt.Fprintf(&b, "%s %s %q %d %q %d %d %x %x\n", k, r.Run, r.Tenant, r.Item, r.Key, r.Seq, r.At, r.Rec, r.State)
		}
	}
	return b.String()
}

// Everything arrives, in every direction, and the work goes on there; the source is closed to everybody.
func TestMove(t *testing.T) {
	for a, newA := range kinds {
		for b, newB := range kinds {
			t.Run(a+" to "+b, func(t *testing.T) {
				from, to := newA(t), newB(t)
				f, clock := furnish(t, from)
				report, err := move(t, from, to)
				ok(t, err)
				for _, k := range transfer.Kinds() {
					if report.Rows[k] == 0 {
						t.Errorf("the source has no %s: it is not tested that they are moved", k)
					}
				}
				_, err = from.open(clock)
				is(t, err, history.ErrMoved)
				s, err := to.open(clock)
				ok(t, err)
				defer s.Close()
				f.Check(t, s)
			})
		}
	}
}

// What comes back from a database is, row by row, what went there.
func TestRoundTrip(t *testing.T) {
	there, back := newDatabase(t), newFile(t)
	start := newFile(t)
	f, clock := furnish(t, start)
	before := dump(t, start)
	_, err := move(t, start, there)
	ok(t, err)
	_, err = move(t, there, back)
	ok(t, err)
	if after := dump(t, back); after != before {
		t.Errorf("after the round trip:\n%s\nbefore:\n%s", after, before)
	}
	s, err := back.open(clock)
	ok(t, err)
	defer s.Close()
	f.Check(t, s)
}

var errCut = errors.New("cut")

// cut is a store that fails in the n-th of its writes, or right after it.
type cut struct {
	mover
	n     *int
	after bool
}

func (c *cut) do(fn func() error) error {
	*c.n--
	switch {
	case *c.n > 0:
		return fn()
	case *c.n == 0 && c.after:
		return errors.Join(fn(), errCut)
	}
	return errCut
}

func (c *cut) SetMark(ctx context.Context, m transfer.Mark) error {
	return c.do(func() error { return c.mover.SetMark(ctx, m) })
}

func (c *cut) SetHead(ctx context.Context, h transfer.Head) error {
	return c.do(func() error { return c.mover.SetHead(ctx, h) })
}

func (c *cut) Put(ctx context.Context, rows []transfer.Row, m transfer.Mark) error {
	return c.do(func() error { return c.mover.Put(ctx, rows, m) })
}

func (c *cut) Clear(ctx context.Context) error {
	return c.do(func() error { return c.mover.Clear(ctx) })
}

// However often a move is cut off, before or after any of its writes: both stores are never open, and it can be gone on with.
func TestMoveCutOff(t *testing.T) {
	for a, newA := range kinds {
		for b, newB := range kinds {
			if a == b {
				continue
			}
			t.Run(a+" to "+b, func(t *testing.T) {
				from, to := newA(t), newB(t)
				f, clock := furnish(t, from)
				cuts := 0
				for more := true; more; cuts++ {
					n := 1 + cuts%4
					m, p := from.transfer(t), to.transfer(t)
					_, err := transfer.Move(t.Context(), &cut{m, &n, cuts%2 == 0}, &cut{p, &n, cuts%2 == 0}, transfer.Options{BatchRows: 40})
					ok(t, m.Close())
					ok(t, p.Close())
					// The last cut may have come after the last write: then it is done.
					if more = err != nil && !errors.Is(err, history.ErrMoved); more {
						is(t, err, errCut)
						notBoth(t, from, to, clock)
					}
				}
				if cuts < 5 {
					t.Errorf("it was cut off %d times", cuts)
				}
				s, err := to.open(clock)
				ok(t, err)
				defer s.Close()
				f.Check(t, s)
			})
		}
	}
}

// notBoth fails where both stores can be opened and one of them is not empty of runs.
func notBoth(t *testing.T, from, to place, clock *storetest.Clock) {
	t.Helper()
	a, err := from.open(clock)
	if err != nil {
		is(t, err, history.ErrMoved)
		return
	}
	defer a.Close()
	b, err := to.open(clock)
	if err != nil {
		is(t, err, history.ErrMoved)
		return
	}
	defer b.Close()
	page, err := b.List(t.Context(), engine.Filter{})
	ok(t, err)
	if len(page.Runs) > 0 {
		t.Fatal("both stores can be opened, and both have the runs")
	}
}

// A move that was taken back leaves the source as it was, and a target that may be moved into again.
func TestUndo(t *testing.T) {
	for name, newPlace := range kinds {
		t.Run(name, func(t *testing.T) {
			from, to := newPlace(t), newPlace(t)
			f, clock := furnish(t, from)
			m, p := from.transfer(t), to.transfer(t)
			n := 8
			_, err := transfer.Move(t.Context(), m, &cut{p, &n, true}, transfer.Options{BatchRows: 5})
			is(t, err, errCut)
			mark, err := transfer.Undo(t.Context(), m)
			ok(t, err)
			if mark.Done || mark.Role != transfer.Source || mark.Peer != p.String() {
				t.Errorf("the mark was %+v", mark)
			}
			_, err = transfer.Undo(t.Context(), m)
			is(t, err, history.ErrConflict)
			mark, err = transfer.Undo(t.Context(), p)
			ok(t, err)
			if mark.Role != transfer.Target {
				t.Errorf("the mark was %+v", mark)
			}
			ok(t, m.Close())
			ok(t, p.Close())
			if rows := dump(t, to); rows != "" {
				t.Errorf("the target has %s", rows)
			}
			_, err = move(t, from, to)
			ok(t, err)
			// Back again, also after it was done: the source goes on with what it had.
			m = from.transfer(t)
			if mark, err = transfer.Undo(t.Context(), m); err != nil || !mark.Done {
				t.Errorf("the mark was %+v: %v", mark, err)
			}
			ok(t, m.Close())
			s, err := from.open(clock)
			ok(t, err)
			defer s.Close()
			f.Check(t, s)
		})
	}
}

// A target that half got another store is cleared first.
func TestOtherMoveIsNotGoneOnWith(t *testing.T) {
	one, two, to := newFile(t), newFile(t), newDatabase(t)
	furnish(t, one)
	f, clock := furnish(t, two)
	m, p := one.transfer(t), to.transfer(t)
	n := 10
	_, err := transfer.Move(t.Context(), m, &cut{p, &n, true}, transfer.Options{BatchRows: 5})
	is(t, err, errCut)
	ok(t, m.Close())
	ok(t, p.Close())
	report, err := move(t, two, to)
	ok(t, err)
	if report.Resumed {
		t.Error("it says that it went on")
	}
	s, err := to.open(clock)
	ok(t, err)
	defer s.Close()
	f.Check(t, s)
	// The first one cannot be gone on with into a store that is in use.
	_, err = move(t, one, to)
	is(t, err, history.ErrConflict)
}

func TestMoveRefuses(t *testing.T) {
	for name, newPlace := range kinds {
		t.Run(name, func(t *testing.T) {
			from, to := newPlace(t), newPlace(t)
			f, clock := furnish(t, from)
			furnish(t, to)
			_, err := move(t, from, to)
			is(t, err, history.ErrConflict) // it is not empty
			s, err := from.open(clock)      // and the source is as it was
			ok(t, err)
			f.Check(t, s)
			ok(t, s.Close())
			third := newPlace(t)
			_, err = move(t, from, third)
			ok(t, err)
			_, err = move(t, from, newPlace(t)) // it was moved
			is(t, err, history.ErrMoved)
			_, err = move(t, third, from) // into one that was moved away
			is(t, err, history.ErrMoved)
		})
	}
}
