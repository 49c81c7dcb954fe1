package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
	"github.com/perdure/perdure/history"
)

func (a *app) cancelCommand() *cobra.Command {
	return a.endCommand(&cobra.Command{
		Use:   "cancel RUN",
		Short: "Ask a run to end, and let it clean up",
		Long: `Cancel asks a run to end: its waits end, its running step is stopped, its clean-up runs, and then it is canceled. The
request is durable when the command returns; the run may need a moment. For a run that is over it does nothing, and says so.`,
		Example: `  perdure cancel 01KBD3X0V9N6T0Q8M7S2R4W5YZ --reason "wrong branch"`,
	}, (*admin.Client).Cancel)
}

func (a *app) terminateCommand() *cobra.Command {
	return a.endCommand(&cobra.Command{
		Use:   "terminate RUN",
		Short: "End a run at once, without clean-up",
		Long: `Terminate fails a run at once. Nothing of it runs any more, no clean-up either: it is for runs that cannot be canceled.
For a run that is over it does nothing, and says so.`,
		Example: `  perdure terminate 01KBD3X0V9N6T0Q8M7S2R4W5YZ --reason "stuck for good"`,
	}, (*admin.Client).Terminate)
}

func (a *app) endCommand(c *cobra.Command, end func(c *admin.Client, ctx context.Context, id, reason string) (admin.Run, error)) *cobra.Command {
	var reason string
	c.Args = exactly("RUN")
	c.RunE = func(c *cobra.Command, args []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		before, err := client.Run(c.Context(), args[0])
		if err != nil {
			return err
		}
		run, err := end(client, c.Context(), before.ID, reason)
		if err != nil {
			return err
		}
		return a.print(run, func(w io.Writer) {
			switch {
			case before.Status.Terminal():
				fmt.Fprintf(w, "nothing to %s: run %s is over (%s)\n", c.Name(), run.ID, run.Status)
			case c.Name() == "resume" && before.Status != history.StatusPaused:
				fmt.Fprintf(w, "nothing to resume: run %s is not paused (%s)\n", run.ID, present.Standing(&run))
			default:
				fmt.Fprintf(w, "run %s: %s\n", run.ID, present.Standing(&run))
			}
		})
	}
	c.Flags().StringVar(&reason, "reason", "", "the `REASON`, for the run's history")
	return c
}
