package disktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/disktest/faultfs"
	"github.com/perdure/perdure/history"
)

// note is what the workload says of what was acknowledged. It stands in the recording where it was said.
type note struct {
	// Opened: the store is there from now on.
	Opened bool `json:",omitempty"`
	// Asked is the key of a run that may exist from now on.
	Asked string `json:",omitempty"`
	// Key and Standing are a run, and where it stands.
	Key      string `json:",omitempty"`
	Standing string `json:",omitempty"`
	// Definition and Version were put.
	Definition string `json:",omitempty"`
	Version    int    `json:",omitempty"`
	// Restored: a copy of the store is there, with what had been acknowledged before the note with Backup.
	Restored bool `json:",omitempty"`
	Backup   bool `json:",omitempty"`
}

const (
	gone         = "gone" // the standing of a deleted run
	backupName   = "backup.db"
	restoredName = "restored.db"
)

// options are those of the workload and of the check: a small memory map and a small log, so that the file grows often and the log is
// often full.
func (w *workload) options() *boltstore.Options {
	return &boltstore.Options{MmapSize: 1 << 16, Ballast: 64 << 10, LogSize: 48 << 10, Clock: func() time.Time { return w.now }}
}

// standing is all of a run that a crash must not change. Who holds the run is not kept over one.
func standing(r history.Run) string {
	status := "open"
	if r.Status.Terminal() || r.Status == history.StatusPaused {
		status = r.Status.String()
	}
	return fmt.Sprintf("%s %s seq %d head %.8x inbox %d questions %d cancel %t", r.ID, status, r.Seq, r.Head, r.InboxHead, r.Questions, r.CancelRequested != 0)
}

// workload does a bit of everything with a store, and notes what was acknowledged.
type workload struct {
	ctx   context.Context
	r     *rand.Rand
	now   time.Time
	dir   string
	notes *os.File
	store *boltstore.Store
	keys  []string
	holds map[string]history.Claim
	asked map[string]string // the open question of a run
	n     int
}

// job is what a child that runs the workload is told, in envJob.
type job struct {
	Dir  string
	Seed uint64
	Ops  int
}

const envJob = "PERDURE_DISK_JOB"

