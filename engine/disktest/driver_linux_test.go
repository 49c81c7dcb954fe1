package disktest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

// request is a line that a driver reads: one thing to do with its store.
type request struct {
	Do       string
	Path, To string
	Key      string
	Size     int
	ReadOnly bool
	Mmap     int
	Ballast  int64
	LogSize  int64
	// Known are the heads of the runs that must be there, by key.
	Known map[string]string
}

// reply is what came of it.
type reply struct {
	Err string
	// Is names the errors that it matches.
	Is []string
	// Head is the run's newest digest.
	Head string
	// Wrong says what a check found; Bad counts the runs that could not be read, with an error.
	Wrong []string
	Bad   int
}

// known are the errors that a caller can tell apart, by the names that tests use.
var known = map[string]error{
	"failed": history.ErrFailed, "full": history.ErrFull, "corrupt": history.ErrCorrupt, "format": history.ErrFormat, "read-only": history.ErrReadOnly,
	"locked": history.ErrLocked, "closed": history.ErrClosed, "not found": history.ErrNotFound, "not exist": fs.ErrNotExist, "exist": fs.ErrExist,
	"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC, "EROFS": syscall.EROFS, "ENODEV": syscall.ENODEV, "ENOMEM": syscall.ENOMEM,
}

// driver is a child that does with a store what it is told.
type driver struct {
	store *boltstore.Store
}

// runDriver answers each line of the standard input.
func runDriver() error {
	var d driver
	in, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	in.Buffer(nil, 1<<24)
	for in.Scan() {
		var req request
		if err := json.Unmarshal(in.Bytes(), &req); err != nil {
			return err
		}
		var rep reply
		if err := d.do(context.Background(), req, &rep); err != nil {
			rep.Err = err.Error()
			for name, e := range known {
				if errors.Is(err, e) {
					rep.Is = append(rep.Is, name)
				}
			}
		}
		if err := out.Encode(rep); err != nil {
			return err
		}
	}
	return in.Err()
}

func (d *driver) do(ctx context.Context, req request, rep *reply) (err error) {
	switch req.Do {
	case "open":
		d.store, err = boltstore.Open(req.Path, &boltstore.Options{ReadOnly: req.ReadOnly, MmapSize: req.Mmap, Ballast: req.Ballast, LogSize: req.LogSize})
		return err
	case "close":
		return d.store.Close()
	case "start":
		return d.start(ctx, req, rep)
	case "start while reading":
		return d.startWhileReading(ctx, req, rep)
	case "finish":
		return d.finish(ctx, req, rep)
	case "delete":
		return d.remove(ctx, req)
	case "list": // a read that needs all that is in the log
		_, err := d.store.List(ctx, engine.Filter{})
		return err
	case "give up the log":
		_, err := boltstore.GiveUpLog(req.Path)
		return err
	case "get":
		run, err := d.store.RunByKey(ctx, "", req.Key)
		rep.Head = fmt.Sprint(run.Head)
		return err
	case "check":
		return d.check(ctx, req, rep)
	case "backup":
		return d.backup(ctx, req)
	case "restore":
		return boltstore.Restore(ctx, req.Path, req.To)
	case "compact":
		_, err := boltstore.Compact(ctx, req.Path)
		return err
	case "limit":
		return limitAddresses(uint64(req.Size))
	}
	return fmt.Errorf("no such request: %q", req.Do)
}

func (d *driver) start(ctx context.Context, req request, rep *reply) error {
	run, _, err := d.store.Start(ctx, &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: req.Key}, Input: payload(req.Size)})
	if err != nil {
		return err
	}
	rep.Head = fmt.Sprint(run.Head)
	return nil
}

// startWhileReading fails where reads wait for a write: then hardly one ends before the write does, else many, however slow
// the machine is.
func (d *driver) startWhileReading(ctx context.Context, req request, rep *reply) error {
	done := make(chan error, 1)
	go func() { done <- d.start(ctx, req, rep) }()
	for reads := 0; ; reads++ {
		if _, err := d.store.List(ctx, engine.Filter{}); err != nil {
			return err
		}
		select {
		case err := <-done:
			if reads < 3 {
				rep.Wrong = append(rep.Wrong, fmt.Sprintf("%d reads ended before the write did", reads))
			}
			return err
		default:
		}
	}
}

