//go:build !windows

package boltstore

import (
	"errors"
	"os"
	"path/filepath"
)

// syncDir makes the name of a new file durable.
func syncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
