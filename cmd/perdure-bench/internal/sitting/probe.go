package sitting

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	probeSyncs = 100
	probeBytes = 4096
)

// Probe is the cost of making 4 KiB durable with fdatasync: the median of 100.
type Probe struct {
	// AppendMS grows the file, as SQLite's log does while it is new; OverwriteMS does not, as bbolt's pages mostly.
	AppendMS    float64 `json:"append_ms"`
	OverwriteMS float64 `json:"overwrite_ms"`
}

// ProbeDisk measures the disk under the directory.
func ProbeDisk(dir string) (p Probe, err error) {
	path := filepath.Join(dir, "probe")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return p, fmt.Errorf("probe the disk: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(path)) }()
	if p.AppendMS, err = probeSync(f); err != nil {
		return p, err
	}
	p.OverwriteMS, err = probeSync(f)
	return p, err
}

// probeSync writes the file from its start, one block and one sync at a time.
func probeSync(f *os.File) (float64, error) {
	block := make([]byte, probeBytes)
	var took []time.Duration
	for i := range probeSyncs {
		block[0] = byte(i)
		start := time.Now()
		if _, err := f.WriteAt(block, int64(i)*probeBytes); err != nil {
			return 0, fmt.Errorf("probe the disk: %w", err)
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0, fmt.Errorf("probe the disk: fdatasync: %w", err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2].Seconds() * 1e3, nil
}
