package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/transfer"
	"github.com/perdure/perdure/history"
)

// metaMove has the transfer.Mark of a file that takes part in a move, as JSON. It is there only while the file does.
var metaMove = []byte("move")

func readMark(tx *bolt.Tx) (m transfer.Mark, err error) {
	b := tx.Bucket([]byte(bMeta.String())).Get(metaMove)
	if b == nil {
		return m, nil
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("the mark of a move: %w: %w", history.ErrCorrupt, err)
	}
	return m, nil
}

// unmoved refuses a file that takes part in a move. One whose runs are moved away may still be read.
func unmoved(tx *bolt.Tx, readOnly bool) error {
	m, err := readMark(tx)
	if err != nil || m.IsZero() || readOnly && m.Role == transfer.Source {
		return err
	}
	return m.Refuse()
}

// Transfer is a file that takes part in a move: see package transfer. While it is open nobody else has the file.
type Transfer struct{ store *Store }

var _ transfer.Store = (*Transfer)(nil)

// OpenTransfer opens the file at path for a move. Where create is set it is made if it is missing; else its error matches
// fs.ErrNotExist then. Its other errors are those of Open.
func OpenTransfer(path string, create bool, opts *Options) (*Transfer, error) {
	o := opts.filled()
	o.transfer = true
	if _, err := os.Stat(path); !create && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	s, err := Open(path, &o)
	if err != nil {
		return nil, err
	}
	return &Transfer{s}, nil
}

// Close releases the file.
func (t *Transfer) Close() error { return t.store.Close() }

// String is the file's path.
func (t *Transfer) String() string { return t.store.path }

// Mark implements transfer.Store.
func (t *Transfer) Mark(ctx context.Context) (m transfer.Mark, err error) {
	err = t.store.view(ctx, "read the mark of a move", func(v *view) error {
		m, err = readMark(v.tx)
		return err
	})
	return m, err
}

// SetMark implements transfer.Store. Of a source, what deleted and pruned runs have left leaves first.
func (t *Transfer) SetMark(ctx context.Context, m transfer.Mark) error {
	if m.Role == transfer.Source && !m.Done {
		if err := t.eraseRests(ctx); err != nil {
			return err
		}
	}
	return t.update(ctx, "mark for a move", func(tx *bolt.Tx) error { return putMark(tx, m) })
}

func putMark(tx *bolt.Tx, m transfer.Mark) error {
	meta := tx.Bucket([]byte(bMeta.String()))
	if m.IsZero() {
		return meta.Delete(metaMove)
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return meta.Put(metaMove, b)
}

func (t *Transfer) eraseRests(ctx context.Context) error {
	for more := true; more; {
		token, err := t.store.LeaseCleanup(ctx, "move", time.Minute)
		if err != nil {
			return err
		}
		if more, err = t.store.Erase(ctx, token); err != nil {
			return err
		}
	}
	return nil
}

// update runs fn in a write transaction of its own: nothing else writes to a file that is moved.
func (t *Transfer) update(ctx context.Context, op string, fn func(tx *bolt.Tx) error) error {
	t.store.work.reads.Add(1)
	defer t.store.work.reads.Add(-1)
	err := t.store.usable(ctx)
	if err == nil {
		err = t.store.retire(ctx) // the committer has no transaction open then
	}
	if err == nil {
		err = guard(func() error { return t.store.db.Update(fn) })
	}
	if err != nil && full(err) {
		err = fmt.Errorf("%w: %w", history.ErrFull, err)
	}
	return t.store.wrap(op, err)
}

// Head implements transfer.Store.
func (t *Transfer) Head(ctx context.Context) (h transfer.Head, err error) {
	err = t.store.view(ctx, "read the epoch", func(v *view) error {
		m, err := readMeta(v.tx)
		h = transfer.Head{Epoch: m.epoch, Time: m.time}
		return err
	})
	return h, err
}

// SetHead implements transfer.Store: the next opening raises the epoch above it.
func (t *Transfer) SetHead(ctx context.Context, h transfer.Head) error {
	return t.update(ctx, "set the epoch", func(tx *bolt.Tx) error {
		m, err := readMeta(tx)
		if err != nil {
			return err
		}
		m.epoch, m.time = max(m.epoch, h.Epoch), max(m.time, h.Time)
		return m.write(tx)
	})
}

// The bounds on what is read in one transaction.
const (
	transferRows  = 1000
	transferBytes = 4 << 20
)

// Rows implements transfer.Store. It reads a page in each transaction.
func (t *Transfer) Rows(ctx context.Context, k transfer.Kind, after transfer.Row) iter.Seq2[transfer.Row, error] {
	return func(yield func(transfer.Row, error) bool) {
		for more := true; more; {
			var rows []transfer.Row
			err := t.store.view(ctx, "read "+k.String(), func(v *view) (err error) {
				rows, more, err = v.transferPage(k, after)
				return err
			})
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
				after = r
			}
			if err != nil {
				yield(transfer.Row{}, err)
				return
			}
		}
	}
}

