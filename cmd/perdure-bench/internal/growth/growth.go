// Package growth measures what a large file and a long run cost: commits on files of several sizes, and the steps of runs of
// several lengths, as they are started, replayed and shown.
package growth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/proc"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

// Options of a measurement.
type Options struct {
	// Sizes are the sizes of the file in bytes, rising.
	Sizes []int64
	// Events is how many events are committed for a figure, Writers how many writers do that at once.
	Events, Writers int
	// Dir is where the file is; it must be empty.
	Dir      string
	Progress io.Writer
}

// Size is what a file of a size costs.
type Size struct {
	File int64
	Runs int
	// Of commits of one event each; Written is in bytes.
	EventsPerSecond, Written float64
	CPU, P50, P99            time.Duration
	// List is a page of 100 runs: of all, and of a tenant that has the oldest 100.
	List, ListOfTenant time.Duration
	// Open is an Open after an orderly close, OpenAfterCrash one of a file that was not closed.
	Open, OpenAfterCrash time.Duration
}

const (
	code = "grow"
	// Each run that fills the file has so many events of so many bytes, all in one commit.
	fillEvents  = 40
	fillPayload = 512
	rare        = "rare"
)

// Sizes measures files of the sizes of o.
func Sizes(ctx context.Context, o Options) (sizes []Size, err error) {
	path := filepath.Join(o.Dir, "growth.db")
	s, err := boltstore.Open(path, nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	m := &measure{opts: o, path: path}
	for range 100 {
		if err := m.fill(ctx, s, rare); err != nil {
			return nil, err
		}
	}
	for _, want := range o.Sizes {
		if err := m.grow(ctx, s, want); err != nil {
			return sizes, fmt.Errorf("fill to %d bytes: %w", want, err)
		}
		x := Size{Runs: int(m.runs.Load())}
		if err := m.commits(ctx, s, &x); err != nil {
			return sizes, err
		}
		if err := m.lists(ctx, s, &x); err != nil {
			return sizes, err
		}
		if s, err = m.opens(s, &x); err != nil {
			return sizes, err
		}
		if x.File, err = fileSize(path); err != nil {
			return sizes, err
		}
		sizes = append(sizes, x)
	}
	return sizes, nil
}

// measure is a measurement at work.
type measure struct {
	opts Options
	path string
	runs atomic.Int64
}

// grow adds finished runs until the file has the size.
func (m *measure) grow(ctx context.Context, s *boltstore.Store, want int64) error {
	began, said := time.Now(), time.Now()
	for {
		size, err := fileSize(m.path)
		if err != nil {
			return err
		}
		if size >= want {
			return nil
		}
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			fmt.Fprintf(m.opts.Progress, "%d of %d MiB, %s\n", size>>20, want>>20, time.Since(began).Round(time.Second))
		}
		g, ctx := errgroup.WithContext(ctx)
		for range m.opts.Writers {
			g.Go(func() error {
				for range 4 {
					if err := m.fill(ctx, s, ""); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
}

// fill adds one finished run.
func (m *measure) fill(ctx context.Context, s *boltstore.Store, tenant string) error {
	h, err := m.hold(ctx, s, tenant)
	if err != nil {
		return err
	}
	var events []history.Event
	for i := range fillEvents {
		events = append(events, stepEvent(uint64(2+i), i))
	}
	events = append(events, history.Event{Seq: fillEvents + 2, Kind: history.RunCompleted, Payload: []byte("1")})
	_, err = s.Commit(ctx, history.Batch{Run: h.Run.ID, Token: h.Token, After: 1, Head: h.Run.Head, Events: events, Next: history.NextClosed})
	return err
}

// hold starts a run on a queue of its own and claims it.
func (m *measure) hold(ctx context.Context, s *boltstore.Store, tenant string) (history.Claim, error) {
	queue := fmt.Sprint("q", m.runs.Add(1))
	if _, _, err := s.Start(ctx, &history.Start{Spec: history.Spec{Workflow: code, Version: 1, Queue: queue, Tenant: tenant}, Input: []byte("1")}); err != nil {
		return history.Claim{}, err
	}
	claims, err := s.Claim(ctx, history.ClaimRequest{
		Owner: "growth", Workflows: []history.WorkflowKey{{Name: code, Version: 1}}, Queues: []string{queue}, Max: 1, TTL: time.Hour,
	})
	if err != nil {
		return history.Claim{}, err
	}
	if len(claims) != 1 {
		return history.Claim{}, fmt.Errorf("claim of one run gave %d", len(claims))
	}
	return claims[0], nil
}

func stepEvent(seq uint64, i int) history.Event {
	payload := slices.Concat([]byte(`"`), slices.Repeat([]byte{byte('a' + i%26)}, fillPayload-2), []byte(`"`))
	return history.Event{Seq: seq, Kind: history.StepCompleted, Position: history.Position(fmt.Sprint("step#", i)), Op: "step", Payload: payload}
}

// commits measures commits of one event.
func (m *measure) commits(ctx context.Context, s *boltstore.Store, x *Size) error {
	before, err := proc.Used()
	if err != nil {
		return err
	}
	var left atomic.Int64
	left.Store(int64(m.opts.Events))
	var mu sync.Mutex // guards seen
	var seen []time.Duration
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	for range m.opts.Writers {
		g.Go(func() error {
			took, err := m.write(ctx, s, &left)
			mu.Lock()
			seen = append(seen, took...)
			mu.Unlock()
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := proc.Used()
	if err != nil {
		return err
	}
	slices.Sort(seen)
	n := float64(len(seen))
	x.EventsPerSecond, x.Written = n/took.Seconds(), float64(after.Written-before.Written)/n
	x.CPU = (after.CPU - before.CPU) / time.Duration(len(seen))
	x.P50, x.P99 = seen[(len(seen)-1)/2], seen[(len(seen)-1)*99/100]
	return nil
}

// write commits events to one run until none are left.
func (m *measure) write(ctx context.Context, s *boltstore.Store, left *atomic.Int64) (took []time.Duration, err error) {
	h, err := m.hold(ctx, s, "")
	if err != nil {
		return nil, err
	}
	state := h.Run.State
	for n := 0; left.Add(-1) >= 0; n++ {
		began := time.Now()
		state, err = s.Commit(ctx, history.Batch{
			Run: h.Run.ID, Token: h.Token, After: state.Seq, Head: state.Head, Next: history.NextRunning, Events: []history.Event{stepEvent(state.Seq+1, n)},
		})
		if err != nil {
			return took, err
		}
		took = append(took, time.Since(began))
	}
	_, err = s.Commit(ctx, history.Batch{
		Run: h.Run.ID, Token: h.Token, After: state.Seq, Head: state.Head, Next: history.NextClosed,
		Events: []history.Event{{Seq: state.Seq + 1, Kind: history.RunCompleted, Payload: []byte("1")}},
	})
	return took, err
}

// lists measures pages, as the median of some.
func (m *measure) lists(ctx context.Context, s *boltstore.Store, x *Size) error {
	tenant := rare
	for _, l := range []struct {
		f    engine.Filter
		into *time.Duration
	}{{engine.Filter{}, &x.List}, {engine.Filter{Tenant: &tenant}, &x.ListOfTenant}} {
		var seen []time.Duration
		for range 21 {
			began := time.Now()
			page, err := s.List(ctx, l.f)
			if err != nil {
				return err
			}
			if len(page.Runs) != 100 {
				return fmt.Errorf("a page has %d runs, want 100", len(page.Runs))
			}
			seen = append(seen, time.Since(began))
		}
		slices.Sort(seen)
		*l.into = seen[len(seen)/2]
	}
	return nil
}

// opens closes the file and opens it twice: as it is, and as a copy that was made before the close, which is what a crash
// leaves.
func (m *measure) opens(s *boltstore.Store, x *Size) (*boltstore.Store, error) {
	const log = ".log"
	crashed := m.path + ".crashed"
	if err := errors.Join(copyFile(m.path, crashed), copyFile(m.path+log, crashed+log), s.Close()); err != nil { // nothing is written meanwhile
		return nil, err
	}
	began := time.Now()
	c, err := boltstore.Open(crashed, nil)
	if err != nil {
		return nil, err
	}
	x.OpenAfterCrash = time.Since(began)
	if err := errors.Join(c.Close(), os.Remove(crashed)); err != nil {
		return nil, err
	}
	began = time.Now()
	s, err = boltstore.Open(m.path, nil)
	x.Open = time.Since(began)
	return s, err
}

// copyFile makes a copy that is on the disk: the opening of one that is not would be measured with the writing of it.
func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	dst, err := os.Create(to)
	if err != nil {
		return errors.Join(err, src.Close())
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, src.Close(), dst.Sync(), dst.Close())
}

func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
