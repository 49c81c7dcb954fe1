package boltstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/perdure/perdure/engine/dirsync"
	"github.com/perdure/perdure/history"
)

// Options of a store. The zero value is useful.
type Options struct {
	// LockTimeout is how long Open waits for the lock on the file. Default 500 ms, which outlasts a process that
	// is just closing it.
	LockTimeout time.Duration
	// ReadOnly opens the file for reading beside other readers: every write matches history.ErrReadOnly. The file
	// must exist and no writer may have it open. One that was not closed is opened for writing first, to bring it up to its log;
	// where it cannot be written it is read as it is: see Stats.Lacking.
	ReadOnly bool
	// MaxSize bounds the file in bytes; a write that would need more matches history.ErrFull and changes nothing.
	// 0 means no bound but the disk's. bbolt grows the file by 16 MiB at a time.
	MaxSize int
	// HighWater is the use of the file in bytes, without its free pages, from which on new runs match history.ErrFull while
	// those that are there go on. Default nine tenths of MaxSize; 0 without that means no mark.
	HighWater int64
	// Ballast is the size in bytes of a file beside the store's (its name and ".ballast") that is removed when the disk is
	// full, so that the runs that are there can go on and old ones be deleted. New runs match history.ErrFull from then on,
	// until there is room for the ballast again. 0 means none.
	Ballast int64
	// MmapSize is the address space in bytes that is set aside for the file at open, so that growing it need not
	// wait for reads. Default 1 GiB; on Windows, where it would be the size of the file, it is ignored.
	MmapSize int
	// LogSize is the size in bytes of the log beside the file (its name and ".log") that an open store for writing makes. Half of it
	// bounds what a crash leaves to the next open to write to the file. Default 8 MiB.
	LogSize int64
	// Clock is the source of the store's time. Default time.Now.
	Clock func() time.Time
	// Log is where an Open that takes more than a second says what it is at, an upgrade that it is done, and what was removed that
	// a crash had left beside the file. Default slog.Default().
	Log *slog.Logger

	// transfer opens a file that takes part in a move.
	transfer bool
}

const (
	defaultLockTimeout = 500 * time.Millisecond
	defaultMmapSize    = 1 << 30
	defaultLogSize     = 8 << 20
	fileMode           = 0o600
	// aheadTold is how far the store's time may be ahead of the machine's clock before it is said.
	aheadTold = time.Minute
)

func (o *Options) filled() Options {
	var f Options
	if o != nil {
		f = *o
	}
	if f.LockTimeout <= 0 {
		f.LockTimeout = defaultLockTimeout
	}
	if f.MmapSize <= 0 {
		f.MmapSize = defaultMmapSize
	}
	if runtime.GOOS == "windows" {
		f.MmapSize = 0
	}
	if f.HighWater <= 0 {
		f.HighWater = int64(f.MaxSize) / 10 * 9
	}
	if f.LogSize <= 0 {
		f.LogSize = defaultLogSize
	}
	if f.Clock == nil {
		f.Clock = time.Now
	}
	if f.Log == nil {
		f.Log = slog.Default()
	}
	return f
}

// Open opens the store in the file at path, and creates it, but not its directory, where it is missing. opts may be nil.
//
// Its errors name the file and match history.ErrLocked (another process has it), history.ErrFormat (it is no store, or one
// of a later version), history.ErrCorrupt (it is damaged) or fs.ErrNotExist, fs.ErrPermission.
func Open(path string, opts *Options) (*Store, error) {
	if path == "" {
		return nil, fmt.Errorf("open store: the path is empty, want a file's: %w", history.ErrInvalid)
	}
	o := opts.filled()
	told := newOpening(path, o.Log)
	s, err := open(path, o, told)
	told.end(err)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	return s, nil
}

