package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exportfile"
	"github.com/perdure/perdure/cmd/perdure/internal/keyfile"
	"github.com/perdure/perdure/cmd/perdure/internal/policyfile"
	"github.com/perdure/perdure/cmd/perdure/internal/runstep"
	"github.com/perdure/perdure/cmd/perdure/internal/tokens"
	"github.com/perdure/perdure/cmd/perdure/internal/toolflow"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/schedule"
	"github.com/perdure/perdure/mcptasks"
	"github.com/perdure/perdure/workflow"
)

const defaultDrain = 50 * time.Second

// server is one server at work.
type server struct {
	opts    Options
	started time.Time
	store   engine.Store
	upkeep  admin.Store
	owned   string   // the file whose lock makes this process the owner of the folder
	lock    *os.File // of a store that is elsewhere; else nil
	engine  *engine.Engine
	front   *mcptasks.Server
	mcp     http.Handler // the front end over HTTP, for the folder's owner
	tokens  *tokens.File // of callers over the network; nil where they need none
	policy  *policyfile.File
	exports *exportfile.File // what leaves is exported to; nil where nothing is
	tools   *tools
	notify  *notifier
	guard   *runstep.Guard // of the steps' programs; nil where none is asked for

	// files belongs to open, and then to watchFiles.
	files files

	// stop ends the server; its cause is logged.
	stop context.CancelCauseFunc
	// draining says that no new work is taken.
	draining atomic.Bool
	// mcpURL is the address of the TCP endpoint.
	mcpURL string
	// clients counts the open MCP connections of the socket.
	clients atomic.Int64
}

// The causes of an end that was asked for.
var (
	errStopped = errors.New("stop was asked for")
	errClient  = errors.New("the client is gone")
	errIdle    = errors.New("nothing to do")
)

