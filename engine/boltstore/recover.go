package boltstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	bolt "go.etcd.io/bbolt"

	"github.com/perdure/perdure/engine/dirsync"
	"github.com/perdure/perdure/history"
)

// maxRedoSize bounds what is taken for a log, in bytes.
const maxRedoSize = 1 << 30

// ErrLog matches errors that say why the log beside a file cannot be used, or that it is there without the file. They match
// history.ErrCorrupt too.
var ErrLog = fmt.Errorf("log of the store: %w", history.ErrCorrupt)

// wayOut is what can be done about a log that cannot be used.
const wayOut = "restore a backup, or give up the newest writes with perdure compact --without-log"

// replayLog brings the file up to what the log beside it has, which it names no more then. It returns how many records that were.
func (s *Store) replayLog() (n int, err error) {
	m, recs, err := s.lacks()
	if err != nil || m.log == 0 {
		return 0, err
	}
	err = s.db.Update(func(tx *bolt.Tx) error {
		v := &view{tx: tx, codec: s.codec}
		for i := range recs {
			if err := recs[i].each(v.apply); err != nil {
				return err
			}
			m.applied = recs[i].seq
		}
		b := v.bucket(bMeta)
		return errors.Join(b.Put(metaApplied, u64(nil, m.applied)), b.Put(metaLog, u64(nil, 0)))
	})
	return len(recs), err
}

// lacks returns the records of the log that the file lacks.
func (s *Store) lacks() (m meta, recs []record, err error) {
	if m, err = metaOf(s.db); err == nil {
		recs, err = readLog(redoPath(s.path), m.log, m.applied)
	}
	return m, recs, err
}

// settle opens a file for writing that was not closed, and brings it up to its log, for those who only want to read it.
func settle(path string, o Options, told *opening) error {
	o.ReadOnly = false
	s, err := openStore(path, o, told)
	if err != nil {
		return err
	}
	err = guard(func() error { return s.recover(told) })
	if err == nil {
		s.dropLog()
	}
	return errors.Join(err, s.db.Close())
}

// recover brings the file up to the log, which is of no use then.
func (s *Store) recover(told *opening) error {
	told.at("the log is read")
	n, err := s.replayLog()
	if err != nil && full(err) && s.ballast.release() {
		n, err = s.replayLog()
	}
	if err != nil {
		return err
	}
	if n > 0 {
		s.log.Info("the store was not closed: what was in its log is in the file now", "file", s.path, "records", n)
	}
	return nil
}

// reuse takes the log of the time before for this one, where it has the right size: a new one takes as long to make as it is to write.
func (s *Store) reuse() {
	r := &s.work.redo
	if r.take(reuseLog(r.path, r.size)); r.err == nil || errors.Is(r.err, fs.ErrNotExist) {
		return
	}
	s.log.Info("the log of the time before is not used again", "log", r.path, "error", r.err.Error())
	s.dropLog()
}

// dropLog removes the log of the time before. It has nothing that counts: where it cannot be removed, no new one can be made, which
// is told then.
func (s *Store) dropLog() {
	if err := os.Remove(s.work.redo.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("the log of the time before cannot be removed", "error", err)
	}
}

// GiveUpLog makes a store usable whose log is lost or damaged, without the writes that were in the log only: the newest that were
// acknowledged, of the last tenth of a second or so before the process was killed or the machine failed. It returns why the log could
// not be used; nil for one that can be, which is left for the next opening. What is left of a log that
// is given up gets a name of its own beside the file, which ends in ".given-up". Nobody may have the file open.
func GiveUpLog(path string) (reason, err error) {
	if reason, err = giveUpLog(path); err != nil {
		return nil, fmt.Errorf("give up the log of %s: %w", path, err)
	}
	return reason, nil
}

func giveUpLog(path string) (reason, err error) {
	o := (*Options)(nil).filled()
	told := newOpening(path, o.Log)
	err = inspect(path, o, told)
	told.end(err)
	if err != nil {
		return nil, err
	}
	db, _, err := openBolt(path, o, false)
	if err != nil {
		return nil, err
	}
	err = guard(func() error {
		m, err := metaOf(db)
		if err != nil {
			return err
		}
		if _, reason = readLog(redoPath(path), m.log, m.applied); reason == nil {
			return nil
		}
		m.log = 0
		return db.Update(m.write)
	})
	if err == nil && reason != nil {
		err = setAside(redoPath(path))
	}
	return reason, errors.Join(err, db.Close())
}

// setAside gives what is left of a log another name.
func setAside(log string) error {
	aside := log + ".given-up"
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return err
		}
		aside = fmt.Sprintf("%s.%d.given-up", log, n)
	}
	if err := os.Rename(log, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return dirsync.Name(aside)
}