func open(path string, o Options, told *opening) (*Store, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := noLog(path); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLog, err)
		}
		if o.ReadOnly {
			return nil, err
		}
		if err := create(path, o); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("is not a regular file: %w", history.ErrFormat)
	case info.Size() == 0:
		// bbolt would make a new database of it. It was never ours: a new file appears whole.
		return nil, fmt.Errorf("the file is empty: restore a backup, or remove it to start anew: %w", history.ErrCorrupt)
	}
	if err := inspect(path, o, told); err != nil {
		return nil, err
	}
	s, err := openStore(path, o, told)
	if err != nil {
		return nil, err
	}
	err = s.begin(o, told)
	var p *panicError
	switch {
	case err == nil:
		return s, nil
	case errors.As(err, &p):
		return nil, errors.Join(fmt.Errorf("the file is damaged: restore a backup: %w", err), letGo(s.file))
	}
	err = errors.Join(err, s.db.Close())
	if errors.Is(err, errUnsettled) {
		return openSettled(path, o, told)
	}
	return nil, err
}

// errUnsettled says that a file that is opened for reading was not closed in good order.
var errUnsettled = errors.New("the file was not closed, and its log may have more")

// openSettled opens for reading what was not closed: what is in the log is brought into the file first. Where the file cannot be
// written it is read as it is.
func openSettled(path string, o Options, told *opening) (*Store, error) {
	err := settle(path, o, told)
	asItIs := errors.Is(err, history.ErrReadOnly) || errors.Is(err, fs.ErrPermission)
	if err != nil && !asItIs {
		return nil, err
	}
	s, err := openStore(path, o, told)
	if err != nil {
		return nil, err
	}
	s.asItIs = asItIs
	if err := s.begin(o, told); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

// openStore opens the file, and does nothing to it.
func openStore(path string, o Options, told *opening) (*Store, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	told.at("free pages are looked for in " + ofSize(info.Size()))
	db, file, err := openBolt(path, o, o.ReadOnly)
	if err != nil {
		return nil, err
	}
	s := &Store{
		db: db, file: file, path: path, dead: make(chan struct{}), ro: o.ReadOnly, codec: history.NewCodec(), log: o.Log,
		leases: map[history.RunID]*lease{}, closing: map[history.RunID]bool{},
		delayed: map[history.RunID]delay{}, recent: newRecent(), timers: window{size: timerWindow}, woken: map[history.RunID]history.Time{}, staged: map[history.RunID]bool{}, wokenLimit: maxWoken, sched: newScheduler(),
	}
	s.work.redo.path, s.work.redo.size = redoPath(path), blocks(o.LogSize)
	s.maxSize, s.highWater = o.MaxSize, o.HighWater
	s.ballast.path, s.ballast.size = ballastPath(path), max(0, o.Ballast)
	if info, err := file.Stat(); err == nil {
		s.sizeAtOpen = info.Size()
	}
	return s, nil
}

// begin raises the epoch and starts the goroutines.
func (s *Store) begin(o Options, told *opening) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, s.work.redo.close())
		}
	}()
	var m meta
	read := func(tx *bolt.Tx) (err error) {
		m, err = readMeta(tx)
		return err
	}
	raise := func(tx *bolt.Tx) error {
		if err := read(tx); err != nil {
			return err
		}
		for b := bValues; b < nBuckets; b++ {
			if _, err := tx.CreateBucketIfNotExists([]byte(b.String())); err != nil {
				return err
			}
		}
		m.epoch = max(m.epoch+1, uint64(o.Clock().UnixMilli()))
		m.closed = 0 // from here on, an end without Close is a crash
		m.log = s.work.redo.id
		return m.write(tx)
	}
	err = guard(func() error {
		if !o.transfer {
			if err := s.db.View(func(tx *bolt.Tx) error { return unmoved(tx, s.ro) }); err != nil {
				return err
			}
		}
		if s.ro {
			return s.beginReading(&m)
		}
		if err := s.recover(told); err != nil {
			return err
		}
		if err := s.upgrade(o.Log, told); err != nil {
			return err
		}
		s.reuse()
		return s.db.Update(raise)
	})
	if err != nil {
		if full(err) {
			err = fmt.Errorf("%w: %w", history.ErrFull, err)
		}
		return err
	}
	s.epoch = m.epoch
	s.work.redo.seq, s.work.redo.named = m.applied, m.log != 0
	s.clock = newClock(o.Clock, m.time)
	if ahead := m.time.Sub(history.TimeOf(o.Clock())); ahead > aheadTold && !s.ro {
		o.Log.Warn("the machine's clock is behind the store's time, which stands still until it has caught up: no timer fires until then",
			"file", s.path, "time", m.time, "behind", ahead)
	}
	s.tell = newNotifier()
	if s.ro {
		return nil
	}
	if err := s.view(context.Background(), "open", func(v *view) error {
		s.extent.Store(v.tx.Size())
		return nil
	}); err != nil {
		return err
	}
	removeRemains(s.path, o.Log)
	s.ballast.gone = s.ballast.size > 0 && s.ballast.make() != nil // there is no room: new runs wait until there is
	s.work.wake, s.work.done = make(chan struct{}, 1), make(chan struct{})
	s.work.unflushed.runs = map[history.RunID]struct{}{}
	go s.commitLoop()
	return nil
}

