package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/workflow"
)

// One branch for each item: their steps run in parallel, the results come in the order of the items.
func ExampleEach() {
	w := workflow.Define("ship", 1, func(ctx workflow.Context, items []string) ([]string, error) {
		return workflow.Each(ctx, "ship", items, func(item string) string { return item },
			func(ctx workflow.Context, item string) (string, error) {
				return workflow.Step(ctx, "book", func(context.Context) (string, error) { return item + " shipped", nil })
			}, workflow.Parallel(2))
	})
	play(w, []string{"book", "lamp", "pen"})
	// Output: [book shipped lamp shipped pen shipped]
}

// Without CollectAll the first failure cancels the other branches; with it all of them run to their end.
func ExampleCollectAll() {
	w := workflow.Define("check", 1, func(ctx workflow.Context, hosts []string) (string, error) {
		_, err := workflow.Each(ctx, "check", hosts, func(h string) string { return h },
			func(ctx workflow.Context, host string) (string, error) {
				return "", workflow.Do(ctx, "ping", func(context.Context) error {
					if host == "b" {
						return nil
					}
					return errors.New("no answer")
				})
			}, workflow.CollectAll())
		var failed *workflow.BranchesError
		if errors.As(err, &failed) {
			return fmt.Sprintf("%d of %d hosts are down", len(failed.Errors), len(hosts)), nil
		}
		return "all up", err
	})
	play(w, []string{"a", "b", "c"})
	// Output: 2 of 3 hosts are down
}

// Different work in parallel.
func ExampleAll() {
	w := workflow.Define("trip", 1, func(ctx workflow.Context, _ int) ([]string, error) {
		book := func(what string) workflow.Branch[string] {
			return workflow.Branch[string]{ID: what, Run: func(ctx workflow.Context) (string, error) {
				return workflow.Step(ctx, "book", func(context.Context) (string, error) { return what + " booked", nil })
			}}
		}
		return workflow.All(ctx, "book", []workflow.Branch[string]{book("flight"), book("hotel")})
	})
	play(w, 0)
	// Output: [flight booked hotel booked]
}

// The first branch that returns wins; the others are canceled.
func ExampleRace() {
	w := workflow.Define("wait", 1, func(ctx workflow.Context, _ int) (string, error) {
		winner, v, err := workflow.Race(ctx, "first", []workflow.Branch[string]{
			{ID: "answer", Run: func(ctx workflow.Context) (string, error) { return workflow.Receive[string](ctx, "answer") }},
			{ID: "timeout", Run: func(ctx workflow.Context) (string, error) { return "no answer", workflow.Sleep(ctx, time.Hour) }},
		})
		return winner + ": " + v, err
	})
	play(w, 0, send("answer", `"yes"`))
	// Output: answer: yes
}

// A scope's events are closed when it has returned: its code is not run again, and may be changed from then on.
func ExampleScope() {
	w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (int, error) {
		return workflow.Scope(ctx, "gather", func(ctx workflow.Context) (int, error) {
			sum := 0
			for range 3 {
				n, err := workflow.Step(ctx, "part", func(context.Context) (int, error) { return 2, nil })
				if err != nil {
					return 0, err
				}
				sum += n
			}
			return sum, nil
		})
	})
	play(w, 0)
	// Output: 6
}
