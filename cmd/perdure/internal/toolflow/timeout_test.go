//go:build unix

package toolflow

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/workflow"
)

// A program that does not end in time is killed, and its step fails. This runs in real time: while a program is at
// work, fake time stands still.
func TestTimeoutEndsTheProgram(t *testing.T) {
	store, err := boltstore.Open(filepath.Join(t.TempDir(), "perdure.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	f := load(t, t.TempDir(), steps(`
  steps:
  - {name: slow, run: [sleep, "600"], timeout: 100ms, retry: {max: 2, first: 10ms}, on_error: continue}
  - {name: each, foreach: [600, 600], parallel: 2, run: [sleep, "${item}"], timeout: 100ms}
  result: ${steps.slow.error}
`), Deps{})
	e, err := engine.New(store, engine.Options{Workflows: []workflow.Definition{f}, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	h, err := engine.Start(t.Context(), e, f.Workflow, json.RawMessage(`{}`), engine.StartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Result(t.Context())
	if err == nil || !strings.Contains(err.Error(), `step "each"`) {
		t.Errorf("got %v", err)
	}
	if err := e.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