// beginReading reads the meta bucket of a file that is opened for reading. One whose log may have more is not read as it is, unless
// that was found to be the only way.
func (s *Store) beginReading(m *meta) error {
	found, recs, err := s.lacks()
	if *m = found; err != nil || found.log == 0 {
		return err
	}
	if !s.asItIs {
		return errUnsettled
	}
	s.lacking = len(recs)
	s.log.Warn("the store was not closed, and cannot be written: it is read without what is in its log only", "file", s.path, "records", s.lacking)
	return nil
}

// openBolt opens the file under guard. On any error the file is closed, even where bbolt panicked with it open.
func openBolt(path string, o Options, readOnly bool) (*bolt.DB, *os.File, error) {
	var file *os.File
	var db *bolt.DB
	err := guard(func() (err error) {
		db, err = bolt.Open(path, fileMode, &bolt.Options{
			Timeout:         o.LockTimeout,
			ReadOnly:        readOnly,
			NoFreelistSync:  true, // a synced one costs nine tenths of the throughput once a large file was purged
			FreelistType:    bolt.FreelistMapType,
			InitialMmapSize: o.MmapSize,
			MaxSize:         o.MaxSize,
			OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
				file, err = os.OpenFile(name, flag, mode)
				return file, err
			},
		})
		return err
	})
	var p *panicError
	switch {
	case err == nil:
		if e := sameFile(path, file); e != nil {
			return nil, nil, errors.Join(e, db.Close())
		}
		return db, file, nil
	case errors.As(err, &p) && file == nil:
		return nil, nil, err
	case errors.As(err, &p):
		return nil, nil, errors.Join(fmt.Errorf("the file is damaged: restore a backup: %w", err), letGo(file))
	case errors.Is(err, berrors.ErrTimeout):
		return nil, nil, fmt.Errorf("%w%s: stop that one, or use the server that it runs", history.ErrLocked, holderOf(path))
	case errors.Is(err, syscall.EROFS):
		return nil, nil, fmt.Errorf("%w: %w: mount the file system for writing; perdure verify and perdure stats read the file as it is", history.ErrReadOnly, err)
	case errors.Is(err, berrors.ErrInvalid) && unreadable(path) != nil: // bbolt does not say why it could not read
		return nil, nil, fmt.Errorf("the disk cannot read the file: %w", unreadable(path))
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch):
		return nil, nil, fmt.Errorf("this is not a store: %w: %w", history.ErrFormat, err)
	case errors.Is(err, berrors.ErrChecksum):
		return nil, nil, fmt.Errorf("both meta pages are damaged: restore a backup: %w: %w", history.ErrCorrupt, err)
	case file != nil:
		if short := tooShort(path); short != nil {
			return nil, nil, short
		}
	}
	return nil, nil, err
}

