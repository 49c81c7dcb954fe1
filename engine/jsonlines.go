package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/perdure/perdure/engine/dirsync"
	"github.com/perdure/perdure/history"
)

// JSONLines is an Exporter that appends to a file: one run a line, as history.Export. Its methods are safe for concurrent
// use; one process may write to a file at a time.
type JSONLines struct {
	mu   sync.Mutex // guards the file
	file *os.File
	// broken says that a line may have been written in part: nothing may follow it. guarded by mu
	broken error
}

// OpenJSONLines opens the file for appending and creates it, with mode 0600, where it is missing. What an interrupted
// export left after the last whole line is cut off: it has no receipt.
func OpenJSONLines(path string) (*JSONLines, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("export file %s: %w", path, err)
	}
	f, err := os.OpenFile(abs, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("export file: %w", err)
	}
	if err = cutTorn(f); err == nil {
		err = dirsync.Name(abs) // or runs could be deleted of which a power cut takes the export, with its file
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("export file %s: %w", path, err), f.Close())
	}
	return &JSONLines{file: f}, nil
}

// cutTorn cuts off what follows the last newline.
func cutTorn(f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for end := size; ; {
		from := max(0, end-int64(len(buf)))
		n, err := f.ReadAt(buf[:end-from], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 || from == 0 {
			if keep := from + int64(i+1); keep < size {
				return f.Truncate(keep)
			}
			return nil
		}
		end = from
	}
}

// Export implements Exporter.
func (j *JSONLines) Export(ctx context.Context, x history.Export) (history.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return history.Receipt{}, err
	}
	line, err := json.Marshal(x)
	if err != nil {
		return history.Receipt{}, fmt.Errorf("encode: %w", err)
	}
	line = append(line, '\n')
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return history.Receipt{}, j.broken
	}
	if _, err := j.file.Write(line); err != nil {
		j.broken = fmt.Errorf("an earlier export failed, open the file anew: %w", err)
		return history.Receipt{}, err
	}
	return history.Receipt{Destination: j.file.Name(), Digest: history.Sum(line), Bytes: int64(len(line))}, nil
}

// Sync implements Exporter.
func (j *JSONLines) Sync(context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return j.broken
	}
	if err := j.file.Sync(); err != nil {
		j.broken = fmt.Errorf("an earlier sync failed, open the file anew: %w", err)
		return err
	}
	return nil
}

// Close closes the file.
func (j *JSONLines) Close() error { return j.file.Close() }
