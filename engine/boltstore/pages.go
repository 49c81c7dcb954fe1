package boltstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/perdure/perdure/history"
)

// bbolt trusts its pages: one that a disk lost, wrote elsewhere or changed can make it panic in a goroutine of its own,
// follow a circle for ever, or take a page that is in use for a free one and write over it. So the pages are checked
// before bbolt may use them. The format is that of bbolt's internal/common: version 2, in the byte order of the machine.

const (
	pageBranch   = 0x01
	pageLeaf     = 0x02
	pageFreelist = 0x10

	pageHeader   = 16 // id 8, flags 2, count 2, overflow 4
	pageElement  = 16 // branch: position 4, key bytes 4, page 8; leaf: flags 4, position 4, key bytes 4, value bytes 4
	bucketHeader = 16 // root page 8, sequence 8; then, where the root is 0, the bucket's only page

	leafBucket = 0x01 // flag of a leaf element whose value is a bucket

	noFreelist = ^uint64(0)
)

// pages checks that the pages of one transaction form a tree, in which each page is used once, and that the list of free
// pages, where it is on disk, has all others.
type pages struct {
	file io.ReaderAt
	size int64  // of a page
	end  uint64 // the first page that was never used
	used []bool
	rows *atomic.Int64 // counts the rows that were looked at
}

// errPages says that a page is not what it should be. It matches history.ErrCorrupt.
func errPages(page uint64, format string, args ...any) error {
	return fmt.Errorf("page %d: %s: %w", page, fmt.Sprintf(format, args...), history.ErrCorrupt)
}

// checkPages checks the file as of transaction txid.
func checkPages(file io.ReaderAt, pageSize int, txid uint64, rows *atomic.Int64) error {
	p := &pages{file: file, size: int64(pageSize), rows: rows}
	root, freelist, end, err := p.meta(txid)
	if err != nil {
		return err
	}
	p.end, p.used = end, make([]bool, end)
	p.used[0], p.used[1] = true, true
	if err := p.tree(root, nil, nil); err != nil {
		return err
	}
	if freelist == noFreelist {
		return nil
	}
	return p.freelist(freelist)
}

// meta reads the meta page of a transaction. It is either of the two: a copy that bbolt makes has the newest in the first.
func (p *pages) meta(txid uint64) (root, freelist, end uint64, err error) {
	b, n := make([]byte, 80), binary.NativeEndian
	for at := range int64(2) {
		if _, err := p.file.ReadAt(b, at*p.size); err != nil {
			return 0, 0, 0, fmt.Errorf("read meta page %d: %w", at, err)
		}
		if n.Uint64(b[64:]) == txid {
			return n.Uint64(b[32:]), n.Uint64(b[48:]), n.Uint64(b[56:]), nil
		}
	}
	return 0, 0, 0, fmt.Errorf("no meta page has transaction %d: %w", txid, history.ErrCorrupt)
}

