package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/form"
	"github.com/perdure/perdure/cmd/perdure/internal/keyfile"
	"github.com/perdure/perdure/cmd/perdure/internal/policyfile"
	"github.com/perdure/perdure/cmd/perdure/internal/relay"
	"github.com/perdure/perdure/cmd/perdure/internal/serve"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
)

const serveLong = `Serve offers the tools of a file to MCP clients and executes their runs.

Over stdio, the default, it is what an MCP client starts, one process for each window. Those processes own nothing:
each relays to the one server that owns the state folder, and starts that server, detached, where none runs. The
server stays when the client leaves, because work goes on; it ends by itself once it has had no client and no
unfinished run for 15 minutes, or by: perdure stop. Its log is server.log in the state folder. With --foreground
this process is the server itself, and ends when its client leaves.

With --http it is the server, in the foreground: MCP at /mcp, probes at /healthz and /readyz. Whoever reaches it can call
every tool, so it listens on loopback addresses only. With --auth-tokens each caller must send one of the tokens in a file
(see: perdure token new --help), sees only what it started itself, and any address will do; put TLS in front of it then.

With --store the runs are in a PostgreSQL database (see: perdure migrate --help), and any number of servers, each with a state
folder of its own, serve them together.

In every mode the local socket in the state folder serves the commands runs, show, call and so on. The folder and
the socket are open to their owner only.

The file is loaded again when it changes, at SIGHUP, and by: perdure reload. A file with mistakes is refused as a
whole, every mistake is logged, and the old tools stay. Runs that have begun finish on the definition that they
began with.

At SIGTERM or SIGINT the server takes no new work, gives running steps the time of --drain, and ends; a second signal
ends it at once. Either way nothing is lost: a step that was cut off runs again at the next start, a recorded one
does not.`

func (a *app) serveCommand() *cobra.Command {
	var o serve.Options
	var foreground, socketOnly bool
	var idle time.Duration
	var endWithStdin bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the tools of a file to MCP clients, over stdio or HTTP",
		Long:  serveLong,
		Example: `  perdure serve --http 127.0.0.1:7337
  perdure serve --http 0.0.0.0:7337 --auth-tokens /etc/perdure/tokens
  perdure serve --http 127.0.0.1:7337 --store postgres://perdure@db.internal/perdure
  perdure serve --foreground --config /etc/perdure/perdure.yaml --state /var/lib/perdure --http 127.0.0.1:7337

  # in the configuration of an MCP client:
  {"mcpServers": {"perdure": {"command": "perdure", "args": ["serve", "--config", "/path/to/perdure.yaml"]}}}`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := a.logger()
			if err != nil {
				return err
			}
			if err := a.serveOptions(&o, log); err != nil {
				return err
			}
			if o.Guard, err = guardCommandLine(); err != nil {
				return err
			}
			switch {
			case o.Mode == serve.HTTP:
			case socketOnly:
				o.Mode, o.IdleExit = serve.Socket, idle
			case foreground:
				o.Mode, o.In, o.Out = serve.Stdio, a.in, os.Stdout
			default:
				return a.relay(c.Context(), o)
			}
			reload, stop := reloadSignal()
			defer stop()
			o.Reload = reload
			ctx := c.Context()
			if endWithStdin {
				var cancel context.CancelFunc
				ctx, cancel = untilEnd(ctx, a.in)
				defer cancel()
			}
			return serve.Run(ctx, o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Address, "http", "", "serve HTTP on this `ADDRESS`, such as 127.0.0.1:7337 (port 0: a free one)")
	f.StringVar(&o.AuthTokens, "auth-tokens", "", "with --http: callers need one of the tokens in this `FILE`")
	f.BoolVar(&o.AllowAnonymous, "allow-anonymous", false, "with --http: listen beyond loopback, and let everybody call every tool")
	ownerFlags(c, &o)
	f.BoolVar(&foreground, "foreground", false, "serve stdio in this process instead of relaying to a detached server")
	f.BoolVar(&socketOnly, "socket", false, "serve the local socket only, in the foreground")
	f.DurationVar(&o.Drain, "drain", 50*time.Second, "the `TIME` that running steps have at the end")
	f.DurationVar(&idle, "idle-exit", 0, "with --socket: end after this `TIME` without clients and unfinished runs")
	f.BoolVar(&endWithStdin, "end-with-stdin", false, "with --socket: end when stdin does")
	_ = f.MarkHidden("end-with-stdin") // the flag is there
	return c
}

// untilEnd returns a context that ends with ctx and with the input: so a process ends with the one that holds the other side.
func untilEnd(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in) // however it ends
		cancel()
	}()
	return ctx, cancel
}

// storeVariable is the connection string of the store where --store is not. A server that a command starts gets it by the
// environment too: everybody can read the arguments of a process, and there may be a password in it.
const storeVariable = "PERDURE_STORE"

// keyFileVariable names the file of keys where --key-file does not.
const keyFileVariable = "PERDURE_KEY_FILE"

// retentionVariable names the file of the retention policy where --retention does not.
const retentionVariable = "PERDURE_RETENTION"

