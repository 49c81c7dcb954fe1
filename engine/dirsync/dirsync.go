// Package dirsync makes the names of files durable. A file that is synced is on disk, and its name need not be: after a power cut
// a file that was just made can be gone, with all that was synced in it.
package dirsync

import "fmt"

// Name makes the name of a file durable after it was created, linked, renamed or removed. It syncs the file's folder, which it
// names in its error. The file itself needs a sync of its own, before.
func Name(path string) error {
	if err := syncName(path); err != nil {
		return fmt.Errorf("sync the folder of %s: %w", path, err)
	}
	return nil
}
