package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Counts is what is counted of a part of the folder, and of the whole.
type Counts struct {
	Part  string `json:"part,omitempty"`
	Files int    `json:"files"`
	Lines int    `json:"lines"`
	Bytes int64  `json:"bytes"`
}

const (
	maxParts = 25       // of the folder
	maxFiles = 10_000   // of a part
	maxFile  = 4 << 20  // bytes of a file whose lines are counted
	maxBytes = 64 << 20 // bytes of a part whose lines are counted
)

// Step executes one step's program: list FOLDER, scan FOLDER PART, total, write.
func Step(place string, args []string, in io.Reader, out io.Writer) error {
	if err := testify(place, strings.TrimSpace(args[0]+" "+strings.Join(args[min(2, len(args)):], " "))); err != nil {
		return err
	}
	var v any
	var err error
	switch {
	case args[0] == "list" && len(args) == 2:
		v, err = listParts(args[1])
	case args[0] == "scan" && len(args) == 3:
		v, err = scanPart(args[1], args[2])
	case args[0] == "total" && len(args) == 1:
		v, err = addUp(in)
	case args[0] == "write" && len(args) == 1:
		v, err = writeReport(place, in)
	default:
		err = fmt.Errorf("no such step: %q", args)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(v)
}

// listParts lists the folder's own folders, and "." for its own files.
func listParts(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	parts := []string{"."}
	for _, e := range entries {
		if e.IsDir() && !hidden(e.Name()) && len(parts) < maxParts {
			parts = append(parts, "./"+e.Name())
		}
	}
	return parts, nil
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") || name == "node_modules" }

func scanPart(folder, part string) (Counts, error) {
	c := Counts{Part: part}
	root := filepath.Join(folder, part)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // what cannot be read, or is gone by now, counts for nothing
		case e.IsDir() && path != root && (part == "." || hidden(e.Name())):
			return fs.SkipDir
		case c.Files >= maxFiles:
			return fs.SkipAll
		case e.Type().IsRegular():
			return c.add(path, e)
		}
		return nil
	})
	return c, err
}

// add counts a file in. One that is gone by now, or that cannot be read, has no lines.
func (c *Counts) add(path string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return nil
	}
	c.Files++
	c.Bytes += info.Size()
	if info.Size() > maxFile || c.Bytes > maxBytes {
		return nil
	}
	if b, err := os.ReadFile(path); err == nil {
		c.Lines += bytes.Count(b, []byte("\n"))
	}
	return nil
}

func addUp(in io.Reader) (Counts, error) {
	var parts []Counts
	var sum Counts
	if err := json.NewDecoder(in).Decode(&parts); err != nil {
		return sum, fmt.Errorf("stdin: %w", err)
	}
	for _, p := range parts {
		sum.Files += p.Files
		sum.Lines += p.Lines
		sum.Bytes += p.Bytes
	}
	return sum, nil
}

// written is the result of the last step.
type written struct {
	Report string `json:"report"`
	// Found says that an earlier attempt had written the report.
	Found bool `json:"found"`
}

func reports(place string) string { return filepath.Join(place, "reports") }

// writeReport writes the report under a name made of the idempotency key, unless it is there: the file appears whole, by
// a link, or not at all. The first attempt then waits to be killed, after its effect and before its result is recorded:
// the worst moment there is.
func writeReport(place string, in io.Reader) (written, error) {
	var sum Counts
	if err := json.NewDecoder(in).Decode(&sum); err != nil {
		return written{}, fmt.Errorf("stdin: %w", err)
	}
	path := filepath.Join(reports(place), os.Getenv("PERDURE_IDEMPOTENCY_KEY")+".txt")
	tmp, err := os.CreateTemp(place, "report-*.tmp")
	if err != nil {
		return written{}, err
	}
	defer os.Remove(tmp.Name())
	_, err = fmt.Fprintf(tmp, "%d files, %d lines, %d bytes\nwritten by process %d\n", sum.Files, sum.Lines, sum.Bytes, os.Getpid())
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return written{}, err
	}
	switch err := os.Link(tmp.Name(), path); {
	case errors.Is(err, fs.ErrExist):
		return written{Report: path, Found: true}, nil
	case err != nil:
		return written{}, err
	}
	return written{Report: path}, awaitKill(place)
}

func insideFile(place string) string { return filepath.Join(place, "inside") }

// awaitKill says that the effect is done, and waits until the server is gone. The kernel ends this process with it on
// Linux; elsewhere it looks.
func awaitKill(place string) error {
	if err := os.WriteFile(insideFile(place), nil, 0o600); err != nil {
		return err
	}
	server := os.Getppid()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	giveUp := time.After(time.Minute)
	for os.Getppid() == server {
		select {
		case <-tick.C:
		case <-giveUp:
			return errors.New("nobody killed the server")
		}
	}
	return errors.New("the server is gone")
}
