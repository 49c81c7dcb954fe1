//go:build !linux

package boltstore

// freeOnDisk is not known here: the ballast is tried.
func freeOnDisk(string) (n int64, ok bool) { return 0, false }
