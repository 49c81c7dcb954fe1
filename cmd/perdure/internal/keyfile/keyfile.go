// Package keyfile knows the file of the keys that payloads are encrypted with. A line is
//
//	ID KEY
//
// with the key's 32 bytes in base64; the last line's key encrypts, all decrypt. Empty lines and lines that begin with # do not
// count. The file must not be writable by its group or readable by others. It is read when a server starts: what keys it has
// is known before any run is touched. No error and no log line says what a key is.
package keyfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/regular"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/codec"
)

// maxFile bounds a file, in bytes: some ten thousand keys.
const maxFile = 1 << 20

// Read returns the keys of a file, the newest last.
func Read(path string) ([]codec.Key, error) {
	keys, err := read(path)
	if err != nil {
		code, hint := exit.Of(err)
		return nil, exit.New(code, cmp.Or(hint, "make a key, and the file: perdure key new --file "+path), "keys: %w", err)
	}
	return keys, nil
}

func read(path string) ([]codec.Key, error) {
	data, info, err := regular.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	// Windows has no such bits: there the folder's access list decides.
	if open := info.Mode().Perm() & 0o027; open != 0 && runtime.GOOS != "windows" {
		return nil, exit.New(exit.Failed, "chmod 600 "+path, "%s has mode %04o: its group may write to it, or others read it; want chmod 640 or 600", path, info.Mode().Perm())
	}
	keys, err := codec.ParseKeys(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

// Codecs returns what stands between a server's runs and its store: compression where it is asked for, and encryption where
// there is a file of keys ("": there is none). What was compressed before is read in any case.
func Codecs(path string, compress bool) ([]workflow.Codec, error) {
	codecs := []workflow.Codec{codec.Gzip{DecodeOnly: !compress}}
	if path == "" {
		return codecs, nil
	}
	keys, err := Read(path)
	if err != nil {
		return nil, err
	}
	aes, err := codec.NewAESGCM(keys...)
	if err != nil {
		return nil, exit.New(exit.Failed, "", "keys: %s: %w", path, err)
	}
	return append(codecs, aes), nil
}

// Add makes a key and adds it to a file, which is made where it is missing, open to its owner only.
func Add(path, id string) error {
	k, err := codec.NewKey(id)
	if err != nil {
		return exit.New(exit.Usage, "", "%w", err)
	}
	switch keys, err := read(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return exit.New(exit.Failed, "", "keys: %w", err)
	case slices.ContainsFunc(keys, func(old codec.Key) bool { return old.ID == id }):
		return exit.New(exit.Conflict, "name another with --id", "keys: %s has a key %q already, and an id names one key for ever", path, id)
	}
	// On disk before it is used: what is encrypted with a key must not outlive it.
	if err := regular.AppendLine(path, k.Line()); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	return nil
}
