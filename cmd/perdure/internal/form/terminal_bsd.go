//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package form

import (
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether a person sits at the file.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TIOCGETA)
	return err == nil
}
