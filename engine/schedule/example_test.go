package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/schedule"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// A schedule is a run itself: it is made once, and survives restarts.
func ExampleClient_Create() {
	report := workflow.Define("report", 1, func(workflow.Context, string) (string, error) { return "written", nil })
	dir, err := os.MkdirTemp("", "perdure-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := boltstore.Open(filepath.Join(dir, "example.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	e, err := engine.New(store, engine.Options{
		Workflows: []workflow.Definition{report, schedule.Workflow()}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(context.Background())

	ctx := context.Background()
	schedules := schedule.NewClient(e, "")
	weekly := schedule.Spec{Cron: "30 8 * * MON", Zone: "Europe/Vienna", Workflow: "report", Input: []byte(`"sales"`)}
	for range 2 {
		if _, err := schedules.Create(ctx, "weekly-report", weekly, "ada"); err != nil {
			log.Fatal(err)
		}
	}
	weekly.Cron = "61 8 * * MON"
	_, err = schedules.Create(ctx, "another", weekly, "ada")
	fmt.Println(errors.Is(err, history.ErrInvalid))
	// Output: true
}
