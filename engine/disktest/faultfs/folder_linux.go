package faultfs

import (
	"context"
	"math"
	"os"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// folder is a directory. Only the top one's names are recorded.
type folder struct {
	fs.Inode
	disk *Disk
	top  bool
	mode uint32 // guarded by disk.mu
}

var (
	_ fs.NodeCreater   = (*folder)(nil)
	_ fs.NodeMknoder   = (*folder)(nil)
	_ fs.NodeMkdirer   = (*folder)(nil)
	_ fs.NodeLinker    = (*folder)(nil)
	_ fs.NodeRenamer   = (*folder)(nil)
	_ fs.NodeUnlinker  = (*folder)(nil)
	_ fs.NodeFsyncer   = (*folder)(nil)
	_ fs.NodeStatfser  = (*folder)(nil)
	_ fs.NodeGetattrer = (*folder)(nil)
	_ fs.NodeSetattrer = (*folder)(nil)
)

// newFile makes a file under a name.
func (d *folder) newFile(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	k := d.disk
	k.mu.Lock()
	k.lastID++
	f := &file{disk: k, id: k.lastID, name: name, links: 1, mode: mode, content: newContent(), changed: time.Now()}
	k.mu.Unlock()
	if errno := d.change(Op{Kind: Create, File: f.id, Name: name}, func() { d.put(name, f) }); errno != 0 {
		return nil, errno
	}
	k.mu.Lock()
	f.attr(&out.Attr)
	k.mu.Unlock()
	return d.NewInode(ctx, f, fs.StableAttr{Mode: mode & syscall.S_IFMT, Ino: f.id}), 0
}

// change does a change of names, unless it fails.
func (d *folder) change(op Op, do func()) syscall.Errno {
	if f, hit := d.disk.hit(op.Kind, op.Name, 0, 0); hit && f.Effect == Refuse {
		return f.Err
	}
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	if d.disk.readOnly {
		return syscall.EROFS
	}
	do()
	if d.top {
		d.disk.record(op)
	}
	return 0
}

// put is called with disk.mu held.
func (d *folder) put(name string, f *file) {
	if d.top {
		d.drop(name) // what a rename replaces
		d.disk.files[name] = f
	}
}

// drop is called with disk.mu held. A file without a name gives its room back, though it may still be open.
func (d *folder) drop(name string) {
	f, ok := d.disk.files[name]
	if !d.top || !ok {
		return
	}
	delete(d.disk.files, name)
	if f.links--; f.links == 0 {
		d.disk.used -= f.held()
	}
}

// Create implements fs.NodeCreater.
func (d *folder) Create(ctx context.Context, name string, _, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	n, errno := d.newFile(ctx, name, syscall.S_IFREG|mode&0o7777, out)
	return n, nil, 0, errno
}

// Mknod implements fs.NodeMknoder: sockets are made so.
func (d *folder) Mknod(ctx context.Context, name string, mode, _ uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return d.newFile(ctx, name, mode, out)
}

// Mkdir implements fs.NodeMkdirer.
func (d *folder) Mkdir(ctx context.Context, _ string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	sub := &folder{disk: d.disk, mode: mode}
	out.Mode = syscall.S_IFDIR | mode
	return d.NewInode(ctx, sub, fs.StableAttr{Mode: syscall.S_IFDIR}), 0
}

// Link implements fs.NodeLinker.
func (d *folder) Link(_ context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	f, ok := target.(*file)
	if !ok {
		return nil, syscall.EPERM
	}
	errno := d.change(Op{Kind: Link, File: f.id, Name: name}, func() {
		f.links++
		f.name = name
		d.put(name, f)
	})
	if errno != 0 {
		return nil, errno
	}
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	f.attr(&out.Attr)
	return f.EmbeddedInode(), 0
}

// Rename implements fs.NodeRenamer.
func (d *folder) Rename(_ context.Context, name string, newParent fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	to, ok := newParent.(*folder)
	child := d.GetChild(name)
	if !ok || child == nil || flags&fs.RENAME_EXCHANGE != 0 {
		return syscall.ENOTSUP
	}
	f, ok := child.Operations().(*file)
	if !ok {
		return 0 // a folder
	}
	return d.change(Op{Kind: Rename, File: f.id, Name: newName, From: name}, func() {
		f.links++
		d.drop(name)
		to.put(newName, f)
		f.name = newName
	})
}

// Unlink implements fs.NodeUnlinker.
func (d *folder) Unlink(_ context.Context, name string) syscall.Errno {
	child := d.GetChild(name)
	if child == nil {
		return syscall.ENOENT
	}
	f, ok := child.Operations().(*file)
	if !ok {
		return syscall.EISDIR
	}
	return d.change(Op{Kind: Remove, File: f.id, Name: name}, func() { d.drop(name) })
}

// Fsync implements fs.NodeFsyncer.
func (d *folder) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	if fault, hit := d.disk.hit(SyncDir, "", 0, 0); hit && fault.Effect == Refuse {
		return fault.Err
	}
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	if d.top {
		d.disk.record(Op{Kind: SyncDir})
	}
	return 0
}

// Statfs implements fs.NodeStatfser.
func (d *folder) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	out.Bsize, out.Frsize, out.NameLen = PageSize, PageSize, 255
	out.Blocks, out.Bfree = math.MaxInt32, math.MaxInt32
	if d.disk.capacity > 0 {
		out.Blocks = uint64(d.disk.capacity / PageSize)
		out.Bfree = uint64(max(d.disk.capacity-d.disk.used, 0) / PageSize)
	}
	out.Bavail = out.Bfree
	return 0
}

// Getattr implements fs.NodeGetattrer.
func (d *folder) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	out.Mode = syscall.S_IFDIR | 0o700
	if d.mode != 0 {
		out.Mode = syscall.S_IFDIR | d.mode&0o7777
	}
	out.Uid, out.Gid = uint32(os.Getuid()), uint32(os.Getgid())
	return 0
}

// Setattr implements fs.NodeSetattrer.
func (d *folder) Setattr(ctx context.Context, h fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if mode, ok := in.GetMode(); ok {
		d.disk.mu.Lock()
		d.mode = mode
		d.disk.mu.Unlock()
	}
	return d.Getattr(ctx, h, out)
}
