package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/present"
)

func (a *app) showCommand() *cobra.Command {
	var full, follow bool
	c := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run: how it stands, and what happened when",
		Long: `Show prints a run with its timeline: each step's result, failed attempts, waits, questions, signals and answers,
with the time since its start. A line marks where another process went on with it after a crash or a restart. Where a run is
blocked it says why, and where it asks it says how to answer.

RUN is a run's id, its key, or the id of its MCP task. Long values are shortened; --full shows them whole, --json gives
everything.`,
		Example: `  perdure show 01KBD3X0V9N6T0Q8M7S2R4W5YZ
  perdure show --follow 01KBD3X0V9N6T0Q8M7S2R4W5YZ
  perdure show --json 01KBD3X0V9N6T0Q8M7S2R4W5YZ | jq .result`,
		Args: exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			if follow {
				for run, err := range client.Follow(c.Context(), args[0]) {
					if err != nil {
						return err
					}
					if !a.json {
						fmt.Fprintln(a.err, present.Standing(&run), present.Clip(run.Message, 100))
					}
				}
			}
			d, err := client.Run(c.Context(), args[0])
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
				for _, s := range d.DeadLetters {
					fmt.Fprintf(w, "\nsignal %s was never received: %s\n", present.Clip(s.Name, 64), present.Short(s.Payload, 100))
				}
			})
		},
	}
	c.Flags().BoolVar(&full, "full", false, "do not shorten values")
	c.Flags().BoolVar(&follow, "follow", false, "wait until the run is over, then show it")
	return c
}
