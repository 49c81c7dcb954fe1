package faultfs

import (
	"bytes"
	"context"
	"os"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// file is a regular file, or a socket.
type file struct {
	fs.Inode
	disk *Disk
	id   uint64

	// guarded by disk.mu
	name    string // the newest
	links   uint32
	mode    uint32
	content *Content
	changed time.Time
	// stale says that the kernel's cached pages are not what the disk has.
	stale bool
}

var (
	_ fs.NodeOpener    = (*file)(nil)
	_ fs.NodeReader    = (*file)(nil)
	_ fs.NodeWriter    = (*file)(nil)
	_ fs.NodeGetattrer = (*file)(nil)
	_ fs.NodeSetattrer = (*file)(nil)
	_ fs.NodeFsyncer   = (*file)(nil)
	_ fs.NodeFlusher   = (*file)(nil)
)

// held is the room that the file takes. Called with disk.mu held.
func (f *file) held() int64 { return int64(len(f.content.Pages)) * PageSize }

func (f *file) named() string {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.name
}

// Open implements fs.NodeOpener.
func (f *file) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	name := f.named()
	if fault, hit := f.disk.hit(Open, name, 0, 0); hit && fault.Effect == Refuse {
		return nil, 0, fault.Err
	}
	if _, hit := f.disk.hit(Map, name, 0, 0); hit {
		return nil, fuse.FOPEN_DIRECT_IO, 0
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.readOnly && flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		return nil, 0, syscall.EROFS
	}
	if f.stale {
		f.stale = false
		return nil, 0, 0
	}
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

// Read implements fs.NodeReader.
func (f *file) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if fault, hit := f.disk.hit(Read, f.named(), off, len(dest)); hit && fault.Effect == Refuse {
		return nil, fault.Err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	n := f.content.read(dest, off)
	return fuse.ReadResultData(dest[:n]), 0
}

// Write implements fs.NodeWriter.
func (f *file) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	asked := uint32(len(data))
	if fault, hit := f.disk.hit(Write, f.named(), off, len(data)); hit {
		switch fault.Effect {
		case Refuse:
			return 0, fault.Err
		case Lose:
			f.disk.mu.Lock()
			defer f.disk.mu.Unlock()
			f.stale = true
			return asked, 0
		case Short:
			data = data[:(len(data)+1)/2]
			asked = uint32(len(data))
		case Misdirect:
			f.disk.mu.Lock()
			f.stale = true
			f.disk.mu.Unlock()
			off += PageSize
		case Slow:
		}
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.name == NotesName {
		f.disk.record(Op{Kind: Note, Data: bytes.Clone(data)})
		return asked, 0
	}
	if f.disk.readOnly {
		return 0, syscall.EROFS
	}
	if room := f.newPages(off, len(data)) * PageSize; f.disk.capacity > 0 && room > 0 && f.disk.used+room > f.disk.capacity {
		return 0, syscall.ENOSPC
	}
	before := f.held()
	f.content.write(data, off)
	f.disk.used += f.held() - before
	f.changed = time.Now()
	f.disk.record(Op{Kind: Write, File: f.id, Name: f.name, Off: off, Data: bytes.Clone(data)})
	return asked, 0
}

// newPages counts the pages that a write would add. Called with disk.mu held.
func (f *file) newPages(off int64, n int) (missing int64) {
	for p := off / PageSize; p*PageSize < off+int64(n); p++ {
		if _, ok := f.content.Pages[p]; !ok {
			missing++
		}
	}
	return missing
}

// Fsync implements fs.NodeFsyncer.
func (f *file) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	name := f.named()
	if fault, hit := f.disk.hit(Sync, name, 0, 0); hit && fault.Effect == Refuse {
		return fault.Err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.record(Op{Kind: Sync, File: f.id, Name: f.name})
	return 0
}

// Flush implements fs.NodeFlusher.
func (f *file) Flush(context.Context, fs.FileHandle) syscall.Errno { return 0 }

// Getattr implements fs.NodeGetattrer.
func (f *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.attr(&out.Attr)
	return 0
}

// attr is called with disk.mu held.
func (f *file) attr(a *fuse.Attr) {
	a.Ino, a.Mode, a.Nlink = f.id, f.mode, f.links
	a.Uid, a.Gid = uint32(os.Getuid()), uint32(os.Getgid())
	a.Size = uint64(f.content.Size)
	a.Blocks = uint64(len(f.content.Pages)) * (PageSize / 512)
	a.Blksize = PageSize
	a.SetTimes(&f.changed, &f.changed, &f.changed)
}

// Setattr implements fs.NodeSetattrer.
func (f *file) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	size, cut := in.GetSize()
	if cut {
		if fault, hit := f.disk.hit(Truncate, f.named(), 0, 0); hit && fault.Effect == Refuse {
			return fault.Err
		}
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.readOnly {
		return syscall.EROFS
	}
	if cut && f.name != NotesName {
		before := f.held()
		f.content.truncate(int64(size))
		f.disk.used += f.held() - before
		f.changed = time.Now()
		f.disk.record(Op{Kind: Truncate, File: f.id, Name: f.name, Size: int64(size)})
	}
	if mode, ok := in.GetMode(); ok {
		f.mode = f.mode&syscall.S_IFMT | mode&^syscall.S_IFMT
	}
	f.attr(&out.Attr)
	return 0
}
