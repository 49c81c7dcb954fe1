package boltstore_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// The files in testdata were written by the last program of each format, with TestWriteGoldenFile: nothing in them was made to look
// old.

// choice is the answer to the question of goldenFlow.
type choice struct {
	Color string `json:"color"`
}

// goldenFlow takes a step, with a result of some size where it is to be large, and waits as it is told.
var goldenFlow = workflow.Define("golden", 1, func(ctx workflow.Context, wait string) (text string, err error) {
	text, err = workflow.Step(ctx, "begin", func(context.Context) (string, error) {
		if wait == "large" {
			return strings.Repeat("large ", 2000), nil
		}
		return "begun", nil
	})
	if err != nil {
		return "", err
	}
	more := ""
	switch wait {
	case "sleep":
		err = workflow.Sleep(ctx, time.Hour)
	case "signal":
		more, err = workflow.Receive[string](ctx, "go")
	case "question":
		var c choice
		c, err = workflow.Ask[choice](ctx, "which", workflow.Question{Message: "Which?"})
		more = c.Color
	}
	return text + more, err
})

// goldenWaits are the inputs of the runs in a golden file, which are their keys as well.
var goldenWaits = []string{"nothing", "large", "sleep", "signal", "question"}

const golden = "testdata/format%.db.gz"

// goldenEngine opens a store and an engine on it, and closes both when do has returned.
func goldenEngine(t *testing.T, path string, do func(e *engine.Engine)) {
	t.Helper()
	s, err := boltstore.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(s, engine.Options{Workflows: []workflow.Definition{goldenFlow}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	do(e)
	err = e.Verify(t.Context(), func(v engine.Violation) { t.Errorf("violation: %+v", v) })
	if err := errors.Join(err, e.Close(t.Context()), s.Close()); err != nil {
		t.Error(err)
	}
}

func startGolden(t *testing.T, e *engine.Engine, wait string) *engine.Handle[string] {
	t.Helper()
	h, err := engine.Start(t.Context(), e, goldenFlow, wait, engine.StartOptions{Key: wait, Tenant: "t", Tags: map[string]string{"wait": wait}, Retention: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// note is a signal that nobody receives.
func note(payload string) engine.SignalRequest {
	return engine.SignalRequest{Name: "note", ID: "1", Payload: json.RawMessage(payload)}
}

// TestWriteGoldenFile writes the golden file of the format that this program has. It is run before the format changes:
//
//	PERDURE_GOLDEN=5 go test -run TestWriteGoldenFile ./engine/boltstore
func TestWriteGoldenFile(t *testing.T) {
	format := os.Getenv("PERDURE_GOLDEN")
	if format == "" {
		t.Skip("PERDURE_GOLDEN names no format")
	}
	path := filepath.Join(t.TempDir(), "perdure.db")
	synctest.Test(t, func(t *testing.T) {
		goldenEngine(t, path, func(e *engine.Engine) {
			for _, wait := range goldenWaits {
				h := startGolden(t, e, wait)
				if wait != "question" {
					continue
				}
				if _, err := e.Signal(t.Context(), h.ID(), note(`"first"`)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute) // fake
		})
	})
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(strings.Replace(golden, "%", format, 1), out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestGoldenFiles: what a program of each format wrote is read as it is, upgraded, and gone on with: runs find their keys and
// results, their timers, signals and questions, and replay what was recorded then.
func TestGoldenFiles(t *testing.T) {
	files, err := filepath.Glob(strings.Replace(golden, "%", "*", 1))
	if err != nil || len(files) < 4 {
		t.Fatalf("golden files: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			path := unpack(t, file)
			synctest.Test(t, func(t *testing.T) {
				ro := open(t, path, &boltstore.Options{ReadOnly: true})
				verify(t, ro)
				if err := ro.Close(); err != nil {
					t.Error(err)
				}
				goldenEngine(t, path, func(e *engine.Engine) { goOnGolden(t, e) })
				goldenEngine(t, path, func(e *engine.Engine) { // and once more, upgraded
					for _, wait := range goldenWaits {
						result(t, startGolden(t, e, wait), wait)
					}
				})
			})
		})
	}
}

// unpack writes a golden file to a folder of the test.
func unpack(t *testing.T, file string) (path string) {
	t.Helper()
	packed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "perdure.db")
	write(t, path, b)
	return path
}

// goOnGolden brings the runs of a golden file to their ends.
func goOnGolden(t *testing.T, e *engine.Engine) {
	t.Helper()
	asks := startGolden(t, e, "question")
	if d, err := e.Signal(t.Context(), asks.ID(), note(`"first"`)); err != nil || d != engine.Duplicate {
		t.Errorf("a signal that was there: %s, %v", d, err)
	}
	if _, err := e.Signal(t.Context(), asks.ID(), note(`"other"`)); !errors.Is(err, history.ErrConflict) {
		t.Errorf("another signal with its id: %v", err)
	}
	open, err := e.Interrupts(t.Context(), asks.ID())
	if err != nil || len(open) != 1 {
		t.Fatalf("open questions: %v, %v", open, err)
	}
	red := workflow.Answer{Action: workflow.Accept, Content: []byte(`{"color":" red"}`)}
	if err := e.Answer(t.Context(), asks.ID(), open[0].Key, red, "me"); err != nil {
		t.Error(err)
	}
	if _, err := e.Signal(t.Context(), startGolden(t, e, "signal").ID(), engine.SignalRequest{Name: "go", Payload: []byte(`" and gone"`)}); err != nil {
		t.Error(err)
	}
	result(t, asks, "question")
	began := time.Now()
	for _, wait := range goldenWaits {
		result(t, startGolden(t, e, wait), wait)
	}
	if slept := time.Since(began); slept < 55*time.Minute || slept > time.Hour {
		t.Errorf("the sleep of an hour, of which a minute had passed, took %s more", slept)
	}
	tenant := "t"
	page, err := e.List(t.Context(), engine.Filter{Tenant: &tenant, Workflow: "golden"})
	if n := len(page.Runs); err != nil || n != len(goldenWaits) {
		t.Errorf("%d runs, %v; want %d", n, err, len(goldenWaits))
	}
}

// result compares how a run ended.
func result(t *testing.T, h *engine.Handle[string], wait string) {
	t.Helper()
	want := map[string]string{
		"nothing": "begun", "large": strings.Repeat("large ", 2000), "sleep": "begun", "signal": "begun and gone", "question": "begun red",
	}[wait]
	if got, err := h.Result(t.Context()); err != nil || got != want {
		t.Errorf("%s: result %.40q, %v; want %.40q", wait, got, err, want)
	}
}
