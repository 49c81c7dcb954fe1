package faultfs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// SectorSize is what a disk writes whole or not at all, in bytes.
const SectorSize = 512

// Platter is what is on disk for certain, and what may be.
type Platter struct {
	durable state
	pending []Op // done, and not yet made durable
}

// state is files and their names.
type state struct {
	files map[uint64]*Content
	names map[string]uint64
	own   map[uint64]bool // files whose content nobody else shares
}

func newState() state {
	return state{files: map[uint64]*Content{}, names: map[string]uint64{}, own: map[uint64]bool{}}
}

// clone returns a copy that shares the content until it is changed.
func (s state) clone() state {
	return state{files: maps.Clone(s.files), names: maps.Clone(s.names), own: map[uint64]bool{}}
}

// NewPlatter returns an empty disk.
func NewPlatter() *Platter {
	return &Platter{durable: newState()}
}

// Apply does the next op of a recording. A sync makes durable what it covers.
func (p *Platter) Apply(op Op) {
	switch op.Kind {
	case Note:
	case Sync:
		p.settle(func(o Op) bool { return (o.Kind == Write || o.Kind == Truncate) && o.File == op.File })
	case SyncDir:
		p.settle(func(o Op) bool { return o.Kind != Write && o.Kind != Truncate })
	default:
		p.pending = append(p.pending, op)
	}
}

func (p *Platter) settle(covered func(Op) bool) {
	rest := p.pending[:0]
	for _, op := range p.pending {
		if !covered(op) {
			rest = append(rest, op)
			continue
		}
		p.durable.persist(op)
	}
	clear(p.pending[len(rest):])
	p.pending = rest
}

// persist does op, on a copy of the content where that is shared.
func (s state) persist(op Op) {
	content := func() *Content {
		c, ok := s.files[op.File]
		switch {
		case !ok:
			c = newContent()
		case !s.own[op.File]:
			c = c.clone()
		}
		s.files[op.File], s.own[op.File] = c, true
		return c
	}
	switch op.Kind {
	case Write:
		content().write(op.Data, op.Off)
	case Truncate:
		content().truncate(op.Size)
	case Create, Link:
		s.names[op.Name] = op.File
	case Rename:
		delete(s.names, op.From)
		s.names[op.Name] = op.File
	case Remove:
		delete(s.names, op.Name)
	}
}

// Pending returns how many ops a power cut may still take.
func (p *Platter) Pending() int { return len(p.pending) }

// Image is what a disk holds after a power cut.
type Image struct {
	Files map[string]*Content
	// What says in words which of the pending ops are in it.
	What string
}

// Outcome selects an image.
type Outcome struct {
	// Choice is one of the plain outcomes for values below Outcomes: nothing that is pending, all, all up to one op, one op
	// alone, all but one. Higher values draw any subset, with torn writes.
	Choice int
	// Seed makes the draw repeatable.
	Seed uint64
}

// maxPlain is how many pending ops, the newest, have plain outcomes of their own.
const maxPlain = 32

// Outcomes returns how many plain outcomes there are.
func (p *Platter) Outcomes() int { return 2 + 3*min(len(p.pending), maxPlain) }

// Image makes the image of an outcome.
func (p *Platter) Image(o Outcome) Image {
	n := len(p.pending)
	p.durable.own = map[uint64]bool{} // the image shares it
	s := p.durable.clone()
	keep := func(what string, kept func(i int) bool) Image {
		for i, op := range p.pending {
			if kept(i) {
				s.persist(op)
			}
		}
		return s.image(what)
	}
	switch i := max(0, n-maxPlain) + (o.Choice-2)/3; {
	case o.Choice == 0:
		return keep("nothing that is pending", func(int) bool { return false })
	case o.Choice == 1:
		return keep("all that is pending", func(int) bool { return true })
	case o.Choice >= p.Outcomes():
		return p.draw(s, o.Seed)
	case (o.Choice-2)%3 == 0:
		return keep(fmt.Sprintf("the first %d of %d pending ops", i, n), func(j int) bool { return j < i })
	case (o.Choice-2)%3 == 1:
		return keep(fmt.Sprintf("alone of %d pending ops: %s", n, p.pending[i]), func(j int) bool { return j == i })
	default:
		return keep(fmt.Sprintf("all of %d pending ops without: %s", n, p.pending[i]), func(j int) bool { return j != i })
	}
}

// draw keeps each op with a probability that is drawn too, and tears some of the writes that it keeps.
func (p *Platter) draw(s state, seed uint64) Image {
	r := rand.New(rand.NewPCG(seed, 1))
	share, torn := r.Float64(), r.Float64()
	var kept []string
	for i, op := range p.pending {
		switch {
		case r.Float64() >= share:
		case op.Kind == Write && r.Float64() < torn:
			kept = append(kept, fmt.Sprintf("%d (torn)", i))
			for _, sector := range sectors(op) {
				if r.IntN(2) == 0 {
					s.persist(sector)
				}
			}
		default:
			kept = append(kept, fmt.Sprint(i))
			s.persist(op)
		}
	}
	return s.image(fmt.Sprintf("of %d pending ops these: %v", len(p.pending), kept))
}

// sectors cuts a write at the sectors of the disk.
func sectors(op Op) []Op {
	var out []Op
	for off, rest := op.Off, op.Data; len(rest) > 0; {
		n := min(len(rest), int(SectorSize-off%SectorSize))
		part := op
		part.Off, part.Data = off, rest[:n]
		out = append(out, part)
		off, rest = off+int64(n), rest[n:]
	}
	return out
}

func (s state) image(what string) Image {
	m := Image{Files: map[string]*Content{}, What: what}
	for name, id := range s.names {
		c, ok := s.files[id]
		if !ok {
			c = newContent() // the name is durable, and nothing of the file
		}
		m.Files[name] = c
	}
	return m
}

// Save writes the image's files into a folder that holds none of them.
func (m Image) Save(dir string) error {
	for name, c := range m.Files {
		if err := c.save(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Content) save(path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	if err := f.Truncate(c.Size); err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(c.Pages)) {
		page := c.Pages[n]
		if _, err := f.WriteAt(page[:min(PageSize, c.Size-n*PageSize)], n*PageSize); err != nil {
			return err
		}
	}
	return nil
}
