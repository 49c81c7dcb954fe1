package commitpath

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

const (
	// writers commit at the same time: what a busy process has in flight.
	writers = 64
	// slice is how many commits each writer makes before it is the other's turn.
	slice = 200
)

// stored is boltstore with runs that are held, one for each writer.
type stored struct {
	store *boltstore.Store
	runs  []history.Run
	token []history.Token
}

func openStored(path string) (*stored, error) {
	store, err := boltstore.Open(path, nil)
	if err != nil {
		return nil, err
	}
	s := &stored{store: store}
	for i := range writers {
		queue := fmt.Sprint("w", i)
		run, _, err := store.Start(context.Background(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Queue: queue}, Input: []byte(`{"n":1}`)})
		if err != nil {
			return nil, err
		}
		cs, err := store.Claim(context.Background(), history.ClaimRequest{
			Owner: queue, Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Queues: []string{queue}, Max: 1, TTL: time.Hour,
		})
		if err != nil {
			return nil, err
		}
		if len(cs) != 1 || cs[0].Run.ID != run.ID {
			return nil, fmt.Errorf("claimed %d runs", len(cs))
		}
		s.runs, s.token = append(s.runs, cs[0].Run), append(s.token, cs[0].Token)
	}
	return s, nil
}

// step commits one step of a writer's run.
func (s *stored) step(i int) error {
	run := &s.runs[i]
	state, err := s.store.Commit(context.Background(), history.Batch{
		Run: run.ID, Token: s.token[i], After: run.Seq, Head: run.Head, Next: history.NextRunning,
		Events: []history.Event{{Seq: run.Seq + 1, Kind: history.StepCompleted, Position: history.Position(fmt.Sprint("a#", run.Seq)), Payload: []byte(`{"ok":true}`)}},
	})
	run.State = state
	return err
}

// bare is the loop, writing what boltstore wrote for the same step.
type bare struct {
	loop         *loop
	runs         [][]byte // keys of states
	seq          []uint64
	event, state []byte
}

// openBare takes the rows' form from a file that boltstore has written two steps of each run to.
func openBare(path, sample string) (*bare, error) {
	b := &bare{}
	err := readRows(sample, func(bucket string, k, v []byte) {
		switch bucket {
		case "events":
			if binary.BigEndian.Uint64(k[16:]) == 3 {
				b.event = bytes.Clone(v)
			}
		case "states":
			b.runs, b.state = append(b.runs, bytes.Clone(k)), bytes.Clone(v)
		}
	})
	if err != nil {
		return nil, err
	}
	if len(b.runs) != writers || b.event == nil {
		return nil, fmt.Errorf("the sample has %d runs and an event of %d bytes", len(b.runs), len(b.event))
	}
	b.seq = make([]uint64, writers)
	for i := range b.seq {
		b.seq[i] = 1 // boltstore's runs have their start
	}
	b.loop, err = openLoop(path, "events", "states", "meta")
	return b, err
}

// step writes the event and the state of a writer's run, and the time of the transaction.
func (b *bare) step(i int) error {
	b.seq[i]++
	key := binary.BigEndian.AppendUint64(bytes.Clone(b.runs[i]), b.seq[i])
	return b.loop.write(&commit{done: make(chan error, 1), rows: []row{
		{[]byte("events"), key, bytes.Clone(b.event)},
		{[]byte("states"), b.runs[i], bytes.Clone(b.state)},
		{[]byte("meta"), []byte("time"), binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))},
	}})
}

func readRows(path string, fn func(bucket string, k, v []byte)) error {
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	err = db.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				fn(string(name), k, v)
				return nil
			})
		})
	})
	if e := db.Close(); err == nil {
		err = e
	}
	return err
}

// turn lets each writer make n commits and returns how long all took.
func turn(n int, step func(i int) error) (time.Duration, error) {
	var g errgroup.Group
	began := time.Now()
	for i := range writers {
		g.Go(func() error {
			for range n {
				if err := step(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := g.Wait()
	return time.Since(began), err
}

// open makes both, boltstore's file having been sampled.
func open(tb testing.TB) (*stored, *bare) {
	tb.Helper()
	dir := tb.TempDir()
	sample, err := openStored(filepath.Join(dir, "sample.db"))
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := turn(2, sample.step); err != nil {
		tb.Fatal(err)
	}
	if err := sample.store.Close(); err != nil {
		tb.Fatal(err)
	}
	s, err := openStored(filepath.Join(dir, "stored.db"))
	if err != nil {
		tb.Fatal(err)
	}
	b, err := openBare(filepath.Join(dir, "bare.db"), filepath.Join(dir, "sample.db"))
	if err != nil {
		tb.Fatal(err)
	}
	return s, b
}

// BenchmarkCommitPath lets boltstore and the bare loop commit in turns, 64 writers each, and reports both and their ratio.
func BenchmarkCommitPath(b *testing.B) {
	s, l := open(b)
	var ours, theirs time.Duration
	for n := 0; b.Loop(); n++ {
		halves := []func() error{
			func() error { d, err := turn(slice, s.step); ours += d; return err },
			func() error { d, err := turn(slice, l.step); theirs += d; return err },
		}
		for i := range halves {
			if err := halves[(i+n)%2](); err != nil {
				b.Fatal(err)
			}
		}
	}
	commits := float64(b.N * writers * slice)
	b.ReportMetric(commits/ours.Seconds(), "boltstore-commits/s")
	b.ReportMetric(commits/theirs.Seconds(), "bare-commits/s")
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "ratio")
	if err := s.store.Close(); err != nil {
		b.Error(err)
	}
	if err := l.loop.close(); err != nil {
		b.Error(err)
	}
}

// The comparison is fair only if both write the same: as many keys and about as many bytes in the buckets that a step
// changes, and boltstore nothing in any other.
func TestBothWriteTheSame(t *testing.T) {
	s, l := open(t)
	stored, bare := s.store.Path(), l.loop.db.Path()
	for _, step := range []func(int) error{s.step, l.step} {
		if _, err := turn(10, step); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.loop.close(); err != nil {
		t.Fatal(err)
	}
	unstepped, err := openStored(filepath.Join(t.TempDir(), "unstepped.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unstepped.store.Close(); err != nil {
		t.Fatal(err)
	}
	before, ours, theirs := sizes(t, unstepped.store.Path()), sizes(t, stored), sizes(t, bare)
	for _, bucket := range []string{"events", "states"} {
		g, w := theirs[bucket], ours[bucket]
		if g.keys == 0 || g.keys != w.keys || g.bytes < w.bytes*95/100 || g.bytes > w.bytes*105/100 {
			t.Errorf("%s: the bare loop wrote %d keys of %d bytes, boltstore %d of %d", bucket, g.keys, g.bytes, w.keys, w.bytes)
		}
		delete(ours, bucket)
	}
	delete(ours, "meta")
	for bucket, w := range ours {
		if w != before[bucket] {
			t.Errorf("a step changes bucket %s from %v to %v, the bare loop does not", bucket, before[bucket], w)
		}
	}
}

type size struct{ keys, bytes int }

// sizes sums up the buckets of a file, without the first event of each run: the loop has no starts.
func sizes(t *testing.T, path string) map[string]size {
	t.Helper()
	m := make(map[string]size)
	err := readRows(path, func(bucket string, k, v []byte) {
		if bucket == "events" && binary.BigEndian.Uint64(k[16:]) == 1 {
			return
		}
		sz := m[bucket]
		m[bucket] = size{sz.keys + 1, sz.bytes + len(k) + len(v)}
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
