//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package boltstore

import "os"

// letGo closes a file that bbolt cannot close, because it panicked. Its lock goes with it.
func letGo(f *os.File) error { return f.Close() }