// runWorkload works on a new store until it has done its operations, with an orderly close, a compaction, a backup and a
// restore on the way.
func runWorkload() (err error) {
	var j job
	if err := json.Unmarshal([]byte(os.Getenv(envJob)), &j); err != nil {
		return err
	}
	ctx, dir, seed, ops := context.Background(), j.Dir, j.Seed, j.Ops
	notes, err := os.OpenFile(filepath.Join(dir, faultfs.NotesName), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, notes.Close()) }()
	w := &workload{
		ctx: ctx, r: rand.New(rand.NewPCG(seed, 2)), now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), dir: dir, notes: notes,
		holds: map[string]history.Claim{}, asked: map[string]string{},
	}
	path := filepath.Join(dir, storeName)
	steps := []func() error{
		func() error { return w.open(path) },
		func() error { return w.operate(ops / 3) },
		func() error { return w.close() },
		func() error { _, err := boltstore.Compact(ctx, path); return err },
		func() error { return w.open(path) },
		func() error { return w.operate(ops / 3) },
		func() error { return w.backup(path) },
		func() error { return w.operate(ops / 3) },
		func() error { return w.close() },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (w *workload) say(n note) error {
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = w.notes.WriteAt(b, 0) // within a page, so that it comes as one write
	return err
}

func (w *workload) open(path string) (err error) {
	if w.store, err = boltstore.Open(path, w.options()); err != nil {
		return err
	}
	return w.say(note{Opened: true})
}

func (w *workload) close() error {
	clear(w.holds)
	return w.store.Close()
}

// backup copies the store and makes another of the copy.
func (w *workload) backup(path string) error {
	if err := w.say(note{Backup: true}); err != nil {
		return err
	}
	d := driver{store: w.store}
	if err := d.backup(w.ctx, request{To: filepath.Join(w.dir, backupName)}); err != nil {
		return err
	}
	if err := boltstore.Restore(w.ctx, filepath.Join(w.dir, backupName), filepath.Join(w.dir, restoredName)); err != nil {
		return err
	}
	return w.say(note{Restored: true})
}

// tell notes where a run stands.
func (w *workload) tell(key string) error {
	run, err := w.store.RunByKey(w.ctx, "", key)
	if errors.Is(err, history.ErrNotFound) || errors.Is(err, history.ErrExpired) {
		return w.say(note{Key: key, Standing: gone})
	}
	if err != nil {
		return err
	}
	return w.say(note{Key: key, Standing: standing(run)})
}

func (w *workload) operate(n int) error {
	for range n {
		w.n++
		w.now = w.now.Add(time.Duration(w.r.IntN(3000)) * time.Millisecond)
		var err error
		switch w.r.IntN(14) {
		case 0, 1:
			err = w.start(1)
		case 2:
			err = w.start(2 + w.r.IntN(5))
		case 3, 4, 5, 6, 7:
			err = w.commit()
		case 8:
			err = w.deliver()
		case 9:
			err = w.answer()
		case 10:
			err = w.command()
		case 11:
			err = w.wake()
		case 12:
			err = w.define()
		case 13:
			err = w.remove()
		}
		if err != nil {
			return fmt.Errorf("operation %d: %w", w.n, err)
		}
	}
	return nil
}

func (w *workload) size() int {
	if w.r.IntN(8) == 0 {
		return 10_000 + w.r.IntN(30_000) // over several pages
	}
	return 20 + w.r.IntN(600)
}

// start starts runs at once, which share a transaction or do not.
func (w *workload) start(n int) error {
	var g errgroup.Group
	for i := range n {
		key := fmt.Sprintf("r%d.%d", w.n, i)
		w.keys = append(w.keys, key)
		size := w.size()
		s := history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: key, Retention: time.Hour}, Input: payload(size)}
		if w.r.IntN(4) == 0 {
			s.Signal = &history.InboxItem{Kind: history.InboxSignal, Name: "go", Key: "first", Payload: []byte(`1`)}
		}
		if err := w.say(note{Asked: key}); err != nil {
			return err
		}
		g.Go(func() error {
			if _, _, err := w.store.Start(w.ctx, &s); err != nil {
				return err
			}
			return w.tell(key)
		})
	}
	return g.Wait()
}

// commit moves a run on that is held, or claims one.
func (w *workload) commit() error {
	if len(w.holds) == 0 {
		claims, err := w.store.Claim(w.ctx, engine.ClaimRequest{Owner: "w", Max: 3, TTL: time.Hour, Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}})
		if err != nil {
			return err
		}
		for _, c := range claims {
			w.holds[c.Run.Key] = c
		}
	}
	key := w.held()
	if key == "" {
		return nil
	}
	c := w.holds[key]
	b := w.batch(c)
	state, err := w.store.Commit(w.ctx, b)
	switch {
	case errors.Is(err, history.ErrFenced) || errors.Is(err, history.ErrSequence) || errors.Is(err, history.ErrTerminal) || errors.Is(err, history.ErrInboxMoved):
		delete(w.holds, key)
		return w.tell(key)
	case err != nil:
		return err
	case b.Next == history.NextRunning:
		c.Run.State, c.Inbox = state, nil
		w.holds[key] = c
	default:
		delete(w.holds, key)
	}
	for _, child := range b.Children {
		if err := w.tell(child.Spec.Key); err != nil {
			return err
		}
	}
	return w.tell(key)
}

