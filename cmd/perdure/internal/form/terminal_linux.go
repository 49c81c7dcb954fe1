package form

import (
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether a person sits at the file.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