// Run serves until ctx ends, the client of stdio leaves, or the store fails. It returns nil where the end was asked for.
func Run(ctx context.Context, o Options) error {
	if o.Drain <= 0 {
		o.Drain = defaultDrain
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s := &server{opts: o, started: time.Now(), stop: stop}
	if err := o.Dir.Make(); err != nil {
		return err
	}
	listeners, err := s.open(ctx)
	if err != nil {
		return errors.Join(err, s.close())
	}
	s.opts.Log.Info("serving", "pid", os.Getpid(), "config", o.Config, "state", o.Dir.Path, "tools", len(s.tools.list()))
	if s.mcpURL != "" {
		s.opts.Log.Info("MCP over HTTP", "url", s.mcpURL)
	}
	err = s.serve(ctx, listeners)
	return errors.Join(err, s.close())
}

// listeners are where clients come in.
type listeners struct {
	socket net.Listener
	tcp    net.Listener // nil without one
}

// open brings up everything, in the order in which it depends on each other. The file is read first: a mistake in it is
// the most likely reason not to start.
func (s *server) open(ctx context.Context) (l listeners, err error) {
	s.tools = &tools{server: s}
	file, err := s.tools.read()
	if err != nil {
		return l, err
	}
	if s.opts.AuthTokens != "" {
		if s.tokens, err = tokens.Open(s.opts.AuthTokens, s.opts.Log); err != nil {
			return l, err
		}
	}
	codecs, err := keyfile.Codecs(s.opts.KeyFile, s.opts.Compress)
	if err != nil {
		return l, err
	}
	if s.policy, err = readPolicy(s.opts.Retention); err != nil {
		return l, err
	}
	if err := s.openStore(ctx); err != nil {
		return l, err
	}
	retention, err := s.retention(file)
	if err != nil {
		return l, err
	}
	if len(s.opts.Guard) > 0 {
		if s.guard, err = runstep.StartGuard(s.opts.Guard...); err != nil {
			return l, err
		}
	}
	log := s.opts.Log
	s.notify = newNotifier(s)
	s.engine, err = engine.New(s.store, engine.Options{
		Worker: s.workerOptions(), Log: log, DrainTimeout: s.opts.Drain, Workflows: []workflow.Definition{schedule.Workflow()}, Codecs: codecs,
		Retention: retention, CrashFile: s.opts.Dir.Crashes(),
	})
	if err != nil {
		return l, err
	}
	front := mcptasks.Options{
		Implementation: &mcp.Implementation{Name: "perdure", Title: "Perdure", Version: s.opts.Version},
		Logger:         log,
	}
	front.Retention = defaultRetention
	if s.policy.Path != "" {
		front.Retention = mcptasks.Unlimited // where the tool does not say it the policy does
	}
	if s.tokens != nil {
		front.Identify = s.tokens.Identify
	}
	s.front, err = mcptasks.NewServer(s.engine, front)
	if err != nil {
		return l, err
	}
	if s.mcp, err = s.front.Handler(mcptasks.HTTPOptions{}); err != nil {
		return l, err
	}
	if err := s.tools.start(ctx, file); err != nil {
		return l, err
	}
	if err := s.notify.register(s.engine); err != nil {
		return l, err
	}
	if l.socket, err = s.listenSocket(); err != nil {
		return l, err
	}
	if err := s.remember(); err != nil {
		return l, errors.Join(err, l.socket.Close())
	}
	if s.opts.Mode == HTTP {
		if l.tcp, err = s.listenTCP(ctx); err != nil {
			return l, errors.Join(err, l.socket.Close())
		}
	}
	return l, nil
}

// serve runs the parts until one of them ends the server, and drains.
func (s *server) serve(ctx context.Context, l listeners) error {
	// live ends when the drain is over: until then the socket answers, so that the drain can be watched.
	live, over := context.WithCancel(context.WithoutCancel(ctx))
	defer over()
	g, gctx := errgroup.WithContext(ctx)
	socket := &http.Server{Handler: s.socketHandler(live), ReadHeaderTimeout: 10 * time.Second, ErrorLog: s.errorLog()}
	g.Go(func() error { return serveHTTP(socket, l.socket) })
	var web *http.Server
	if l.tcp != nil {
		front, err := s.webMCP()
		if err != nil {
			return err
		}
		web = &http.Server{
			Handler: s.webHandler(front), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute, ErrorLog: s.errorLog(),
		}
		g.Go(func() error { return serveHTTP(web, l.tcp) })
	}
	g.Go(func() error { return s.tools.watch(gctx) })
	g.Go(func() error { return s.notify.run(gctx) })
	g.Go(func() error { return s.idle(gctx) })
	g.Go(func() error { return s.watchFiles(gctx, g, socket) })
	if s.opts.Mode == Stdio {
		g.Go(func() error { return s.serveStdio(gctx) })
	}
	g.Go(func() error {
		var err error
		limit := s.opts.Drain
		select {
		case <-s.engine.Done():
			err = fmt.Errorf("the engine has stopped: %w", s.engine.Err())
			limit = min(limit, lastAnswers) // the store is gone: what a step under way returns cannot be recorded
		case <-gctx.Done():
		}
		s.drain(gctx, limit, web)
		over()
		return errors.Join(err, s.closeSocket(socket))
	})
	return g.Wait()
}

func serveHTTP(h *http.Server, l net.Listener) error {
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// drain takes no new work, ends the waiting calls with their handles and lets running steps finish, until the limit.
func (s *server) drain(ctx context.Context, limit time.Duration, web *http.Server) {
	s.draining.Store(true)
	s.opts.Log.Info("draining", "cause", context.Cause(ctx), "limit", limit)
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := s.front.Shutdown(dctx); err != nil {
		s.opts.Log.Warn("some calls did not end in time", "error", err)
	}
	if web != nil {
		if err := web.Shutdown(dctx); err != nil {
			s.opts.Log.Warn("some requests did not end in time", "error", errors.Join(err, web.Close()))
		}
	}
	if err := s.engine.Close(dctx); err != nil {
		s.opts.Log.Error("the engine ended with an error", "error", err)
	}
	s.opts.Log.Info("drained")
}

// lastAnswers bounds how long requests may still be answered when there is nothing else to wait for: those on the socket after the
// drain, and all where the engine has stopped by itself.
const lastAnswers = 2 * time.Second

func (s *server) closeSocket(h *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), lastAnswers)
	defer cancel()
	if err := h.Shutdown(ctx); err != nil {
		s.opts.Log.Warn("some requests on the local socket did not end in time", "error", err)
		return h.Close()
	}
	return nil
}

// deps are what the steps of tools need of this process.
func (s *server) deps() toolflow.Deps { return toolflow.Deps{Guard: s.guard} }

// close closes what is open; the store last, because its lock owns the socket.
func (s *server) close() error {
	var errs []error
	if s.engine != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.engine.Close(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	if s.notify != nil {
		s.notify.close()
	}
	s.guard.Close()
	errs = append(errs, s.exports.Close(), s.closeStore())
	return errors.Join(errs...)
}

// describe is the server for the administration.
func (s *server) describe() admin.Server {
	loads, loadErr := s.tools.state()
	return admin.Server{
		PID: os.Getpid(), Version: s.opts.Version, Config: s.opts.Config, State: s.opts.Dir.Path, Started: s.started.UTC(),
		Mode: string(s.opts.Mode), MCP: s.mcpURL, Loads: loads, LoadError: loadErr, Tools: s.tools.list(),
		Goroutines: runtime.NumGoroutine(),
	}
}
