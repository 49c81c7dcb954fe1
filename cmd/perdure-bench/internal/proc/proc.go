// Package proc reads what this process uses, from Linux's /proc and the kernel's accounting.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Memory is resident memory in bytes. File is pages of files, a database's memory map above all: the kernel takes them
// back when it needs them. Anon is everything else.
type Memory struct{ Anon, File int64 }

// ResidentMemory is the memory of this process after a collection, with what Go holds in reserve given back.
func ResidentMemory() (Memory, error) {
	debug.FreeOSMemory()
	return Resident()
}

// Usage is what the process has used since it began.
type Usage struct {
	CPU time.Duration
	// Written is the bytes that it caused to be written to storage.
	Written int64
}

// Used reads the usage.
func Used() (Usage, error) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return Usage{}, fmt.Errorf("getrusage: %w", err)
	}
	written, err := field("/proc/self/io", "write_bytes")
	return Usage{CPU: time.Duration(r.Utime.Nano() + r.Stime.Nano()), Written: written}, err
}

// field reads the number after "name:" in a file of lines; the unit is the file's.
func field(path, name string) (int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	for line := range bytes.Lines(b) {
		rest, ok := bytes.CutPrefix(line, []byte(name+":"))
		if f := bytes.Fields(rest); ok && len(f) > 0 {
			return strconv.ParseInt(string(f[0]), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no line %q", path, name)
}

// Resident is the memory of this process as it stands, garbage included.
func Resident() (Memory, error) {
	anon, err := field("/proc/self/status", "RssAnon")
	if err != nil {
		return Memory{}, err
	}
	file, err := field("/proc/self/status", "RssFile")
	return Memory{Anon: anon << 10, File: file << 10}, err
}
