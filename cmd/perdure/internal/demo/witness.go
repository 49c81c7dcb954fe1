package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// execution is one line of the witness file: a step's program was at work.
type execution struct {
	Step string `json:"step"`
	// Key is the step's idempotency key, Server the process that ran it.
	Key    string    `json:"key"`
	Server int       `json:"server"`
	At     time.Time `json:"at"`
}

func witnessFile(place string) string { return filepath.Join(place, "witness.jsonl") }

// testify appends a line before the step does anything. Lines are short, and appended by one write each.
func testify(place, step string) error {
	line, err := json.Marshal(execution{Step: step, Key: os.Getenv("PERDURE_IDEMPOTENCY_KEY"), Server: os.Getppid(), At: time.Now().UTC()})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(witnessFile(place), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// testimony reads the witness file.
func testimony(place string) ([]execution, error) {
	b, err := os.ReadFile(witnessFile(place))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("witness: %w", err)
	}
	var all []execution
	for line := range bytes.Lines(b) {
		var e execution
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("witness: %w", err)
		}
		all = append(all, e)
	}
	return all, nil
}
