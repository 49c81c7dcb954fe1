package disktest

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/engine/disktest/faultfs"
)

// number reads a variable that makes the test longer or repeats it.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a positive number", name, s)
	}
	return n
}

// record runs the workload on a disk and returns what the disk saw.
func record(t *testing.T, seed uint64, ops int) []faultfs.Op {
	t.Helper()
	disk := mount(t)
	b, err := json.Marshal(job{Dir: disk.Dir(), Seed: seed, Ops: ops})
	if err != nil {
		t.Fatal(err)
	}
	cmd := child("workload")
	cmd.Env = append(cmd.Env, envJob+"="+string(b))
	log := &tail{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the workload of seed %d: %v\n%s", seed, err, log)
	}
	return disk.Recording()
}

// scratch is a folder in memory where the system has one: images are synced many thousands of times.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "perdure-disktest-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// opener returns the program that opens images: this binary, or where it has the race detector one that has not, because
// it opens many thousands from one goroutine each. Its stores are raced for in all the other tests.
func opener(t *testing.T) string {
	t.Helper()
	if !raceDetector {
		return os.Args[0]
	}
	path := filepath.Join(t.TempDir(), "opener")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-o", path, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build of the program that opens images: %v\n%s", err, out)
	}
	return path
}

// outcome sums up the verdicts on a recording.
type outcome struct {
	program string // that opens images

	mu             sync.Mutex
	images, opened int      // guarded by mu
	wrong          []string // guarded by mu
	died           int      // children that died or hung: guarded by mu
}

// patienceWithImage bounds the check of one image.
const patienceWithImage = 30 * time.Second