// load reads a page with its overflow, and marks it as used.
func (p *pages) load(id uint64) ([]byte, error) {
	if id < 2 || id >= p.end {
		return nil, errPages(id, "is referred to, and the pages end at %d", p.end)
	}
	b := make([]byte, p.size)
	if err := p.read(b, id); err != nil {
		return nil, err
	}
	n := binary.NativeEndian
	if got := n.Uint64(b); got != id {
		return nil, errPages(id, "says that it is page %d", got)
	}
	overflow := uint64(n.Uint32(b[12:]))
	if overflow >= p.end-id {
		return nil, errPages(id, "has %d more pages, and the pages end at %d", overflow, p.end)
	}
	for i := id; i <= id+overflow; i++ {
		if p.used[i] {
			return nil, errPages(i, "is used twice")
		}
		p.used[i] = true
	}
	if overflow > 0 {
		b = make([]byte, int64(overflow+1)*p.size)
		if err := p.read(b, id); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (p *pages) read(b []byte, id uint64) error {
	_, err := p.file.ReadAt(b, int64(id)*p.size)
	switch {
	case errors.Is(err, io.EOF):
		return errPages(id, "lies behind the end of the file")
	case err != nil:
		return fmt.Errorf("read page %d: %w", id, err)
	}
	return nil
}

// tree checks the pages below id, whose first key must be low, and whose others lie before high; nil is no bound. bbolt finds
// a page again in its parent by its first key: with another one there, it would keep the page that it wants to replace.
func (p *pages) tree(id uint64, low, high []byte) error {
	b, err := p.load(id)
	if err != nil {
		return err
	}
	switch flags := binary.NativeEndian.Uint16(b[8:]); flags {
	case pageLeaf:
		return p.leaf(id, b, low, high)
	case pageBranch:
		return p.branch(id, b, low, high)
	default:
		return errPages(id, "has type %#x, want a branch or a leaf", flags)
	}
}

func (p *pages) branch(id uint64, b, low, high []byte) error {
	n := binary.NativeEndian
	count := int(n.Uint16(b[10:]))
	if count == 0 {
		return errPages(id, "is a branch without elements")
	}
	keys := make([][]byte, count)
	for i := range keys {
		e, at, err := element(id, b, i, count)
		if err != nil {
			return err
		}
		if keys[i], err = slice(id, b, at+int(n.Uint32(e)), n.Uint32(e[4:]), 0); err != nil {
			return err
		}
	}
	if err := ordered(id, keys, low, high); err != nil {
		return err
	}
	for i, key := range keys {
		e, _, err := element(id, b, i, count)
		if err != nil {
			return err
		}
		next := high
		if i+1 < count {
			next = keys[i+1]
		}
		if err := p.tree(n.Uint64(e[8:]), key, next); err != nil {
			return err
		}
	}
	return nil
}

func (p *pages) leaf(id uint64, b, low, high []byte) error {
	n := binary.NativeEndian
	count := int(n.Uint16(b[10:]))
	p.rows.Add(int64(count))
	keys := make([][]byte, count)
	for i := range keys {
		e, at, err := element(id, b, i, count)
		if err != nil {
			return err
		}
		ksize, vsize := n.Uint32(e[8:]), n.Uint32(e[12:])
		row, err := slice(id, b, at+int(n.Uint32(e[4:])), ksize, vsize)
		if err != nil {
			return err
		}
		keys[i] = row[:ksize]
		switch flags := n.Uint32(e); flags {
		case 0:
		case leafBucket:
			if err := p.bucket(id, row[ksize:]); err != nil {
				return err
			}
		default:
			return errPages(id, "element %d has flags %#x", i, flags)
		}
	}
	if count == 0 && low != nil {
		return errPages(id, "is an empty leaf below a branch")
	}
	return ordered(id, keys, low, high)
}

// bucket checks a bucket whose header is in a leaf of page id.
func (p *pages) bucket(id uint64, value []byte) error {
	if len(value) < bucketHeader {
		return errPages(id, "a bucket has a header of %d bytes", len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return p.tree(root, nil, nil)
	}
	inline := value[bucketHeader:]
	if len(inline) < pageHeader {
		return errPages(id, "a bucket in the page has %d bytes", len(inline))
	}
	if flags := binary.NativeEndian.Uint16(inline[8:]); flags != pageLeaf {
		return errPages(id, "a bucket in the page has type %#x, want a leaf", flags)
	}
	return p.leaf(id, inline, nil, nil)
}

// element returns the header of element i and where it begins.
func element(id uint64, b []byte, i, count int) ([]byte, int, error) {
	at := pageHeader + i*pageElement
	if at+pageElement > len(b) {
		return nil, 0, errPages(id, "has %d elements in %d bytes", count, len(b))
	}
	return b[at : at+pageElement], at, nil
}

// slice returns the key and value of an element.
func slice(id uint64, b []byte, at int, ksize, vsize uint32) ([]byte, error) {
	end := int64(at) + int64(ksize) + int64(vsize)
	if at < pageHeader || end > int64(len(b)) {
		return nil, errPages(id, "an element lies at %d to %d of %d bytes", at, end, len(b))
	}
	return b[at:end], nil
}

// ordered checks that keys grow, from low on and up to high.
func ordered(id uint64, keys [][]byte, low, high []byte) error {
	for i, key := range keys {
		switch {
		case i == 0 && low != nil && !bytes.Equal(key, low),
			i > 0 && bytes.Compare(key, keys[i-1]) <= 0,
			high != nil && bytes.Compare(key, high) >= 0:
			return errPages(id, "key %d is out of order", i)
		}
	}
	return nil
}

// freelist checks the list of free pages, after the tree: a page that is in the tree and in the list would be written over.
func (p *pages) freelist(id uint64) error {
	b, err := p.load(id)
	if err != nil {
		return err
	}
	n := binary.NativeEndian
	if flags := n.Uint16(b[8:]); flags != pageFreelist {
		return errPages(id, "has type %#x, want the list of free pages", flags)
	}
	ids := b[pageHeader:]
	count := uint64(n.Uint16(b[10:]))
	if count == 0xffff { // too many for the header: the first entry has the count
		count, ids = n.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids)/8) {
		return errPages(id, "has %d free pages in %d bytes", count, len(b))
	}
	for i := range count {
		free := n.Uint64(ids[8*i:])
		if free < 2 || free >= p.end || p.used[free] {
			return errPages(free, "is free, and in use or none")
		}
		p.used[free] = true
	}
	return nil
}
