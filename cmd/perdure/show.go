package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
)

func (a *app) showCommand() *cobra.Command {
	var full, follow bool
	c := &cobra.Command{
		Use:   "show [RUN]",
		Short: "Show a run: how it stands, and what happened when",
		Long: `Show prints a run with its timeline: each step's result, failed attempts, waits, questions, signals and answers,
with the time since its start. A line marks where another process went on with it after a crash or a restart. Where a run is
blocked it says why, and where it asks it says how to answer.

RUN is a run's id, its key, the id of its MCP task, or the --key of the perdure call that started it; without it the newest run is
shown. Long values are shortened. --full shows them whole, with the number of each event and the steps' full positions, for perdure
fork; --json gives everything.

The exit code says whether the run was found, not how it ended: a run that failed is shown with exit code 0, also with --follow. To
have the run's outcome as exit code use: perdure call --resume TASK.`,
		Example: `  perdure show
  perdure show 01KBD3X0V9N6T0Q8M7S2R4W5YZ
  perdure show --follow 01KBD3X0V9N6T0Q8M7S2R4W5YZ
  perdure show --json 01KBD3X0V9N6T0Q8M7S2R4W5YZ | jq .result`,
		Args: exactly("[RUN]"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			id, err := runOrNewest(c.Context(), client, args)
			if err != nil {
				return err
			}
			if follow {
				for run, err := range client.Follow(c.Context(), id) {
					if err != nil {
						return err
					}
					if !a.json {
						fmt.Fprintln(a.err, present.Standing(&run), present.Clip(run.Message, 100))
					}
				}
			}
			d, err := client.Run(c.Context(), id)
			if err != nil {
				return err
			}
			return a.print(d, func(w io.Writer) {
				now := time.Now()
				present.Header(w, &d, now, full)
				fmt.Fprintln(w)
				present.Timeline(w, d.Timeline, full)
				for i := range d.Open {
					fmt.Fprintln(w)
					present.Question(w, &d.Open[i], now)
				}
				for _, s := range d.Unreceived {
					fmt.Fprintf(w, "\nsignal %s is not yet received: %s\n", present.Clip(s.Name, 64), payloadOf(&s))
				}
				for _, s := range d.DeadLetters {
					fmt.Fprintf(w, "\nsignal %s was never received: %s (letter %d)\n", present.Clip(s.Name, 64), payloadOf(&s), s.Seq)
				}
			})
		},
	}
	c.Flags().BoolVar(&full, "full", false, "do not shorten values")
	c.Flags().BoolVar(&follow, "follow", false, "wait until the run is over, then show it")
	return c
}

// runOrNewest is the run that the arguments name, or the newest.
func runOrNewest(ctx context.Context, client *admin.Client, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	page, err := client.Runs(ctx, url.Values{"limit": {"1"}})
	if err != nil {
		return "", err
	}
	if len(page.Runs) == 0 {
		return "", exit.New(exit.NotFound, "start one with: perdure call TOOL", "there are no runs")
	}
	return page.Runs[0].ID, nil
}

func payloadOf(s *admin.Signal) string {
	if gone := present.Gone(s.Erased, s.Sealed); gone != "" {
		return gone
	}
	return present.Short(s.Payload, 100)
}