// finish claims a run and completes it.
func (d *driver) finish(ctx context.Context, req request, rep *reply) error {
	want, err := d.store.RunByKey(ctx, "", req.Key)
	if err != nil {
		return err
	}
	claims, err := d.store.Claim(ctx, engine.ClaimRequest{Owner: "w", Max: 1000, TTL: time.Hour, Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}})
	if err != nil {
		return err
	}
	for _, c := range claims {
		if c.Run.ID != want.ID {
			if err := d.store.Release(ctx, c.Run.ID, c.Token, 0, ""); err != nil {
				return err
			}
			continue
		}
		state, err := d.store.Commit(ctx, history.Batch{Run: c.Run.ID, Token: c.Token, After: c.Run.Seq, Head: c.Run.Head, Next: history.NextClosed, Events: []history.Event{
			{Seq: c.Run.Seq + 1, Kind: history.RunCompleted, Payload: payload(req.Size)},
		}})
		rep.Head = fmt.Sprint(state.Head)
		if err != nil {
			return err
		}
	}
	return nil
}

// remove ends a run and deletes it.
func (d *driver) remove(ctx context.Context, req request) error {
	run, err := d.store.RunByKey(ctx, "", req.Key)
	if err != nil {
		return err
	}
	if _, err := d.store.Terminate(ctx, run.ID, "", ""); err != nil {
		return err
	}
	token, err := d.store.LeaseCleanup(ctx, "driver", time.Hour)
	if err != nil {
		return err
	}
	_, err = d.store.Delete(ctx, token, nil, []history.RunID{run.ID})
	return err
}

// check verifies the store and holds the runs against what was acknowledged. A run that gives an error is bad; one that is
// not there, or is another, without an error is wrong.
func (d *driver) check(ctx context.Context, req request, rep *reply) error {
	for key, head := range req.Known {
		run, err := d.store.RunByKey(ctx, "", key)
		switch {
		case errors.Is(err, history.ErrNotFound):
			rep.Wrong = append(rep.Wrong, fmt.Sprintf("acknowledged run %s is not there", key))
			continue
		case err != nil:
			rep.Bad++
			continue
		case head != "" && fmt.Sprint(run.Head) != head:
			rep.Wrong = append(rep.Wrong, fmt.Sprintf("run %s has another history", key))
		}
		if _, err := d.store.History(ctx, run.ID, 1, 10); err != nil {
			rep.Bad++
		}
	}
	return d.store.Verify(ctx, func(v engine.Violation) {
		rep.Bad++
		if len(rep.Wrong) < 20 {
			rep.Wrong = append(rep.Wrong, fmt.Sprintf("violation: run %s: %s: %s", v.Run, v.Rule, v.Detail))
		}
	})
}

func (d *driver) backup(ctx context.Context, req request) (err error) {
	f, err := os.Create(req.To)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := d.store.Backup(ctx, f, nil); err != nil {
		return err
	}
	return f.Sync()
}

// payload is JSON of about n bytes.
func payload(n int) []byte {
	b := make([]byte, max(n, 2))
	for i := range b {
		b[i] = byte('a' + i%26)
	}
	b[0], b[len(b)-1] = '"', '"'
	return b
}

// limitAddresses leaves the process n bytes of address space beyond what it has.
func limitAddresses(n uint64) error {
	// What is left is for the store's map: the heap takes its share before, and keeps its addresses.
	runtime.KeepAlive(make([]byte, 256<<20))
	runtime.GC()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	var pages uint64
	if _, err := fmt.Sscan(string(b), &pages); err != nil {
		return err
	}
	limit := pages*uint64(os.Getpagesize()) + n
	return unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: limit, Max: limit})
}
