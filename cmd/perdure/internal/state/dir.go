// Package state knows the folder in which one server keeps all it has:
//
//	perdure.db     the store; who holds its lock owns the folder
//	perdure.sock   the local socket of the owner: administration and MCP, for the user who owns the folder
//	server.log     what a detached server writes
//
// The folder has mode 0700, its files 0600.
package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
)

// Dir is a state folder; its path is absolute.
type Dir struct{ Path string }

// At returns the state folder at path.
func At(path string) (Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Dir{}, fmt.Errorf("state folder %s: %w", path, err)
	}
	return Dir{Path: abs}, nil
}

var unusual = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// For returns the state folder of a configuration file: one per user and file, under $XDG_STATE_HOME. The name is
// readable, and unique by the file's path.
func For(config string) (Dir, error) {
	abs, err := filepath.Abs(config)
	if err != nil {
		return Dir{}, fmt.Errorf("state folder of %s: %w", config, err)
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real // the same file by another name is the same configuration
	}
	home, err := stateHome()
	if err != nil {
		return Dir{}, err
	}
	sum := sha256.Sum256([]byte(abs))
	name := strings.TrimSuffix(filepath.Base(abs), filepath.Ext(abs))
	if name == "perdure" {
		name = filepath.Base(filepath.Dir(abs))
	}
	name = strings.Trim(unusual.ReplaceAllString(name, "-"), "-")
	if len(name) > 32 {
		name = name[:32]
	}
	if name != "" {
		name += "-"
	}
	return Dir{Path: filepath.Join(home, "perdure", name+hex.EncodeToString(sum[:4]))}, nil
}

func stateHome() (string, error) {
	if home := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(home) {
		return home, nil
	}
	if runtime.GOOS == "windows" {
		if local := os.Getenv("LocalAppData"); local != "" {
			return local, nil
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", exit.New(exit.Failed, "set HOME, or name a folder with --state", "no home folder for the state: %w", err)
	}
	return filepath.Join(home, ".local", "state"), nil
}

// Database is the store's file.
func (d Dir) Database() string { return filepath.Join(d.Path, "perdure.db") }

// Log is the file that a detached server writes to.
func (d Dir) Log() string { return filepath.Join(d.Path, "server.log") }

// Crashes is the file that remembers which runs a server was executing when it ended without warning.
func (d Dir) Crashes() string { return filepath.Join(d.Path, "perdure.crashes") }

// Make creates the folder where it is missing, and refuses one that others could write to.
func (d Dir) Make() error {
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		return fmt.Errorf("make state folder: %w", err)
	}
	info, err := os.Stat(d.Path)
	if err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	if !info.IsDir() {
		return exit.New(exit.Failed, "name another with --state", "state folder %s is not a folder", d.Path)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		return exit.New(exit.Failed, "chmod 0700 "+d.Path, "state folder %s can be written by others (mode %04o)", d.Path, info.Mode().Perm())
	}
	return nil
}

// maxSocketPath is what fits into a socket address everywhere: 104 bytes on macOS, less its terminating zero.
const maxSocketPath = 103

// Socket is the path of the local socket. Where the folder's own path is too long for a socket address it is a path
// in a folder of the user's under the folder for temporary files, named by the state folder's digest.
func (d Dir) Socket() string {
	inside := filepath.Join(d.Path, "perdure.sock")
	if len(inside) <= maxSocketPath {
		return inside
	}
	sum := sha256.Sum256([]byte(d.Path))
	return filepath.Join(shortHome(), hex.EncodeToString(sum[:8])+".sock")
}

func shortHome() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) && len(dir) < maxSocketPath-40 {
		return filepath.Join(dir, "perdure")
	}
	base := os.TempDir()
	if len(base) > maxSocketPath-40 {
		base = "/tmp"
	}
	return filepath.Join(base, fmt.Sprintf("perdure-%d", os.Getuid()))
}

// MakeSocketDir makes the folder of the socket where it is not the state folder. Under a shared folder for temporary
// files somebody else may have made it first: it must be the user's own, and closed to others.
func (d Dir) MakeSocketDir() error {
	dir := filepath.Dir(d.Socket())
	if dir == d.Path {
		return nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the socket's folder: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("the socket's folder: %w", err)
	}
	if !info.IsDir() || runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 || !ownedByUser(info) {
		return exit.New(exit.Failed, "remove it, or choose a state folder with a shorter path", "the socket's folder %s is not a private folder of this user", dir)
	}
	return nil
}
