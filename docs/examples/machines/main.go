// Machines shows an installation on several machines, on loopback: two workers and two MCP servers, each a process of its own,
// over one PostgreSQL database.
//
//	PERDURE_STORE=postgres://USER@127.0.0.1/DATABASE go run ./docs/examples/machines
//
// It starts the four, calls a tool at the first server, kills the worker that has the run with SIGKILL, and the first server
// with it, and fetches the result from the second. Started by hand, the processes could as well be on machines of their own:
//
//	machines worker NAME
//	machines serve ADDRESS
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/mcptasks"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

// order is the input of the tool.
type order struct {
	Order string `json:"order"`
}

// parts is the work: each part takes a moment, and tells who has done it.
var parts = []string{"pick", "pack", "ship"}

// fulfil is the workflow, as the worker with a name runs it.
func fulfil(name string) *workflow.Workflow[order, string] {
	return workflow.Define("fulfil", 1, func(ctx workflow.Context, in order) (string, error) {
		var done []string
		for _, part := range parts {
			by, err := workflow.Step(ctx, part, func(ctx context.Context) (string, error) {
				fmt.Printf("worker %s: %s %s\n", name, part, in.Order)
				select {
				case <-time.After(300 * time.Millisecond): // anything that touches the world
					return name, nil
				case <-ctx.Done():
					return "", ctx.Err()
				}
			})
			if err != nil {
				return "", err
			}
			done = append(done, part+" by "+by)
		}
		return strings.Join(done, ", "), nil
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Getenv("PERDURE_STORE"), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "machines:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dsn string, args []string) error {
	if dsn == "" {
		return errors.New("PERDURE_STORE is not set: name an empty PostgreSQL database, postgres://USER@127.0.0.1/DATABASE; one for a try is\n" +
			"  docker run --rm -p 127.0.0.1:5432:5432 -e POSTGRES_HOST_AUTH_METHOD=trust postgres   # postgres://postgres@127.0.0.1/postgres")
	}
	switch {
	case len(args) == 0:
		return demonstrate(ctx, dsn)
	case len(args) == 2 && args[0] == "worker":
		return work(ctx, dsn, args[1])
	case len(args) == 2 && args[0] == "serve":
		return serve(ctx, dsn, args[1])
	}
	return fmt.Errorf("%q: want nothing, worker NAME or serve ADDRESS", args)
}

// work runs a worker until ctx ends. Where it dies instead, its runs go to others when its leases run out.
func work(ctx context.Context, dsn, name string) error {
	store, err := pgstore.Open(ctx, dsn, nil)
	if err != nil {
		return err
	}
	e, err := engine.New(store, engine.Options{
		Workflows: []workflow.Definition{fulfil(name)},
		Worker:    worker.Options{Name: name, PollInterval: 200 * time.Millisecond, LeaseTTL: 2 * time.Second},
	})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	<-ctx.Done()
	return errors.Join(e.Close(context.WithoutCancel(ctx)), store.Close())
}

// serve serves MCP until ctx ends, and executes nothing.
func serve(ctx context.Context, dsn, address string) error {
	store, err := pgstore.Open(ctx, dsn, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	e, err := engine.New(store, engine.Options{WithoutWorker: true, Workflows: []workflow.Definition{fulfil("")}})
	if err != nil {
		return err
	}
	defer e.Close(context.WithoutCancel(ctx))
	server, err := mcptasks.NewServer(e, mcptasks.Options{})
	if err != nil {
		return err
	}
	route, err := mcptasks.RouteTo(fulfil(""), mcp.Tool{Name: "fulfil", Description: "Fulfils an order."})
	if err != nil {
		return err
	}
	if err := server.SetRoutes(route); err != nil {
		return err
	}
	handler, err := server.Handler(mcptasks.HTTPOptions{})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/mcp\n", listener.Addr())
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = web.Close() })
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
