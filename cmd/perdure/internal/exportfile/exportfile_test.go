package exportfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure/history"
)

func TestOneWriterAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jsonl")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, history.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = Open(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// A failure ends the export that it met, and the next one begins on a whole line.
func TestGoesOnAfterAFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.jsonl")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, x := t.Context(), history.Export{Run: history.Run{Spec: history.Spec{Workflow: "w"}}}
	if _, err := f.Export(ctx, x); err != nil {
		t.Fatal(err)
	}
	torn, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torn.WriteString(`{"half`); err != nil {
		t.Fatal(err)
	}
	if err := torn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.out.Close(); err != nil { // so that the next write fails
		t.Fatal(err)
	}
	if _, err := f.Export(ctx, x); !errors.Is(err, os.ErrClosed) {
		t.Fatalf("the write that fails: %v", err)
	}
	if err := f.Sync(ctx); err != nil {
		t.Errorf("a sync of nothing: %v", err)
	}
	r, err := f.Export(ctx, x)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	lines := bytes.SplitAfter(text, []byte("\n"))
	if err != nil || len(lines) != 3 || len(lines[2]) != 0 || history.Sum(lines[1]) != r.Digest {
		t.Errorf("the file has %q, %v", text, err)
	}
}
