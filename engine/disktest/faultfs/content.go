package faultfs

import (
	"bytes"
	"maps"
)

// PageSize is the size in bytes of the pages in which content is kept.
const PageSize = 4096

// Content is the bytes of a file. Pages that were never written are not there, and read as zeros. Pages are never changed
// in place, so that copies share them.
type Content struct {
	Size  int64
	Pages map[int64][]byte // by offset / PageSize, each PageSize long
}

func newContent() *Content { return &Content{Pages: map[int64][]byte{}} }

func (c *Content) clone() *Content { return &Content{c.Size, maps.Clone(c.Pages)} }

// write puts b at off.
func (c *Content) write(b []byte, off int64) {
	c.Size = max(c.Size, off+int64(len(b)))
	for len(b) > 0 {
		n, at := off/PageSize, off%PageSize
		page := make([]byte, PageSize)
		copy(page, c.Pages[n])
		done := copy(page[at:], b)
		c.Pages[n] = page
		b, off = b[done:], off+int64(done)
	}
}

// truncate sets the length.
func (c *Content) truncate(size int64) {
	if size < c.Size {
		for n := range c.Pages {
			if n*PageSize >= size {
				delete(c.Pages, n)
			}
		}
		if cut := size % PageSize; cut > 0 {
			if page, ok := c.Pages[size/PageSize]; ok {
				page = bytes.Clone(page)
				clear(page[cut:])
				c.Pages[size/PageSize] = page
			}
		}
	}
	c.Size = size
}

// read fills b from off and returns how much of it lies before the end.
func (c *Content) read(b []byte, off int64) int {
	n := int(min(int64(len(b)), max(c.Size-off, 0)))
	for got := 0; got < n; {
		at := off + int64(got)
		part := b[got:min(n, got+PageSize-int(at%PageSize))]
		if page, ok := c.Pages[at/PageSize]; ok {
			copy(part, page[at%PageSize:])
		} else {
			clear(part)
		}
		got += len(part)
	}
	return n
}

// Bytes returns all of it.
func (c *Content) Bytes() []byte {
	b := make([]byte, c.Size)
	c.read(b, 0)
	return b
}
