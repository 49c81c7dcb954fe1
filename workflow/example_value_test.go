package workflow_test

import (
	"context"
	"fmt"
	"log"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// The clock, identifiers and random numbers are recorded: a replay sees the same ones.
func ExampleNow() {
	w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
		began := workflow.Now(ctx)
		id := workflow.NewID(ctx)
		dice := workflow.Rand(ctx).IntN(6) + 1
		return fmt.Sprintln(!began.IsZero(), len(id), dice >= 1 && dice <= 6), nil
	})
	play(w, 0)
	// Output: true 26 true
}

// A value of one's own.
func ExampleRecord() {
	w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
		return workflow.Record(ctx, "flag", func() (string, error) { return "blue", nil })
	})
	play(w, 0)
	// Output: blue
}

// The status text is shown with the run, and to an MCP client with its task.
func ExampleSetStatus() {
	w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
		workflow.SetStatus(ctx, "waiting for the parcel")
		return workflow.Receive[string](ctx, "parcel")
	})
	show := func(e *engine.Engine, id history.RunID) {
		run, err := e.Run(context.Background(), id)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("status:", run.Message)
	}
	play(w, 0, waiting, show, send("parcel", `"here"`))
	// Output:
	// status: waiting for the parcel
	// here
}

// Lines of this logger are not repeated by a replay. Info names the run.
func ExampleInfo() {
	w := workflow.Define("w", 2, func(ctx workflow.Context, _ int) (string, error) {
		workflow.Log(ctx).Info("begun")
		i := workflow.Info(ctx)
		return fmt.Sprintf("%s v%d", i.Workflow, i.Version), nil
	})
	play(w, 0)
	// Output: w v2
}
