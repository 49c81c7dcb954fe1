package simtest

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"time"
)

// loop is the event loop: what happens, in the order of virtual time, and at one instant in the order of scheduling.
type loop struct {
	now   time.Duration // since the beginning
	count uint64
	queue events
	trace trace
}

type event struct {
	at  time.Duration
	seq uint64
	fn  func()
}

// after schedules fn.
func (l *loop) after(d time.Duration, fn func()) {
	l.count++
	heap.Push(&l.queue, event{l.now + max(d, 0), l.count, fn})
}

// runUntil lets everything happen that is due before the end; stop is asked after each event.
func (l *loop) runUntil(end time.Duration, stop func() bool) {
	for len(l.queue) > 0 && l.queue[0].at <= end {
		e := heap.Pop(&l.queue).(event)
		l.now = e.at
		e.fn()
		if stop() {
			return
		}
	}
	l.now = max(l.now, end)
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1].fn = nil
	*q = old[:len(old)-1]
	return e
}

// trace is what happened: a digest of its lines, and the lines where they are kept.
type trace struct {
	sum  uint64
	keep bool
	line []string
	buf  []byte
	// seen counts what came about, by name.
	seen map[string]int
}

// note adds a line.
func (l *loop) note(format string, args ...any) {
	t := &l.trace
	t.buf = fmt.Appendf(t.buf[:0], "%12s  ", l.now)
	t.buf = fmt.Appendf(t.buf, format, args...)
	h := fnv.New64a()
	fmt.Fprintf(h, "%016x", t.sum)
	h.Write(t.buf)
	t.sum = h.Sum64()
	if t.keep {
		t.line = append(t.line, string(t.buf))
	}
}
