package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/mcptasks"
)

// load is the clients.
type load struct {
	o       *options
	witness *witness
	server  *server
	clients []*mcptasks.Client
	http    *http.Client
	// polls has a token for each poll that may be made now; listening has room for the subscriptions.
	polls     chan struct{}
	listening chan struct{}
	open      atomic.Int64 // runs that are not over
	drivers   sync.WaitGroup
}

// clientCount is how many clients share the work; each has a session.
const clientCount = 4

func newLoad(o *options, w *witness, s *server) (*load, error) {
	l := &load{
		o: o, witness: w, server: s, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		polls: make(chan struct{}), listening: make(chan struct{}, o.subscriptions),
	}
	for range clientCount {
		c, err := mcptasks.NewClient(l.dial, mcptasks.ClientOptions{
			Implementation: &mcp.Implementation{Name: "perdure-soak", Version: "1"},
			Elicit:         l.elicit,
		})
		if err != nil {
			return nil, err
		}
		l.clients = append(l.clients, c)
	}
	return l, nil
}

// dial finds the server that answers now: each has a port of its own.
func (l *load) dial(context.Context) (mcp.Transport, error) {
	life := l.server.current()
	if life == nil {
		return nil, errors.New("there is no server")
	}
	return &mcp.StreamableClientTransport{Endpoint: life.url, HTTPClient: l.http, MaxRetries: -1}, nil
}

// elicit declares that the clients take questions. Those of tasks come as input requests, see observe.
func (l *load) elicit(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	l.witness.violate("wrong", 0, "a question came outside its task")
	return &mcp.ElicitResult{Action: "cancel"}, nil
}

// most bounds the open runs: a server that cannot keep up is not piled on.
const most = 5000

// startAll starts runs at the set rate until ctx ends. Their drivers go on until live ends.
func (l *load) startAll(ctx, live context.Context, r *rand.Rand) {
	tick := time.NewTicker(time.Duration(float64(time.Second) / l.o.starts))
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if l.open.Load() >= most {
			l.witness.count(func(c *counts) { c.Held++ })
			continue
		}
		p := newPlan(n, l.o.mix, r)
		l.open.Add(1)
		l.drivers.Go(func() {
			defer l.open.Add(-1)
			l.drive(live, p)
		})
	}
}

// allowPolls hands out polls at the set rate until ctx ends.
func (l *load) allowPolls(ctx context.Context) {
	tick := time.NewTicker(time.Duration(float64(time.Second) / l.o.polls))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		select {
		case l.polls <- struct{}{}: // the one who has waited longest
		default:
		}
	}
}

func (l *load) close() error {
	var errs []error
	for _, c := range l.clients {
		if err := c.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close a client: %w", err))
		}
	}
	l.http.CloseIdleConnections()
	return errors.Join(errs...)
}
