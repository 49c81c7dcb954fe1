//go:build !windows

package dirsync

import (
	"errors"
	"os"
	"path/filepath"
)

func syncName(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
