// Command perdure-conformance is the server that the official MCP conformance runner is run against: run.sh does
// it. Its tasks are workflows on a bbolt file. The other tools, prompts and resources are those that the runner's
// general scenarios name; they show that the front end breaks nothing around it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/mcptasks"
)

func main() {
	addr := flag.String("http", "127.0.0.1:7412", "address to listen on; the endpoint is /mcp")
	db := flag.String("db", "", "bbolt file of the workflows; default: a temporary one")
	helpers := flag.Bool("helpers", false, "offer the tools task_status, task_respond and task_cancel, for clients without tasks")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	asItIs := func(h http.Handler) http.Handler { return h }
	if err := run(ctx, options{*addr, *db, *helpers}, log, asItIs); err != nil {
		fmt.Fprintln(os.Stderr, "perdure-conformance:", err)
		os.Exit(1)
	}
}

// options say where the server is, and what it offers.
type options struct {
	addr, db string
	helpers  bool // the tools for clients without tasks; the runner's scenarios do not know them
}

// run serves until ctx ends. The handler of MCP is wrapped: tests look at what it sends.
func run(ctx context.Context, o options, log *slog.Logger, wrap func(http.Handler) http.Handler) (err error) {
	if o.db == "" {
		dir, err := os.MkdirTemp("", "perdure-conformance-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.db = filepath.Join(dir, "conformance.db")
	}
	store, err := boltstore.Open(o.db, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	eng, err := engine.New(store, engine.Options{Workflows: workflows(), Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close(context.Background())) }()
	server, err := newServer(ctx, eng, o.helpers, log)
	if err != nil {
		return err
	}
	return serve(ctx, o.addr, server, wrap)
}

// newServer is the front end over the engine, with everything that the runner asks for.
func newServer(ctx context.Context, eng mcptasks.Engine, helpers bool, log *slog.Logger) (*mcptasks.Server, error) {
	accept := func(context.Context, *mcp.SubscribeRequest) error { return nil } // the SDK keeps the subscriptions
	release := func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	sdk := mcp.NewServer(&mcp.Implementation{Name: "perdure-conformance", Version: "1.0.0"}, &mcp.ServerOptions{
		SubscribeHandler: accept, UnsubscribeHandler: release, CompletionHandler: complete, Logger: log,
	})
	server, err := mcptasks.NewServer(eng, mcptasks.Options{MCP: sdk, Logger: log, MinPoll: 100 * time.Millisecond, NoHelperTools: !helpers})
	if err != nil {
		return nil, err
	}
	if err := server.SetRoutes(routes()...); err != nil {
		return nil, err
	}
	addTools(sdk)
	addInputTools(sdk, newSealer())
	addPrompts(sdk)
	addResources(sdk)
	go touchResource(ctx, sdk, log)
	return server, nil
}

func serve(ctx context.Context, addr string, server *mcptasks.Server, wrap func(http.Handler) http.Handler) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	handler, err := server.Handler(mcptasks.HTTPOptions{})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", wrap(handler))
	h := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	fmt.Printf("listening on http://%s/mcp\n", l.Addr())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	down, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = server.Shutdown(down)
	if herr := h.Shutdown(down); herr != nil { // sessions' streams stay open until they are closed
		herr = h.Close()
		err = errors.Join(err, herr)
	}
	return err
}