// transferPage reads rows of a kind after one; more says that there may be others.
func (v *view) transferPage(k transfer.Kind, after transfer.Row) (rows []transfer.Row, more bool, err error) {
	table, ok := transferTables[k]
	if !ok {
		return nil, false, fmt.Errorf("rows of kind %d: %w", k, history.ErrFormat)
	}
	r := transferReader{view: v}
	last, size := table.key(&after), 0
	for key, val := range v.scan(table.bucket, nil, last) {
		if bytes.Equal(key, last) {
			continue
		}
		if len(rows) == transferRows || size >= transferBytes {
			return rows, true, nil
		}
		row := transfer.Row{Kind: k}
		if err := table.read(&r, &row, key, val); err != nil {
			return rows, false, fmt.Errorf("row %x in %s: %w", key, table.bucket, err)
		}
		rows, size = append(rows, row), size+row.Size()
	}
	return rows, false, nil
}

// Put implements transfer.Store.
func (t *Transfer) Put(ctx context.Context, rows []transfer.Row, m transfer.Mark) error {
	return t.update(ctx, "put rows", func(tx *bolt.Tx) error {
		w := transferWriter{&view{tx: tx, codec: t.store.codec}}
		for i := range rows {
			r := &rows[i]
			if err := transferTables[r.Kind].write(w, r); err != nil {
				return fmt.Errorf("%s, run %s: %w", r.Kind, r.Run, err)
			}
		}
		return putMark(tx, m)
	})
}

// Clear implements transfer.Store.
func (t *Transfer) Clear(ctx context.Context) error {
	return t.update(ctx, "clear", func(tx *bolt.Tx) error {
		for b := range nBuckets {
			if b == bMeta {
				continue
			}
			if err := tx.DeleteBucket([]byte(b.String())); err != nil {
				return err
			}
			if _, err := tx.CreateBucket([]byte(b.String())); err != nil {
				return err
			}
		}
		return nil
	})
}

// Verify implements transfer.Store.
func (t *Transfer) Verify(ctx context.Context, fn func(engine.Violation)) error {
	return t.store.Verify(ctx, fn)
}

// transferReader makes rows of what the buckets have.
type transferReader struct {
	*view
	// numbers are the rows in identitylog of the run that is being read, by kind and key.
	run     history.RunID
	numbers map[string]number
}

// number is a row in identitylog.
type number struct {
	n  uint64
	at history.Time
}

// transferWriter puts rows into the buckets, with all that leads to them.
type transferWriter struct{ *view }

func (w transferWriter) put(b bucketID, key, value []byte) error { return w.bucket(b).Put(key, value) }

// all puts rows until one fails.
func (w transferWriter) all(rows ...write) error {
	for _, r := range rows {
		if err := w.put(r.bucket, r.key, r.value); err != nil {
			return err
		}
	}
	return nil
}

func (r *transferReader) numberOf(id history.RunID, identity []byte) number {
	if r.numbers == nil || r.run != id {
		r.run, r.numbers = id, map[string]number{}
		for k, val := range r.scan(bIdentityLog, id[:], nil) {
			if len(k) == runLen+8 && len(val) > 8 {
				r.numbers[string(val[8:])] = number{binary.BigEndian.Uint64(k[runLen:]), timeOf(val)}
			}
		}
	}
	return r.numbers[string(identity)]
}