// held draws one of the runs that are held, in the order of the keys.
func (w *workload) held() string {
	var keys []string
	for _, key := range w.keys {
		if _, ok := w.holds[key]; ok {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	return keys[w.r.IntN(len(keys))]
}

// batch makes the next events of a run.
func (w *workload) batch(c history.Claim) history.Batch {
	seen := c.Run.InboxSeen
	b := history.Batch{Run: c.Run.ID, Token: c.Token, After: c.Run.Seq, Head: c.Run.Head}
	add := func(e history.Event) {
		e.Seq = b.After + uint64(len(b.Events)) + 1
		b.Events = append(b.Events, e)
	}
	position := history.Position(fmt.Sprintf("op%d#0", w.n))
	due := history.TimeOf(w.now.Add(time.Duration(1+w.r.IntN(20)) * time.Second))
	for _, item := range c.Inbox {
		seen = max(seen, item.Seq)
	}
	b.InboxSeen = seen
	switch w.r.IntN(7) {
	case 0, 1:
		add(history.Event{Kind: history.StepCompleted, Position: position, Op: "step", Payload: payload(w.size())})
		b.Next = history.NextRunning
	case 2:
		add(history.Event{Kind: history.TimerSet, Position: position, Op: "sleep", Due: due})
		b.Set, b.Next = []history.Timer{{At: due, Position: position}}, history.NextWaiting
	case 3:
		key := string(position)
		add(history.Event{Kind: history.InterruptOpened, Position: position, Op: "ask", Key: key, Payload: []byte(`{}`)})
		b.Open, b.Next = []history.Interrupt{{Key: key, Position: position, Method: history.MethodQuestion, Body: []byte(`{}`), OpenedAt: w.store.Now()}}, history.NextWaiting
		w.asked[c.Run.Key] = key
	case 4:
		add(history.Event{Kind: history.StepCompleted, Position: position, Op: "step", Payload: payload(30)})
		b.Next = history.NextReady
	case 5:
		add(history.Event{Kind: history.RunCompleted, Payload: payload(w.size())})
		b.Next = history.NextClosed
	case 6:
		add(history.Event{Kind: history.RunFailed, Failure: &history.Failure{Kind: history.FailureApplication, Message: "no stock"}})
		b.Next = history.NextClosed
	}
	return b
}

// any draws a run.
func (w *workload) any() string {
	if len(w.keys) == 0 {
		return ""
	}
	return w.keys[w.r.IntN(len(w.keys))]
}

// on does something with a run that may be gone or over.
func (w *workload) on(key string, do func(id history.RunID) error) error {
	run, err := w.store.RunByKey(w.ctx, "", key)
	if errors.Is(err, history.ErrNotFound) || errors.Is(err, history.ErrExpired) {
		return nil
	}
	if err == nil {
		err = do(run.ID)
	}
	for _, refusal := range []error{history.ErrTerminal, history.ErrAnswered, history.ErrNotFound, history.ErrConflict} {
		if errors.Is(err, refusal) {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	return w.tell(key)
}

func (w *workload) deliver() error {
	id := fmt.Sprint("s", w.r.IntN(30))
	return w.on(w.any(), func(run history.RunID) error {
		_, err := w.store.Deliver(w.ctx, run, history.InboxItem{Kind: history.InboxSignal, Name: "go", Key: id, Payload: payload(w.size())})
		return err
	})
}

func (w *workload) answer() error {
	for _, key := range w.keys {
		question, ok := w.asked[key]
		if !ok {
			continue
		}
		delete(w.asked, key)
		return w.on(key, func(run history.RunID) error {
			return w.store.Answer(w.ctx, run, history.InboxItem{Kind: history.InboxAnswer, Key: question, Payload: []byte(`"yes"`)})
		})
	}
	return nil
}

// command is what an operator does.
func (w *workload) command() error {
	verb := []func(context.Context, history.RunID, string, string) (history.Run, error){
		w.store.Cancel, w.store.Terminate, w.store.Pause, w.store.Resume,
	}[w.r.IntN(4)]
	return w.on(w.any(), func(run history.RunID) error {
		_, err := verb(w.ctx, run, "operator", "because")
		return err
	})
}

func (w *workload) wake() error {
	_, _, err := w.store.WakeDue(w.ctx, 100)
	return err
}

func (w *workload) define() error {
	name, data := fmt.Sprint("d", w.r.IntN(3)), bytes.Repeat([]byte("x"), 1+w.r.IntN(200))
	version, err := w.store.PutDefinition(w.ctx, name, data)
	if err != nil {
		return err
	}
	return w.say(note{Definition: name, Version: version})
}

// remove deletes the oldest run that is over.
func (w *workload) remove() error {
	for _, key := range w.keys {
		run, err := w.store.RunByKey(w.ctx, "", key)
		if err != nil || !run.Status.Terminal() {
			continue
		}
		token, err := w.store.LeaseCleanup(w.ctx, "workload", time.Hour)
		if err != nil {
			return err
		}
		if _, err := w.store.Delete(w.ctx, token, nil, []history.RunID{run.ID}); err != nil {
			return err
		}
		return w.tell(key)
	}
	return nil
}
