package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/workflow"
)

// Greet is a workflow. What it does in steps is done once, whatever crashes in between.
func Greet(ctx workflow.Context, name string) (string, error) {
	text, err := workflow.Step(ctx, "greet", func(context.Context) (string, error) {
		return "hello " + name, nil // anything that touches the world
	}, workflow.Retry{Max: 5})
	if err != nil {
		return "", err
	}
	return text, workflow.Sleep(ctx, 50*time.Millisecond) // or a month
}

func main() {
	ctx, greet := context.Background(), workflow.Define("greet", 1, Greet)
	store, err := boltstore.Open("greet.db", nil)
	check(err)
	e, err := engine.New(store, engine.Options{Workflows: []workflow.Definition{greet}})
	check(err)
	h, err := engine.Start(ctx, e, greet, "world", engine.StartOptions{Key: "greeting-1"})
	check(err)
	text, err := h.Result(ctx) // start the program again: the run is there, and over
	check(err)
	fmt.Println(text)
	check(errors.Join(e.Close(ctx), store.Close()))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
