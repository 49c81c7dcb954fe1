package simtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/storetest/memstore"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// world is one simulated system.
type world struct {
	loop
	sc *scenario
	// rng decides what the scenario leaves open: how long things take, and which hints are lost.
	rng *rand.Rand

	disk  *memstore.Disk
	store engine.Store // nil while it is closed
	// mono is what a machine's monotonic clock gained over the true time, wall what its wall clock did; the latter shows
	// only to a store that opens.
	mono, wall time.Duration
	shown      history.Time // the newest time that anybody was shown

	code     *program
	workers  []*worker
	ids      uint64
	messages int
	faults   map[int]fault
	healed   bool
	oracle   *oracle
	kernel   kernel.Options
}

var begin = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func newWorld(sc *scenario, keepTrace bool) *world {
	w := &world{sc: sc, rng: rand.New(rand.NewPCG(sc.Seed, 2)), disk: memstore.NewDisk(), faults: map[int]fault{}}
	w.trace.keep, w.trace.seen = keepTrace, map[string]int{}
	w.oracle = newOracle(w)
	w.code = newProgram(w.oracle.entered)
	w.kernel = kernel.Options{
		Log:    slog.New(slog.NewTextHandler(io.Discard, nil)),
		Random: w.rng.Float64,
		NewID:  func(now history.Time) history.RunID { return w.newID(now) },
	}
	return w
}

// newID makes ids of runs that are the same in each execution of the seed.
func (w *world) newID(now history.Time) (id history.RunID) {
	w.ids++
	if err := id.SetTime(uint64(now.Std().UnixMilli())); err != nil {
		panic(err) // no clock of a scenario leaves this century
	}
	binary.BigEndian.PutUint64(id[8:], w.ids)
	return id
}

// open opens the store: what was in its memory, leases above all, is gone.
func (w *world) open() {
	if w.store != nil {
		return
	}
	opened, at := begin.Add(w.now+w.mono+w.wall), w.now+w.mono
	s, err := memstore.Open(w.disk, func() time.Time { return opened.Add(w.now + w.mono - at) })
	if err != nil {
		panic(err) // the loop closes it before it opens it
	}
	w.store = s
	w.note("store opens at %s", opened.Format(time.RFC3339Nano))
	w.oracle.opened()
	s.Subscribe(w.changed)
}

func (w *world) close() {
	if w.store == nil {
		return
	}
	w.oracle.look()
	if err := w.store.Close(); err != nil {
		panic(err) // a memstore's close does not fail
	}
	w.store = nil
	w.note("store closes")
}

// storeNow is the store's time; while it is closed, the last one.
func (w *world) storeNow() history.Time {
	if w.store != nil {
		now := w.store.Now()
		if now < w.shown {
			w.oracle.fail("clock", "the store's time went back from %s to %s", w.shown, now)
		}
		w.shown = now
	}
	return w.shown
}

// changed passes the store's hints on: late, twice, or not at all.
func (w *world) changed(c engine.Change) {
	for _, k := range w.workers {
		times := 1
		if !w.healed {
			switch r := w.rng.Float64(); {
			case r < w.sc.HintLoss:
				times = 0
			case r < w.sc.HintLoss*1.2:
				times = 2
			}
		}
		for range times {
			k.after(w.latency(), func() { k.notify(c) })
		}
	}
}

// latency is how long a message takes.
func (w *world) latency() time.Duration {
	if w.rng.IntN(20) == 0 {
		return time.Duration(w.rng.IntN(2000)) * time.Millisecond
	}
	return time.Duration(100+w.rng.IntN(5000)) * time.Microsecond
}

var (
	errUnreachable = errors.New("the store cannot be reached")
	errNoReply     = fmt.Errorf("no reply came: %w", context.DeadlineExceeded)
)

// patience is how long a caller waits for a reply.
const patience = 10 * time.Second

// caller is who sent a request, and gets the reply if it is still there.
type caller interface{ reply(fn func()) }

// call sends a request to the store, under the fault that the scenario has for this message.
func call[T any](w *world, from caller, op string, request func(engine.Store) (T, error), done func(T, error)) {
	w.messages++
	n := w.messages
	f := w.faults[n]
	if w.healed {
		f = fault{}
	}
	var none T
	arrive := func(then func(T, error)) {
		if w.store == nil {
			w.note("#%d %s finds no store", n, op)
			then(none, errUnreachable)
			return
		}
		v, err := request(w.store)
		w.note("#%d %s: %s", n, op, outcome(err))
		w.refused(err)
		w.oracle.look()
		then(v, err)
	}
	answer := func(d time.Duration) func(T, error) {
		return func(v T, err error) { w.after(d, func() { from.reply(func() { done(v, err) }) }) }
	}
	ignore := func(T, error) {}
	there, back := w.latency(), w.latency()
	if f.Kind != "" {
		w.note("#%d %s will be: %s", n, op, f.Kind)
		w.trace.seen["fault: "+f.Kind]++
	}
	switch f.Kind {
	case "before":
		answer(there+back)(none, errUnreachable)
	case "after":
		w.after(there, func() { arrive(func(T, error) { answer(back)(none, errUnreachable) }) })
	case "lost request":
		answer(patience)(none, errNoReply)
	case "lost reply":
		w.after(there, func() { arrive(ignore) })
		answer(patience)(none, errNoReply)
	case "late":
		w.after(patience+f.D, func() { arrive(ignore) })
		answer(patience)(none, errNoReply)
	case "slow":
		w.after(f.D, func() { arrive(answer(back)) })
	case "slow reply":
		w.after(there, func() { arrive(answer(f.D)) })
	case "twice":
		w.after(there, func() { arrive(answer(back)) })
		w.after(there+f.D, func() { arrive(ignore) })
	default:
		w.after(there, func() { arrive(answer(back)) })
	}
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

// refused counts the errors that the store answers with.
func (w *world) refused(err error) {
	for _, class := range refusals {
		if errors.Is(err, class) {
			w.trace.seen["refused: "+class.Error()]++
		}
	}
}

// refusals are the errors that a simulated store must have answered with at some time.
var refusals = []error{
	history.ErrFenced, history.ErrSequence, history.ErrInboxMoved, history.ErrAnswered, history.ErrConflict, history.ErrExpired, history.ErrTerminal,
}
