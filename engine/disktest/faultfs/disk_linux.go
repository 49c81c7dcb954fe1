package faultfs

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Disk is a mounted file system. Its methods are safe for concurrent use.
type Disk struct {
	server *fuse.Server
	dir    string

	mu       sync.Mutex
	files    map[string]*file // by name, of the top folder
	lastID   uint64
	ops      []Op
	faults   []*Armed
	size     int64 // of the disk, in bytes; 0 means endless
	capacity int64 // the same, while something takes room away
	used     int64 // in bytes, of pages
	readOnly bool
}

// Mount mounts an empty disk at the folder dir. It needs /dev/fuse and the right to mount: root, or the program fusermount3.
func Mount(dir string) (*Disk, error) {
	d := &Disk{dir: dir, files: map[string]*file{}}
	zero := time.Duration(0)
	server, err := fs.Mount(dir, &folder{disk: d, top: true}, &fs.Options{
		MountOptions: fuse.MountOptions{
			FsName: "faultfs", Name: "faultfs", DirectMount: true, DisableXAttrs: true, ExplicitDataCacheControl: true,
		},
		EntryTimeout: &zero, AttrTimeout: &zero, NegativeTimeout: &zero, // what a test changes behind the mount is seen
	})
	if err != nil {
		return nil, fmt.Errorf("mount faultfs at %s: %w", dir, err)
	}
	d.server = server
	return d, nil
}

// Unmount ends it. A file that is still open keeps the mount for a while: then it is detached, and goes with the file.
func (d *Disk) Unmount() error {
	err := d.server.Unmount()
	if err != nil {
		err = syscall.Unmount(d.dir, syscall.MNT_DETACH)
	}
	return err
}

// Dir is where the disk is mounted.
func (d *Disk) Dir() string { return d.dir }

// Inject arms a fault. Of several that match a request the first one hits it.
func (d *Disk) Inject(f Fault) *Armed {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := &Armed{fault: f}
	d.faults = append(d.faults, a)
	return a
}

// SetSize makes it a disk of n bytes, also for Heal; 0 is an endless one, as it is at first.
func (d *Disk) SetSize(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.size, d.capacity = n, n
}

// Heal disarms all faults.
func (d *Disk) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults, d.capacity, d.readOnly = nil, d.size, false
}

// SetFree leaves room for n bytes more: what needs more fails with ENOSPC.
func (d *Disk) SetFree(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = max(d.used+n, 1)
}

// SetReadOnly refuses every change with EROFS.
func (d *Disk) SetReadOnly() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readOnly = true
}

// Recording returns the ops so far.
func (d *Disk) Recording() []Op {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.ops)
}

// Names returns the names of the files, in order.
func (d *Disk) Names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(d.files)), func(name string) bool { return name == NotesName })
}

// Contents returns the bytes of a file as they are on the disk, whatever a kernel has cached.
func (d *Disk) Contents(name string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.files[name]
	if !ok {
		return nil, &os.PathError{Op: "contents", Path: name, Err: os.ErrNotExist}
	}
	return f.content.Bytes(), nil
}

// Damage changes the bytes of a file behind the back of whoever has it open. It is seen by the next one to open it.
func (d *Disk) Damage(name string, change func(b []byte) []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.files[name]
	if !ok {
		return &os.PathError{Op: "damage", Path: name, Err: os.ErrNotExist}
	}
	b := change(f.content.Bytes())
	d.used -= f.held()
	f.content = newContent()
	f.content.write(b, 0)
	d.used += f.held()
	f.stale = true
	return nil
}

// Forget has the kernel forget the pages of a file that it has cached, also while the file is mapped into memory.
func (d *Disk) Forget(name string) error {
	d.mu.Lock()
	f, ok := d.files[name]
	d.mu.Unlock()
	if !ok {
		return &os.PathError{Op: "forget", Path: name, Err: os.ErrNotExist}
	}
	if errno := f.NotifyContent(0, 0); errno != 0 {
		return &os.PathError{Op: "forget", Path: name, Err: errno}
	}
	return nil
}

// hit returns the fault that hits a request, and waits for its delay.
func (d *Disk) hit(kind Kind, name string, off int64, n int) (Fault, bool) {
	if name == NotesName {
		return Fault{}, false
	}
	d.mu.Lock()
	i := slices.IndexFunc(d.faults, func(a *Armed) bool { return a.matches(kind, name, off, n) })
	var f Fault
	if i >= 0 {
		f = d.faults[i].fault
	}
	d.mu.Unlock()
	if f.Delay > 0 {
		time.Sleep(f.Delay)
	}
	return f, i >= 0
}

// record is called with mu held.
func (d *Disk) record(op Op) {
	if op.Name != NotesName || op.Kind == Note {
		d.ops = append(d.ops, op)
	}
}