// InUse reports whether a process has the file at path open for writing. A file that is not there is not in use.
func InUse(path string) (bool, error) {
	o := (&Options{LockTimeout: time.Millisecond, ReadOnly: true}).filled()
	db, _, err := openBolt(path, o, true)
	switch {
	case err == nil:
		return false, db.Close()
	case errors.Is(err, history.ErrLocked):
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	return false, fmt.Errorf("look whether store %s is in use: %w", path, err)
}

// unreadable returns why the first bytes of a file cannot be read; nil where they can.
func unreadable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.ReadAt(make([]byte, 2*os.Getpagesize()), 0); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// tooShort is the error for a file without room for the two meta pages, and nil for a longer one. That of bbolt has no kind.
func tooShort(path string) error {
	const magicAt, magic = 16, 0xED0CDAED // bbolt's, in each of them
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 2*os.Getpagesize())
	n, err := io.ReadFull(f, head)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case binary.NativeEndian.Uint32(head[magicAt:]) == magic:
		return fmt.Errorf("the file has %d bytes, less than any store, it was cut: restore a backup: %w", n, history.ErrCorrupt)
	}
	return fmt.Errorf("this is not a store: it has %d bytes: %w", n, history.ErrFormat)
}

// sameFile refuses a file that lost its name while its lock was waited for: Compact put another in its place, and what
// is written to this one would be lost.
func sameFile(path string, file *os.File) error {
	opened, err := file.Stat()
	if err != nil {
		return err
	}
	named, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !os.SameFile(opened, named) {
		return fmt.Errorf("%w: it was just replaced, try again", history.ErrLocked)
	}
	return nil
}

// inspect looks at a file before it is opened for good, read-only and without trusting it: see pages.
func inspect(path string, o Options, told *opening) error {
	db, file, err := openBolt(path, o, true)
	if err != nil {
		return err
	}
	locked, err := viewing(db, func(tx *bolt.Tx) error {
		info, err := file.Stat()
		if err != nil {
			return err
		}
		if tx.Size() > info.Size() {
			return fmt.Errorf("the file has %d bytes and should have %d, it was cut: restore a backup: %w", info.Size(), tx.Size(), history.ErrCorrupt)
		}
		told.at("all pages are checked, " + ofSize(tx.Size()))
		if err := checkPages(file, db.Info().PageSize, uint64(tx.ID()), &told.rows); err != nil {
			return fmt.Errorf("%w: restore a backup", err)
		}
		_, err = readMeta(tx)
		return err
	})
	var p *panicError
	if errors.As(err, &p) {
		err = fmt.Errorf("the file is damaged: restore a backup: %w", err)
	}
	if locked {
		return errors.Join(err, letGo(file))
	}
	return errors.Join(err, guard(db.Close))
}

// create makes a new store under a temporary name and gives it its name only when it is on disk: a crash leaves no half
// of one.
func create(path string, o Options) error {
	tmp := fmt.Sprintf("%s.new-%d-%d", path, os.Getpid(), time.Now().UnixNano())
	err := makeFile(tmp, o)
	if err == nil {
		err = place(tmp, path)
	}
	if e := os.Remove(tmp); err == nil && e != nil && !errors.Is(e, fs.ErrNotExist) {
		err = e
	}
	if err == nil {
		err = dirsync.Name(path)
	}
	if err != nil {
		if full(err) {
			err = fmt.Errorf("%w: %w", history.ErrFull, err)
		}
		return fmt.Errorf("create: %w", err)
	}
	return nil
}

func makeFile(tmp string, o Options) error {
	db, _, err := openBolt(tmp, o, false)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for b := range nBuckets {
			if _, err := tx.CreateBucket([]byte(b.String())); err != nil {
				return err
			}
		}
		m := meta{format: fileFormat, time: history.TimeOf(o.Clock())}
		return m.write(tx)
	})
	return errors.Join(err, db.Close())
}

// place names the file, unless somebody else was faster: then theirs is used.
func place(tmp, path string) error {
	err := os.Link(tmp, path)
	switch {
	case err == nil, errors.Is(err, fs.ErrExist):
		return nil
	}
	// A file system without links: a rename could replace another's file between the look and the rename, which
	// needs two processes that both create the store at the same moment.
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return os.Rename(tmp, path)
}
