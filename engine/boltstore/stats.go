package boltstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"os"
	"slices"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Stats is how a store stands.
type Stats struct {
	Path   string `json:"path"`
	Format uint64 `json:"format"`
	Epoch  uint64 `json:"epoch"`
	// FileBytes is the size of the file, Growth what it gained since it was opened, FreeBytes the part of it that is free to
	// be written again. The file never shrinks: Compact writes it anew.
	FileBytes int64 `json:"fileBytes"`
	Growth    int64 `json:"growth"`
	FreeBytes int64 `json:"freeBytes"`
	// HighWater is the use above which new runs are refused (0: none), Limit the size that the file may have (0: none),
	// Ballast the room that is kept for a full disk. Refusing says why no new runs are taken; "" where they are.
	HighWater int64  `json:"highWater,omitempty"`
	Limit     int64  `json:"limit,omitempty"`
	Ballast   int64  `json:"ballast,omitempty"`
	Refusing  string `json:"refusing,omitempty"`
	// Lacking counts the groups of writes that are in the log only, of a file that was not closed and cannot be written: what is
	// read is without them.
	Lacking int `json:"lacking,omitempty"`
	// Runs counts runs by status; running ones count as ready.
	Runs map[string]int `json:"runs"`
	// Lines are the queues of ready runs, longest first.
	Lines []engine.LineStats `json:"lines,omitempty"`
	// Timers and Tombstones count rows; NextTimer is the earliest (zero: none). Holds counts legal holds in force, Erasing
	// deleted runs whose rows have not all left.
	Timers     int          `json:"timers"`
	NextTimer  history.Time `json:"nextTimer,omitempty"`
	Tombstones int          `json:"tombstones"`
	Holds      int          `json:"holds"`
	Erasing    int          `json:"erasing"`
}

// Stats counts. It walks the indexes, a stretch at a time: a million runs take a second or two.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	st := Stats{
		Path: s.path, Epoch: s.epoch, Runs: map[string]int{}, HighWater: s.highWater, Limit: int64(s.maxSize), Ballast: s.ballast.size, Lacking: s.lacking,
	}
	lines := map[engine.LineStats]*engine.LineStats{}
	var used int64 // the pages that ever had something; bbolt lets the file grow in larger steps
	err := s.view(ctx, "stats", func(v *view) error {
		m, err := readMeta(v.tx)
		st.Format, used = m.format, v.tx.Size()
		return err
	})
	for _, walk := range []struct {
		bucket bucketID
		row    func(k, val []byte)
	}{
		{bStatus, func(k, _ []byte) { st.Runs[history.Status(k[0]).String()]++ }},
		{bReady, func(k, _ []byte) { countLine(lines, k) }},
		{bTimers, func(k, _ []byte) {
			if st.Timers++; st.Timers == 1 {
				st.NextTimer = timeOf(k)
			}
		}},
		{bDeleted, func(_, _ []byte) { st.Tombstones++ }},
		{bErasing, func(_, _ []byte) { st.Erasing++ }},
	} {
		if err == nil {
			err = s.eachRow(ctx, walk.bucket, walk.row)
		}
	}
	if err != nil {
		return Stats{}, err
	}
	holds, err := s.Holds(ctx, false)
	if err != nil {
		return Stats{}, err
	}
	st.Holds = len(holds)
	for _, l := range lines {
		st.Lines = append(st.Lines, *l)
	}
	slices.SortFunc(st.Lines, func(a, b engine.LineStats) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Queue, b.Queue))
	})
	info, err := os.Stat(s.path)
	if err != nil {
		return Stats{}, s.wrap("stats", err)
	}
	st.FileBytes, st.Growth = info.Size(), info.Size()-s.sizeAtOpen
	st.FreeBytes = s.free() + max(0, st.FileBytes-used)
	if !s.ro {
		if err := s.roomForRuns(ctx); err != nil {
			st.Refusing = err.Error()
		}
	}
	return st, nil
}

// countLine counts a row of the ready index.
func countLine(lines map[engine.LineStats]*engine.LineStats, k []byte) {
	if len(k) < readySuffix {
		return
	}
	n, ok := splitLine(string(k[:len(k)-readySuffix]))
	if !ok || n.workflow < 5 {
		return // Verify names it
	}
	key := engine.LineStats{
		Workflow: string(k[1 : n.workflow-4]), Version: int(binary.BigEndian.Uint32(k[n.workflow-4:])), Queue: n.queue,
	}
	l := lines[key]
	if l == nil {
		l = &engine.LineStats{Workflow: key.Workflow, Version: key.Version, Queue: key.Queue}
		lines[key] = l
	}
	l.Runs++
	if at := timeOf(k[len(k)-runLen-8:]); l.Oldest == 0 || at < l.Oldest {
		l.Oldest = at
	}
}

// eachRow calls fn for each row of a bucket, in read transactions of bounded length. The slices are only valid in the call.
func (s *Store) eachRow(ctx context.Context, b bucketID, fn func(k, val []byte)) error {
	var last []byte
	for more := true; more; {
		err := s.view(ctx, "stats", func(v *view) error {
			began, n := time.Now(), 0
			for k, val := range v.scan(b, nil, last) {
				if last != nil && bytes.Equal(k, last) {
					continue
				}
				fn(k, val)
				if n++; n%readStep == 0 && time.Since(began) > readStretch {
					last = bytes.Clone(k)
					return nil
				}
			}
			more = false
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
