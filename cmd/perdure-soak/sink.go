package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// sink is the world that the runs' steps act on: an HTTP server in this process, which outlives every server under test.
type sink struct {
	witness *witness
	http    *http.Server
	address string
	life    atomic.Int64 // of the server under test
	open    atomic.Int64 // connections
}

func newSink(w *witness) (*sink, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	s := &sink{witness: w, address: l.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /step", s.step)
	mux.HandleFunc("GET /settle", func(http.ResponseWriter, *http.Request) {})
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ConnState: s.connection}
	go func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			w.violate("broken", 0, "the sink has ended: %v", err)
		}
	}()
	return s, nil
}

func (s *sink) connection(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
	}
}

// arrival is a step's request.
type arrival struct {
	N      int    `json:"n"`
	Run    string `json:"run"`
	Step   string `json:"step"`
	Deploy int    `json:"deploy"`
	key    string
}

// slowest is the longest that a step takes, so that kills also come between its effect and its record.
const slowest = 100 * time.Millisecond

func (s *sink) step(w http.ResponseWriter, r *http.Request) {
	var a arrival
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&a); err != nil {
		if r.Context().Err() == nil { // else its server was killed while it wrote
			s.witness.violate("broken", 0, "a step's request does not decode: %v", err)
		}
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.key = r.Header.Get("Idempotency-Key")
	status := s.witness.executed(a, int(s.life.Load()), time.Now())
	select {
	case <-time.After(rand.N(slowest)):
	case <-r.Context().Done():
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(a.Step)) // its server may be gone
}

// settle waits until everything that a server sent before its end has arrived: connections are taken in order, so those
// that were made before the one of settle are known when it has its answer.
func (s *sink) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/settle", nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	if err := res.Body.Close(); err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	for s.open.Load() > 0 {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("sink: %d connections of a server that is gone stay open: %w", s.open.Load(), ctx.Err())
		}
	}
	return nil
}

func (s *sink) close() error { return s.http.Close() }

// executed notes the execution of a step, and says how the sink answers it.
func (w *witness) executed(a arrival, life int, now time.Time) (status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Executions++
	w.write("step", a.N, a.Step)
	r := w.runs[a.N]
	if r == nil {
		w.found("duplicated", a.N, "step %s of run %s is executed; nobody has started it, or it is long over", a.Step, a.Run)
		return http.StatusGone
	}
	w.identify(r, &a)
	x := r.seen[a.Step]
	if x == nil {
		x = &execution{key: a.key, first: now}
		r.seen[a.Step] = x
	}
	w.compare(r, &a, x, life)
	x.count++
	x.last = now
	if r.kind == nap && a.Step == "end" && x.count == 1 {
		w.punctual(r, now)
	}
	switch {
	case a.Step == "flaky" && x.count == 1:
		w.counts.Refused++
		return http.StatusServiceUnavailable
	case a.Step == "refused":
		w.counts.Refused++
		x.accepted = life
		return http.StatusBadRequest
	}
	x.accepted = life
	return http.StatusOK
}

// identify holds who a step says that it is against what is known. w.mu is held.
func (w *witness) identify(r *record, a *arrival) {
	if r.run == "" {
		r.run, r.deploy = a.Run, a.Deploy
	}
	if a.Run != r.run {
		w.found("duplicated", r.n, "the call with key %s has the runs %s and %s", r.key(), r.run, a.Run)
	}
	if a.Deploy != r.deploy {
		w.found("wrong", r.n, "step %s is executed under the definition of deploy %d, the run began under %d", a.Step, a.Deploy, r.deploy)
	}
	if !slices.Contains(steps[r.kind], a.Step) && (r.kind != endless || a.Step != "begin") {
		w.found("wrong", r.n, "%s executes step %s, which it does not come to", r.kind, a.Step)
	}
	owner := fmt.Sprintf("%s of run %d", a.Step, r.n)
	if first := w.keys[a.key]; a.key == "" || first != "" && first != owner {
		w.found("wrong", r.n, "step %s has the idempotency key %q, which belongs to step %s", a.Step, a.key, first)
	}
	w.keys[a.key] = owner
}

// compare holds an execution against those before it. A step may be executed again only while it has no record: not
// after a later step has begun, not after the run's end, and where an execution was accepted only by another server
// process. w.mu is held.
func (w *witness) compare(r *record, a *arrival, x *execution, life int) {
	if a.key != x.key {
		w.found("wrong", r.n, "step %s has the idempotency keys %q and %q", a.Step, x.key, a.key)
	}
	for step, later := range r.seen {
		if order[step] > order[a.Step] && later.count > 0 {
			w.found("duplicated", r.n, "step %s is executed, for the %d. time, after step %s", a.Step, x.count+1, step)
			return
		}
	}
	switch {
	case r.final != nil && r.kind != endless: // a cancel ends a run while a step's request is on its way
		w.found("duplicated", r.n, "step %s is executed, for the %d. time, after the run's end", a.Step, x.count+1)
	case x.accepted == life:
		w.found("duplicated", r.n, "step %s is executed twice by one server process", a.Step)
	case x.accepted != 0:
		w.counts.Repeated++
	}
}

// slack is what the clocks of two processes may differ over the longest nap: server time is the wall clock's, ours the
// monotonic one.
const slack = 10 * time.Millisecond

// punctual measures a timer: it was set when the newest execution of the step before was over, at the earliest when that
// arrived. w.mu is held.
func (w *witness) punctual(r *record, now time.Time) {
	before := r.seen["begin"]
	if before == nil {
		return // compare has found it
	}
	due := before.last.Add(r.nap)
	if now.Before(due.Add(-slack)) {
		w.found("early", r.n, "the timer of %s fired %s early", r.nap, due.Sub(now))
		return
	}
	late := max(0, now.Sub(due)-w.absent(due, now))
	w.late.timers = append(w.late.timers, late)
	if late > w.limit {
		w.found("late", r.n, "the timer of %s fired %s late", r.nap, late.Round(time.Millisecond))
	}
}
