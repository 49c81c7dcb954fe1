package faultfs

import (
	"crypto/sha256"
	"encoding/binary"
)

// Sums tells whether images are the same. It remembers the digests of pages, which images share.
type Sums struct {
	pages map[*byte][sha256.Size]byte
}

// NewSums returns one that has seen nothing.
func NewSums() *Sums { return &Sums{pages: map[*byte][sha256.Size]byte{}} }

// Of returns the sum of an image's content. Two images with the same sum are the same.
func (s *Sums) Of(m Image) [4]uint64 {
	var sum [4]uint64
	add := func(name string, number int64, of [sha256.Size]byte) {
		b := binary.LittleEndian.AppendUint64([]byte(name), uint64(number))
		d := sha256.Sum256(append(b, of[:]...))
		for i := range sum { // a sum: the order of the pages does not matter
			sum[i] += binary.LittleEndian.Uint64(d[8*i:])
		}
	}
	for name, c := range m.Files {
		add(name, -1, sha256.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(c.Size))))
		for n, page := range c.Pages {
			add(name, n, s.page(page))
		}
	}
	return sum
}

func (s *Sums) page(b []byte) [sha256.Size]byte {
	d, ok := s.pages[&b[0]]
	if !ok {
		d = sha256.Sum256(b)
		s.pages[&b[0]] = d
	}
	return d
}