func metaOf(db *bolt.DB) (m meta, err error) {
	err = db.View(func(tx *bolt.Tx) (err error) {
		m, err = readMeta(tx)
		return err
	})
	return m, err
}

// readLog returns the records that a file lacks which has all up to applied, and names the log id (0: none).
func readLog(path string, id, applied uint64) ([]record, error) {
	l, err := openLog(path)
	switch {
	case err == nil:
		defer l.file.Close()
	case id == 0:
		return nil, nil // it has nothing that counts
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the newest writes are in the log %s, which is not there: put it back beside the file, or %s: %w", path, wayOut, ErrLog)
	default:
		return nil, fmt.Errorf("the newest writes are in the log: %w", err)
	}
	if id == 0 {
		if seq, err := l.newest(0, 0); err == nil && seq > applied {
			return nil, fmt.Errorf("the log %s has writes up to record %d, and the file, which has them up to %d, knows of no log: "+
				"an older file was put in the place of the one that it belongs to; move the log away to go on without them: %w", path, seq, applied, ErrLog)
		}
		return nil, nil
	}
	return l.after(id, applied)
}

// noLog refuses a place for a new file where the log of another has writes. The error matches fs.ErrExist.
func noLog(path string) error {
	if _, err := readLog(redoPath(path), 0, 0); err != nil {
		return fmt.Errorf("%s is the log of a store that is not there, and has its newest writes: put that back, or move the log away too: %w",
			redoPath(path), fs.ErrExist)
	}
	return nil
}

// logFile is a log as it was found. Of its blocks only those are read that may matter: most have nothing, or what the file has.
type logFile struct {
	path string
	file *os.File
	size int64
}

func openLog(path string) (*logFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > maxRedoSize {
		err = fmt.Errorf("%s has %d bytes and is none: %s: %w", path, info.Size(), wayOut, ErrLog)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &logFile{path: path, file: f, size: info.Size()}, nil
}

// record reads the record that begins at a place; ok is false where none does that is whole and wanted.
func (l *logFile) record(at int64, wanted func(r record) bool) (r record, ok bool, err error) {
	var head [recordHeader]byte
	if at+recordHeader > l.size {
		return r, false, nil
	}
	if err := l.read(head[:], at); err != nil {
		return r, false, err
	}
	r, length, ok := parseHeader(head[:])
	if !ok || !wanted(r) || length > l.size-at-recordHeader {
		return r, false, nil
	}
	b := make([]byte, recordHeader+length)
	if err := l.read(b, at); err != nil {
		return r, false, err
	}
	r, ok = parseRecord(b)
	return r, ok, nil
}

func (l *logFile) read(b []byte, at int64) error {
	if _, err := l.file.ReadAt(b, at); err != nil {
		return fmt.Errorf("the newest writes are in the log: %w", err)
	}
	return nil
}

// after returns the records after number applied. Where they end, a record may have been torn: then it is the last, and was not
// acknowledged. One behind it says that the log is damaged.
func (l *logFile) after(id, applied uint64) (recs []record, err error) {
	if err := l.checkHead(id); err != nil {
		return nil, err
	}
	at, next := int64(redoBlock), applied+1
	for at < l.size {
		r, ok, err := l.record(at, func(r record) bool { return r.id == id && r.seq == next })
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		recs = append(recs, r)
		at += blocks(int64(r.size()))
		next++
	}
	seq, err := l.newest(at, id)
	if err == nil && seq >= next {
		err = l.damaged("it has record %d, and %d, which was before it, is not where it should be", seq, next)
	}
	return recs, err
}

// checkHead refuses a log that is not the whole one of an id.
func (l *logFile) checkHead(id uint64) error {
	head, ok, err := l.record(0, func(r record) bool { return r.seq == 0 })
	switch {
	case err != nil:
		return err
	case !ok || len(head.writes) != 8:
		return l.damaged("its head is none")
	case head.id != id:
		return fmt.Errorf("the log %s belongs to another file: put the right one beside this one, or %s: %w", l.path, wayOut, ErrLog)
	}
	if size := binary.BigEndian.Uint64(head.writes); size != uint64(l.size) {
		return l.damaged("it has %d bytes and should have %d: it was cut", l.size, size)
	}
	return nil
}

// newest returns the highest number of a record that begins at or behind a place, of the log id (0: of any); 0 where there is none.
func (l *logFile) newest(at int64, id uint64) (seq uint64, err error) {
	for ; at < l.size; at += redoBlock {
		r, ok, err := l.record(at, func(r record) bool { return (id == 0 || r.id == id) && r.seq > seq })
		if err != nil {
			return 0, err
		}
		if ok {
			seq = r.seq
		}
	}
	return seq, nil
}

func (l *logFile) damaged(format string, args ...any) error {
	return fmt.Errorf("the log %s is damaged: %s: %s: %w", l.path, fmt.Sprintf(format, args...), wayOut, ErrLog)
}
