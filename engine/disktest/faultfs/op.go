package faultfs

import "fmt"

// Kind is what a request does to the disk.
type Kind uint8

const (
	Write    Kind = iota + 1 // bytes of a file
	Truncate                 // the length of a file
	Sync                     // a file is made durable
	Create                   // a new file
	Link                     // another name for a file
	Rename                   // another name instead of the old one
	Remove                   // a name goes
	SyncDir                  // the names are made durable
	Note                     // what a test wrote to NotesName: no change of the disk

	// These are never recorded: faults name them.
	Read // a read, also by a page fault
	Open // an open of a file that is there
	Map  // a memory map: refused with ENODEV
)

var kindNames = map[Kind]string{
	Write: "write", Truncate: "truncate", Sync: "sync", Create: "create", Link: "link", Rename: "rename", Remove: "remove",
	SyncDir: "sync of the directory", Note: "note", Read: "read", Open: "open", Map: "map",
}

func (k Kind) String() string { return kindNames[k] }

// Op is one change or sync that the disk has done.
type Op struct {
	Kind Kind
	// File numbers the file, over all its names.
	File uint64
	// Name is the file's name, From the one before a Rename.
	Name, From string
	Off        int64  // of a Write
	Data       []byte // of a Write or Note
	Size       int64  // after a Truncate
}

func (o Op) String() string {
	switch o.Kind {
	case Write:
		return fmt.Sprintf("write of %d bytes at %d of %s", len(o.Data), o.Off, o.Name)
	case Truncate:
		return fmt.Sprintf("truncate of %s to %d bytes", o.Name, o.Size)
	case Rename:
		return fmt.Sprintf("rename of %s to %s", o.From, o.Name)
	case Note:
		return "note " + string(o.Data)
	}
	return fmt.Sprintf("%s of %s", o.Kind, o.Name)
}

// NotesName is a file whose writes become notes among the ops: a process that uses the disk says there what it was told,
// and the note stands where it was said. No fault hits it, and it is no part of the disk's content.
const NotesName = "notes"
