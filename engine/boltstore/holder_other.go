//go:build !linux

package boltstore

// holderOf names the process that holds the lock on a file, for an error's text. Only Linux tells.
func holderOf(string) string { return "" }
