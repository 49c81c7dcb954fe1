package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
	"github.com/perdure/perdure/engine"
)

func (a *app) signalCommand() *cobra.Command {
	var id string
	c := &cobra.Command{
		Use:   "signal RUN NAME [JSON]",
		Short: "Send a signal to a run",
		Long: `Signal sends a named signal, with a value, to a run. It is durable when the command returns. A run need not wait for
it yet: signals are kept in order until it does. A run that is over keeps it as a dead letter, and the command says so.

With --id a signal that is sent twice is delivered once; the same id with another value is refused (exit code 5).`,
		Example: `  perdure signal 01KBD3X0V9N6T0Q8M7S2R4W5YZ paid
  perdure signal 01KBD3X0V9N6T0Q8M7S2R4W5YZ paid '{"amount": 10}' --id payment-77`,
		Args: exactly("RUN", "NAME", "[JSON]"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			req := admin.SignalRequest{Name: args[1], ID: id}
			if len(args) == 3 {
				if !json.Valid([]byte(args[2])) {
					return exit.New(exit.Usage, `a text is written with quotes: '"`+args[2]+`"'`, "the value %q is not JSON", args[2])
				}
				req.Payload = json.RawMessage(args[2])
			}
			res, err := client.Signal(c.Context(), args[0], req)
			if err != nil {
				return err
			}
			return a.print(res, func(w io.Writer) {
				fmt.Fprintf(w, "signal %s to run %s: %s\n", req.Name, res.Run, res.Delivery)
				if res.Delivery == engine.DeadLetter.String() {
					fmt.Fprintf(w, "the run is over: perdure show %s has the letter's number, perdure redeliver %s LETTER --to RUN sends it on to another run\n", res.Run, res.Run)
				}
				if len(res.Awaits) > 0 && !slices.Contains(res.Awaits, req.Name) {
					fmt.Fprintf(w, "it is kept: the run waits for %s now\n", present.Clip(strings.Join(res.Awaits, ", "), 200))
				}
			})
		},
	}
	c.Flags().StringVar(&id, "id", "", "the signal's own `ID`: sent twice, it is delivered once")
	return c
}
