package workflow_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/workflow"
)

// A workflow is a function under a name and a version. An engine that has it executes its runs, on a store.
func ExampleDefine() {
	greet := workflow.Define("greet", 1, func(ctx workflow.Context, name string) (string, error) {
		return workflow.Step(ctx, "compose", func(context.Context) (string, error) { return "Hello, " + name, nil })
	})

	dir, err := os.MkdirTemp("", "perdure")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := boltstore.Open(filepath.Join(dir, "runs.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	e, err := engine.New(store, engine.Options{Workflows: []workflow.Definition{greet}})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(context.Background())

	run, err := engine.Start(context.Background(), e, greet, "Ada", engine.StartOptions{Key: "greeting-1"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(context.Background()))
	// Output: Hello, Ada <nil>
}