// cutPower makes at least images images of a recording, has children open them, and returns what they say.
func cutPower(t *testing.T, ops []faultfs.Op, images int, seed uint64) *outcome {
	t.Helper()
	dir := scratch(t)
	recording := filepath.Join(dir, "recording")
	f, err := os.Create(recording)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	if err := gob.NewEncoder(w).Encode(ops); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	plan, draws := share(ops, images)
	out := &outcome{program: opener(t)}
	var g errgroup.Group
	g.SetLimit(2)
	for _, b := range plan {
		b.Recording, b.Draws, b.Seed, b.Dir, b.Keep = recording, draws, seed, dir, os.Getenv("PERDURE_DISK_KEEP")
		g.Go(func() error { return out.check(b) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return out
}

// imagesOfABatch is about how many images one child opens.
const imagesOfABatch = 1000

// share cuts a recording into batches, and says how many outcomes with torn writes each cut needs to have so many images.
func share(ops []faultfs.Op, images int) (plan []batch, draws int) {
	p := faultfs.NewPlatter()
	plain, open := make([]int, len(ops)), 0
	total := 0
	for i, op := range ops {
		p.Apply(op)
		if plain[i] = 1; p.Pending() > 0 {
			plain[i] = p.Outcomes()
			open++
		}
		total += plain[i]
	}
	draws = max(2, (images-total+open)/max(open, 1))
	from, n := 0, 0
	for i := range ops {
		if n += plain[i]; plain[i] > 1 {
			n += draws
		}
		if n >= imagesOfABatch || i == len(ops)-1 {
			plan = append(plan, batch{From: from, To: i + 1})
			from, n = i+1, 0
		}
	}
	return plan, draws
}

// check has a child do a batch.
func (o *outcome) check(b batch) error {
	env, err := json.Marshal(b)
	if err != nil {
		return err
	}
	cmd := child("images")
	cmd.Path = o.program
	cmd.Env = append(cmd.Env, envBatch+"="+string(env))
	log := &tail{}
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	kill := func() { _ = cmd.Process.Kill() }
	quiet := time.AfterFunc(patienceWithImage, kill)
	defer quiet.Stop()
	last, done := verdict{}, false
	for s := bufio.NewScanner(out); s.Scan(); quiet.Reset(patienceWithImage) {
		var v verdict
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			kill()
			return fmt.Errorf("a child says %q: %w", s.Text(), err)
		}
		last, done = v, v.Done
		o.mu.Lock()
		o.images, o.opened = o.images+v.Images, o.opened+v.Opened
		if v.Wrong != "" {
			o.wrong = append(o.wrong, v.Wrong)
		}
		o.mu.Unlock()
	}
	if err := cmd.Wait(); err != nil || !done {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.died++
		o.wrong = append(o.wrong, fmt.Sprintf("%s: the process that opened it died or hung: %v\n%s", last.Next, err, log))
	}
	return nil
}

// TestPowerLoss opens what a power cut could leave at every moment of a workload, from the creation of the file on, over
// growth, an orderly close, a compaction, a backup and a restore.
func TestPowerLoss(t *testing.T) {
	images := number(t, "PERDURE_DISK_IMAGES", 20_000)
	seed := uint64(number(t, "PERDURE_DISK_SEED", 1))
	total, opened := 0, 0
	for ; total < images; seed++ {
		ops := record(t, seed, 66)
		if counts := count(ops); counts[faultfs.Truncate] == 0 || counts[faultfs.Rename] == 0 || counts[faultfs.Link] < 2 {
			t.Fatalf("seed %d: the workload did not grow, compact and restore: %v", seed, counts)
		}
		if n := records(ops); n < 20 {
			t.Fatalf("seed %d: the workload wrote %d records to its log", seed, n)
		}
		o := cutPower(t, ops, images-total, seed)
		t.Logf("seed %d: %d ops %v, %d images, of which %d differ", seed, len(ops), count(ops), o.images, o.opened)
		for _, wrong := range o.wrong[:min(len(o.wrong), 10)] {
			t.Error(wrong)
		}
		if len(o.wrong) > 0 {
			t.Fatalf("%d images are wrong; the same workload again: PERDURE_DISK_SEED=%d PERDURE_DISK_IMAGES=%d PERDURE_DISK_KEEP=FOLDER go test -run '^TestPowerLoss$' ./engine/disktest",
				len(o.wrong), seed, images-total)
		}
		total, opened = total+o.images, opened+o.opened
	}
	t.Logf("%d images of power cuts, %d of them opened: the others are the same as one of these", total, opened)
}

// records counts the writes to a log after it was made, of which each begins a record.
func records(ops []faultfs.Op) (n int) {
	for _, op := range ops {
		if op.Kind == faultfs.Write && op.Name == logName && bytes.HasPrefix(op.Data, []byte("perdlog1")) {
			n++
		}
	}
	return n
}

func count(ops []faultfs.Op) map[faultfs.Kind]int {
	n := map[faultfs.Kind]int{}
	for _, op := range ops {
		n[op.Kind]++
	}
	return n
}

// TestPowerLossSeesAMissingSync shows that the images find what they are for: with any one of the syncs left out of a
// recording, as if the store had forgotten it, some of them are wrong.
func TestPowerLossSeesAMissingSync(t *testing.T) {
	ops := record(t, 7, 60)
	for what, forgotten := range map[string]func(i int) bool{
		"every sync of a file":      func(i int) bool { return ops[i].Kind == faultfs.Sync },
		"every sync of a directory": func(i int) bool { return ops[i].Kind == faultfs.SyncDir },
		"the sync of the data": func(i int) bool { // the meta page is written next
			return ops[i].Kind == faultfs.Sync && i+1 < len(ops) && ops[i+1].Kind == faultfs.Write && ops[i+1].Off < 2*faultfs.PageSize
		},
		"every sync of the log": func(i int) bool { return ops[i].Kind == faultfs.Sync && ops[i].Name == logName },
		"the sync of the meta page": func(i int) bool {
			return ops[i].Kind == faultfs.Sync && ops[i-1].Kind == faultfs.Write && ops[i-1].Off < 2*faultfs.PageSize
		},
	} {
		t.Run(strings.ReplaceAll(what, " ", "-"), func(t *testing.T) {
			var left []faultfs.Op
			for i, op := range ops {
				if !forgotten(i) {
					left = append(left, op)
				}
			}
			left = slices.Clip(left[:min(len(left), 130)])
			o := cutPower(t, left, 500, 1)
			if len(o.wrong) == 0 {
				t.Fatalf("%s is left out, and none of %d images is wrong", what, o.images)
			}
			t.Logf("%d of %d images are wrong, the first: %s", len(o.wrong), o.images, o.wrong[0])
			if o.died > 0 {
				t.Errorf("%d processes that opened images died or hung: %s", o.died, o.wrong)
			}
		})
	}
}
