package disktest

import (
	"bufio"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/disktest/faultfs"
	"github.com/perdure/perdure/history"
)

// batch is what one child checks: the images of some cuts of a recording.
type batch struct {
	// Recording is a file with the ops.
	Recording string
	// From and To are the cuts: how many ops were done when the power went.
	From, To int
	// Draws is how many outcomes with torn writes are drawn for each cut where anything is pending.
	Draws int
	Seed  uint64
	// Dir is a folder for the images.
	Dir string
	// Keep is a folder for the images that fail; "" where none are kept.
	Keep string
}

// verdict is a line that the child writes: the image that comes next, or what was wrong with one, or, last, the counts.
type verdict struct {
	Next  string
	Wrong string
	// Images were made, Opened are those of them that were different.
	Images, Opened int
	Done           bool
}

const envBatch = "PERDURE_DISK_BATCH"

// runImages checks the batch that envBatch holds.
func runImages() error {
	c := &checker{out: json.NewEncoder(os.Stdout), seen: map[[4]uint64]recovered{}, sums: faultfs.NewSums()}
	if err := json.Unmarshal([]byte(os.Getenv(envBatch)), &c.batch); err != nil {
		return err
	}
	f, err := os.Open(c.Recording)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := gob.NewDecoder(bufio.NewReader(f)).Decode(&c.ops); err != nil {
		return err
	}
	return c.run()
}

// checker opens images and holds them against the notes.
type checker struct {
	batch
	ops    []faultfs.Op
	said   []saidAt
	out    *json.Encoder
	sums   *faultfs.Sums
	seen   map[[4]uint64]recovered // by the image's sum
	images int
}

// saidAt is a note and its place among the ops.
type saidAt struct {
	note
	at int
}

// recovered is what an image holds.
type recovered struct {
	there bool
	err   string
	runs  map[string]string // the standing by key
	defs  map[string]int    // the newest version by name
	copy  map[string]string // of the restored store; nil where there is none
}

// promise is what had been acknowledged at a cut, and what may have happened since.
type promise struct {
	opened   bool
	runs     map[string]string // the newest standing
	next     map[string]string // the one after
	asked    map[string]bool
	defs     map[string]int
	copy     map[string]string // at the time of the backup
	restored bool
}

func (c *checker) run() error {
	p := faultfs.NewPlatter()
	said := promise{runs: map[string]string{}, asked: map[string]bool{}, defs: map[string]int{}}
	for at, op := range c.ops {
		if op.Kind == faultfs.Note {
			n := saidAt{at: at}
			if err := json.Unmarshal(op.Data, &n.note); err != nil {
				return fmt.Errorf("note %q: %w", op.Data, err)
			}
			c.said = append(c.said, n)
		}
	}
	heard := 0
	for cut, op := range c.ops[:c.To] {
		if op.Kind != faultfs.Note {
			p.Apply(op)
		} else {
			said.hear(c.said[heard].note)
			heard++
		}
		if cut < c.From {
			continue
		}
		if err := c.cut(p, cut, &said); err != nil {
			return err
		}
	}
	return c.out.Encode(verdict{Images: c.images, Opened: len(c.seen), Done: true})
}

func (s *promise) hear(n note) {
	switch {
	case n.Opened:
		s.opened = true
	case n.Asked != "":
		s.asked[n.Asked] = true
	case n.Key != "":
		s.runs[n.Key] = n.Standing
	case n.Definition != "":
		s.defs[n.Definition] = max(s.defs[n.Definition], n.Version)
	case n.Backup:
		s.copy = maps.Clone(s.runs)
	case n.Restored:
		s.restored = true
	}
}

// cut makes and checks the images of one cut.
func (c *checker) cut(p *faultfs.Platter, cut int, said *promise) error {
	said.next = c.upcoming(cut)
	outcomes := 1
	if p.Pending() > 0 {
		outcomes = p.Outcomes() + c.Draws
	}
	for choice := range outcomes {
		o := faultfs.Outcome{Choice: choice, Seed: c.Seed + uint64(cut)<<20 + uint64(choice)}
		image := p.Image(o)
		what := fmt.Sprintf("cut after op %d (%s), outcome %d: %s", cut, c.ops[cut], choice, image.What)
		c.images++
		sum := c.sums.Of(image)
		got, known := c.seen[sum]
		if !known {
			if err := c.out.Encode(verdict{Next: what}); err != nil {
				return err
			}
			var err error
			if got, err = c.open(image); err != nil {
				return err
			}
			c.seen[sum] = got
		}
		if wrong := said.broken(got); wrong != "" {
			if err := c.out.Encode(verdict{Wrong: what + ": " + wrong}); err != nil {
				return err
			}
			if err := c.keep(image, cut, choice); err != nil {
				return err
			}
		}
	}
	return nil
}

