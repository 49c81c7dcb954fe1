package crashfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/perdure/perdure/history"
)

// Options of a File. The zero value is useful.
type Options struct {
	// Watch is how long after an end of the process executions that begin are written down (default 10 minutes).
	Watch time.Duration
	// Log is told of a file that cannot be used; default slog.Default().
	Log *slog.Logger
}

// maxRuns bounds the lines: what is executed beside so many is not written down.
const maxRuns = 10_000

// File is an open crash file. One process may have it open at a time. Its methods are safe for concurrent use.
//
// What is in it are hints: a file that cannot be read or written costs the protection, is logged once, and stops no run.
type File struct {
	path string
	log  *slog.Logger
	// until ends the watch; zero where the process before had closed the file.
	until time.Time

	mu   sync.Mutex
	file *os.File // guarded by mu; nil once closed or given up
	// runs are the runs with a line, at their line's place; free are places without one, below places. guarded by mu
	runs   map[history.RunID]*placed
	free   []int
	places int
}

type placed struct {
	entry
	at int // the line: 1 is the first after the head
}

// Open opens the file at path and makes it, with mode 0600, where it is missing. Where the process before did not close it, the
// runs that it was executing have one strike more from now on. Content that is not a crash file's is dropped, and logged.
func Open(path string, o Options) (*File, error) {
	f := &File{path: path, log: o.Log, runs: map[history.RunID]*placed{}}
	if f.log == nil {
		f.log = slog.Default()
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("crash file: %w", err)
	}
	f.file = file
	crashed, err := f.read()
	if err == nil {
		err = f.rewrite(headOpen)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("crash file %s: %w", path, err), file.Close())
	}
	if crashed {
		f.until = time.Now().Add(cmp.Or(o.Watch, 10*time.Minute))
	}
	return f, nil
}

// read takes what the process before has left, and reports whether it had ended without Close.
func (f *File) read() (crashed bool, err error) {
	b, err := io.ReadAll(io.LimitReader(f.file, lineLen*(maxRuns+1)))
	if err != nil || len(b) == 0 {
		return false, err
	}
	head, rest := b[:min(lineLen, len(b))], b[min(lineLen, len(b)):]
	crashed = bytes.Equal(head, padded(headOpen))
	if !crashed && !bytes.Equal(head, padded(headShut)) {
		f.log.Warn("what is in the crash file is not one: it begins anew", "file", f.path)
		return false, nil
	}
	for ; len(rest) >= lineLen; rest = rest[lineLen:] {
		e, ok, err := parseLine(string(rest[:lineLen-1]))
		if err != nil {
			f.log.Warn("a line of the crash file cannot be read, and is dropped", "file", f.path, "error", err)
		}
		if !ok || f.runs[e.run] != nil {
			continue
		}
		if crashed && e.executing {
			e.strikes = min(e.strikes+1, maxStrikes)
		}
		if e.executing = false; e.strikes > 0 {
			f.places++
			f.runs[e.run] = &placed{entry: e, at: f.places}
		}
	}
	return crashed, nil
}

// rewrite writes the file anew: its head, and the runs with strikes.
func (f *File) rewrite(head string) error {
	b := make([]byte, 0, lineLen*(f.places+1))
	b = append(b, padded(head)...)
	lines := make([][]byte, f.places)
	for _, p := range f.runs {
		lines[p.at-1] = p.line()
	}
	b = append(b, bytes.Join(lines, nil)...)
	if _, err := f.file.WriteAt(b, 0); err != nil {
		return err
	}
	return f.file.Truncate(int64(len(b)))
}

// Strikes returns at how many ends of the process in succession the run was being executed, from event seq on, which is its newest
// now: a run that has got on since has none.
func (f *File) Strikes(run history.RunID, seq uint64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.runs[run]; p != nil && p.seq == seq {
		return p.strikes
	}
	return 0
}

// Begin says that the run is executed from now on, from its event seq on.
func (f *File) Begin(run history.RunID, seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.runs[run]
	switch {
	case p == nil && !time.Now().Before(f.until), p == nil && len(f.runs) == maxRuns:
		return
	case p == nil:
		p = &placed{at: f.place()}
		f.runs[run] = p
	}
	if p.run, p.executing = run, true; p.seq != seq {
		p.seq, p.strikes = seq, 0
	}
	f.write(p.at, p.line())
}

// End says that the run is not executed any more. survived says that the execution came to its end, or to an event: then its
// strikes are forgiven.
func (f *File) End(run history.RunID, survived bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.runs[run]
	switch {
	case p == nil:
	case survived || p.strikes == 0:
		delete(f.runs, run)
		f.free = append(f.free, p.at)
		f.write(p.at, padded(""))
	default:
		p.executing = false
		f.write(p.at, p.line())
	}
}

// place is called with mu held.
func (f *File) place() int {
	if n := len(f.free); n > 0 {
		at := f.free[n-1]
		f.free = f.free[:n-1]
		return at
	}
	f.places++
	return f.places
}

// write is called with mu held. It gives the file up where it fails: what it says then may be wrong.
func (f *File) write(at int, line []byte) {
	if f.file == nil {
		return
	}
	if _, err := f.file.WriteAt(line, int64(at)*lineLen); err != nil {
		err = errors.Join(err, f.file.Close())
		f.file = nil
		f.log.Warn("the crash file cannot be written: a run that ends the process is not noticed any more", "file", f.path, "error", err)
	}
}

// Close says that the process ends in good order. What is still being executed is no suspect.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	_, err := f.file.WriteAt(padded(headShut), 0)
	err = errors.Join(err, f.file.Close())
	f.file = nil
	if err != nil {
		return fmt.Errorf("crash file %s: %w", f.path, err)
	}
	return nil
}