// ownerFlags are those of the commands that start a server.
func ownerFlags(c *cobra.Command, o *serve.Options) {
	f := c.Flags()
	storeFlag(c, &o.Store, "keep the runs in")
	f.StringVar(&o.KeyFile, "key-file", "", "encrypt what runs are given and give back, with the newest key in this `FILE` (default $"+keyFileVariable+")")
	f.BoolVar(&o.Compress, "compress", false, "compress what runs are given and give back, before it is encrypted where it is")
	f.StringVar(&o.Retention, "retention", "", "delete finished runs by the policy in this `FILE` (see: perdure retention --help; default $"+retentionVariable+")")
}

// storeFlag adds --store; use says what the command does with the database.
func storeFlag(c *cobra.Command, dsn *string, use string) {
	c.Flags().StringVar(dsn, "store", "", use+" this PostgreSQL `DATABASE`, such as postgres://perdure@db/perdure (default $"+storeVariable+", else a file)")
}

// findStore returns the connection string that was given; "" where the store is a file.
func findStore(given string) (string, error) {
	dsn := cmp.Or(given, os.Getenv(storeVariable))
	if dsn != "" && !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") && !strings.Contains(dsn, "=") {
		return "", exit.New(exit.Usage, "write postgres://USER@HOST/DATABASE, or host=HOST dbname=DATABASE; leave it out for a file in the state folder", "the store is no connection string of PostgreSQL")
	}
	return dsn, nil
}

// findFile returns the absolute path of the file that was given, or that the variable names; "" where neither does.
func findFile(given, variable string) (string, error) {
	if given = cmp.Or(given, os.Getenv(variable)); given == "" {
		return "", nil
	}
	return filepath.Abs(given)
}

// serveOptions fills in what the common flags say, and refuses what does not go together.
func (a *app) serveOptions(o *serve.Options, log *slog.Logger) error {
	o.Version, o.Log = version(), log
	var err error
	if o.Store, err = findStore(o.Store); err != nil {
		return err
	}
	if o.KeyFile, err = findFile(o.KeyFile, keyFileVariable); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if o.Retention, err = findFile(o.Retention, retentionVariable); err != nil {
		return fmt.Errorf("retention policy: %w", err)
	}
	if o.Config, err = state.FindConfig(a.config); err != nil {
		return err
	}
	if o.Dir, err = state.Find(a.state, o.Config); err != nil {
		return err
	}
	switch {
	case o.Address != "":
		o.Mode = serve.HTTP
		_, err = o.CheckAddress()
	case o.AuthTokens != "" || o.AllowAnonymous:
		err = exit.New(exit.Usage, "add --http ADDRESS", "--auth-tokens and --allow-anonymous are for callers over HTTP")
	}
	if err == nil && o.AuthTokens != "" && o.AllowAnonymous {
		err = exit.New(exit.Usage, "leave one out", "--auth-tokens and --allow-anonymous contradict each other")
	}
	return err
}

// idleExit is when a detached server ends by itself.
const idleExit = 15 * time.Minute

// relay joins stdin and stdout to the server that owns the state folder.
func (a *app) relay(ctx context.Context, o serve.Options) error {
	if form.IsTerminal(a.in) {
		o.Log.Warn("serving MCP over stdio: an MCP client is expected here, not a person; to try the tools, use: perdure start, and perdure call")
	}
	launcher, err := a.launcher(ctx, o)
	if err != nil {
		return err
	}
	r := &relay.Relay{In: a.in, Out: os.Stdout, Connect: launcher.Connect, Log: o.Log}
	return r.Run(ctx)
}

// launcher finds or starts the server that the options describe. Where one has to be started, a file with mistakes is
// refused here, where the client sees it.
func (a *app) launcher(ctx context.Context, o serve.Options) (*relay.Launcher, error) {
	client := admin.NewClient(o.Dir)
	if _, err := client.Server(ctx); err != nil {
		if _, err := loadTools(o.Config); err != nil {
			return nil, err
		}
		if _, err := keyfile.Codecs(o.KeyFile, o.Compress); err != nil {
			return nil, err
		}
		if o.Retention != "" {
			if _, err := policyfile.Load(o.Retention); err != nil {
				return nil, err
			}
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, exit.New(exit.Failed, "", "find this program: %w", err)
	}
	command := []string{
		self, "serve", "--socket", "--config", o.Config, "--state", o.Dir.Path, "--idle-exit", idleExit.String(),
		"--log-format", a.logFormat, "--log-level", a.logLevel,
	}
	if o.Store != "" {
		if err := os.Setenv(storeVariable, o.Store); err != nil {
			return nil, exit.New(exit.Failed, "", "hand the store on: %w", err)
		}
	}
	if o.KeyFile != "" {
		command = append(command, "--key-file", o.KeyFile)
	}
	if o.Retention != "" {
		command = append(command, "--retention", o.Retention)
	}
	if o.Compress {
		command = append(command, "--compress")
	}
	return &relay.Launcher{Dir: o.Dir, Client: client, Log: o.Log, Command: command}, nil
}