// upcoming returns the standing of each run after the operation that is under way at the cut.
func (c *checker) upcoming(cut int) map[string]string {
	next := map[string]string{}
	for _, n := range c.said {
		if n.at <= cut || n.Key == "" {
			continue
		}
		if _, ok := next[n.Key]; !ok {
			next[n.Key] = n.Standing
		}
	}
	return next
}

// keep saves an image that fails.
func (c *checker) keep(image faultfs.Image, cut, choice int) error {
	if c.Keep == "" {
		return nil
	}
	dir := filepath.Join(c.Keep, fmt.Sprintf("cut-%d-%d", cut, choice))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return image.Save(dir)
}

// open opens an image as a restarted process would, and reads all that is in it. An error is the test's own: what is wrong
// with the image is in what it returns.
func (c *checker) open(image faultfs.Image) (r recovered, err error) {
	dir, err := os.MkdirTemp(c.Dir, "image")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := image.Save(dir); err != nil {
		return r, err
	}
	w := workload{now: time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)}
	if _, r.there = image.Files[storeName]; r.there {
		if r.runs, r.defs, err = read(filepath.Join(dir, storeName), w.options(), len(c.seen)%8 == 0); err != nil {
			r.err = err.Error()
			return r, nil
		}
	}
	if _, ok := image.Files[restoredName]; ok {
		if r.copy, _, err = read(filepath.Join(dir, restoredName), w.options(), false); err != nil {
			r.err = "the restored copy: " + err.Error()
		}
	}
	return r, nil
}

// read opens a store for writing, verifies it, and returns its runs and definitions. Where it shall go on, it has it start a
// run, and verifies again.
func read(path string, o *boltstore.Options, goOn bool) (runs map[string]string, defs map[string]int, err error) {
	ctx := context.Background()
	s, err := boltstore.Open(path, o)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	runs, defs = map[string]string{}, map[string]int{}
	page := engine.Page{}
	for first := true; first || page.Next != ""; first = false {
		if page, err = s.List(ctx, engine.Filter{Limit: 1000, After: page.Next}); err != nil {
			return nil, nil, err
		}
		for _, run := range page.Runs {
			runs[run.Key] = standing(run)
		}
	}
	err = s.Definitions(ctx, func(name string, version int, _ []byte) error {
		defs[name] = max(defs[name], version)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if err := verify(ctx, s); err != nil || !goOn {
		return runs, defs, err
	}
	if _, _, err := s.Start(ctx, &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: "after the cut"}, Input: payload(5000)}); err != nil {
		return nil, nil, err
	}
	return runs, defs, verify(ctx, s)
}

func verify(ctx context.Context, s engine.Store) error {
	var found []string
	err := s.Verify(ctx, func(v engine.Violation) {
		found = append(found, fmt.Sprintf("run %s: %s: %s", v.Run, v.Rule, v.Detail))
	})
	if len(found) > 0 {
		err = errors.Join(err, fmt.Errorf("%d violations: %s", len(found), found[0]))
	}
	return err
}

// broken says what of the promise does not hold; "" where all does.
func (s *promise) broken(r recovered) string {
	switch {
	case !r.there && s.opened:
		return "the store was open, and is not there"
	case r.err != "":
		return r.err
	case !r.there:
		return ""
	case s.restored && r.copy == nil:
		return "the restored copy is not there"
	}
	if wrong := compare(s.runs, s.next, s.asked, r.runs); wrong != "" {
		return wrong
	}
	for name, version := range s.defs {
		if r.defs[name] < version {
			return fmt.Sprintf("definition %s %d was put, the newest is %d", name, version, r.defs[name])
		}
	}
	if r.copy != nil {
		if wrong := compare(s.copy, nil, nil, r.copy); wrong != "" {
			return "the restored copy: " + wrong
		}
	}
	return ""
}

// compare holds runs against what was said of them last, and what was said next: an operation under way is there whole or
// not at all.
func compare(said, next map[string]string, asked map[string]bool, runs map[string]string) string {
	for _, key := range slices.Sorted(maps.Keys(said)) {
		got, ok := runs[key]
		if !ok {
			got = gone
		}
		if got != said[key] && got != next[key] {
			return fmt.Sprintf("run %s was acknowledged as %q and is %q", key, said[key], got)
		}
	}
	for key, got := range runs {
		if _, ok := said[key]; ok {
			continue
		}
		if asked != nil && !asked[key] && next[key] == "" || got != next[key] {
			return fmt.Sprintf("run %s is %q: nobody was told, and it would have been %q", key, got, next[key])
		}
	}
	return ""
}
