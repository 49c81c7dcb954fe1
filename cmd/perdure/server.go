package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
	"github.com/perdure/perdure/cmd/perdure/internal/serve"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
	"github.com/perdure/perdure/engine/boltstore"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Say whether a server runs, and what it offers",
		Example: `  perdure status || perdure serve --http 127.0.0.1:7337`,
		Long: `Status describes the server of the state folder: its process, addresses and tools, and why the tool file was refused,
where it was. Exit code 4: no server runs.`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			s, err := client.Server(c.Context())
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { writeServer(w, s) })
		},
	}
}

func writeServer(w io.Writer, s admin.Server) {
	fmt.Fprintf(w, "process %d, version %s, up since %s\n", s.PID, s.Version, present.Ago(s.Started, time.Now()))
	fmt.Fprintf(w, "  tools  %s\n  state  %s\n", s.Config, s.State)
	if s.MCP != "" {
		fmt.Fprintf(w, "  mcp    %s\n", s.MCP)
	}
	if s.LoadError != "" {
		fmt.Fprintf(w, "REFUSED: the tool file as it is now has mistakes, and the tools from before stay:\n%s\n", present.Safe(s.LoadError))
	}
	for _, t := range s.Tools {
		fmt.Fprintf(w, "  %-24s v%d  %s\n", t.Name, t.Version, present.Clip(t.Description, 80))
	}
}

func (a *app) startCommand() *cobra.Command {
	var o serve.Options
	c := &cobra.Command{
		Use:   "start",
		Short: "Start a server in the background, where none runs",
		Long: `Start starts the server that "perdure serve" starts for MCP clients over stdio: detached, without a TCP port, with its log in
the state folder. It waits until the server answers. It ends by: perdure stop, or by itself once it has had no client and
no unfinished run for 15 minutes.`,
		Example: `  perdure start && perdure call folder_report path=.`,
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := a.logger()
			if err != nil {
				return err
			}
			if err := a.serveOptions(&o, log); err != nil {
				return err
			}
			launcher, err := a.launcher(c.Context(), o)
			if err != nil {
				return err
			}
			conn, err := launcher.Connect(c.Context())
			if err != nil {
				return err
			}
			if err := conn.Close(); err != nil {
				return fmt.Errorf("start: %w", err)
			}
			s, err := launcher.Client.Server(c.Context())
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { writeServer(w, s) })
		},
	}
	ownerFlags(c, &o)
	return c
}

func (a *app) reloadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Load the tool file anew",
		Long: `Reload makes the server load its tool file now, and says what is wrong with it, where something is: then the tools from
before stay. A server also loads the file by itself when it changes.`,
		Example: `  perdure reload`,
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			s, err := client.Reload(c.Context())
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { writeServer(w, s) })
		},
	}
}

func (a *app) stopCommand() *cobra.Command {
	var within time.Duration
	c := &cobra.Command{
		Use:   "stop",
		Short: "End the server gracefully",
		Long: `Stop makes the server take no new work, let running steps finish, and end; it waits for that. Unfinished runs go on when a
server is started again. An MCP client that is connected over stdio starts one as soon as it needs it.`,
		Example: `  perdure stop`,
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := state.Find(a.state, a.config)
			if err != nil {
				return err
			}
			client := admin.NewClient(dir)
			s, err := client.Stop(c.Context())
			if err != nil {
				return err
			}
			if err := waitEnded(c.Context(), client, dir.Database(), s.PID, within); err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { fmt.Fprintf(w, "process %d has ended\n", s.PID) })
		},
	}
	c.Flags().DurationVar(&within, "within", 2*time.Minute, "how much `TIME` the end may take")
	return c
}

// waitEnded waits until the process has closed its store, which it does after its socket, or another owns the folder.
func waitEnded(ctx context.Context, client *admin.Client, database string, pid int, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := client.Server(ctx)
		if err == nil && s.PID != pid {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			if used, err := boltstore.InUse(database); err != nil || !used {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return exit.New(exit.Failed, "it waits for a running step; end it with: kill "+fmt.Sprint(pid), "process %d has not ended within %s", pid, within)
		}
	}
}
