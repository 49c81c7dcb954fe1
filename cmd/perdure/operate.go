package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
	"github.com/perdure/perdure/history"
)

func (a *app) pauseCommand() *cobra.Command {
	return a.endCommand(&cobra.Command{
		Use:   "pause RUN",
		Short: "Stop a run until it is resumed",
		Long: `Pause stops a run. A step that is running is stopped, and attempted again after the resume; a run that waits just does not
wake. Signals and answers are accepted meanwhile and kept in order; a timer or a deadline that passes counts when the run is
resumed. Canceling a paused run resumes it. Pausing twice is no error; a run that is over stays as it is.`,
		Example: `  perdure pause 01KBD3X0V9N6T0Q8M7S2R4W5YZ --reason "the shop is closed"`,
	}, (*admin.Client).Pause)
}

func (a *app) resumeCommand() *cobra.Command {
	return a.endCommand(&cobra.Command{
		Use:   "resume RUN",
		Short: "Let a paused run go on",
		Long: `Resume lets a paused run go on, and tries a blocked one again under the code that the server has now. For any other run it
does nothing.`,
		Example: `  perdure resume 01KBD3X0V9N6T0Q8M7S2R4W5YZ`,
	}, (*admin.Client).Resume)
}

func (a *app) retryCommand() *cobra.Command {
	var req admin.RetryRequest
	c := &cobra.Command{
		Use:   "retry RUN",
		Short: "Start a new run where a failed one was last good",
		Long: `Retry starts a new run that goes on where a failed, canceled or terminated one was last good. It has that part of the
history, and attempts the step that failed anew, with the same idempotency key; what completed before is not done again. Signals
that the old run did not receive are sent to the new one. The old run does not change. Retrying it again finds the run that was
started the first time.

Where the old run cleaned up after its failure, a retry would go on without what that has undone: it is refused. Fork the run from
an earlier event then, or insist with --after-clean-up.`,
		Example: `  perdure retry 01KBD3X0V9N6T0Q8M7S2R4W5YZ --reason "the database is back"`,
		Args:    exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			next, err := client.Retry(c.Context(), args[0], req)
			if err != nil {
				return err
			}
			return a.printSuccessor(&next)
		},
	}
	f := c.Flags()
	f.StringVar(&req.Reason, "reason", "", "the `REASON`, for the new run's history")
	f.IntVar(&req.Version, "tool-version", 0, "go on with this `VERSION` of the tool, which must fit the history")
	f.BoolVar(&req.AfterCleanUp, "after-clean-up", false, "also where clean-up ran after the failure")
	return c
}

func (a *app) forkCommand() *cobra.Command {
	var req admin.ForkRequest
	var results []string
	c := &cobra.Command{
		Use:   "fork RUN",
		Short: "Start a new run from any event of another",
		Long: `Fork starts a new run that has another's history up to an event, and goes on from there. perdure show --full prints the
numbers of the events, and the steps by which --result names them.

With --result a completed step gets another result. Of a tool's step it is an object with the fields that docs/tool-files.md lists
for its kind: value, or stdout, stderr, exit_code, truncated, error of a program, and status, headers, body, truncated, error of
a request. What is left out is that of a step that went well: {"value": "done"} is enough. STEP is a step's name; one item of a
foreach is NAME[INDEX]/NAME.

The steps that the fork executes get idempotency
keys of their own, so that what they do is done again; with --keep-keys they have those of the old run. The old run, live or over,
does not change.`,
		Example: `  perdure fork 01KBD3X0V9N6T0Q8M7S2R4W5YZ --at 7
  perdure fork 01KBD3X0V9N6T0Q8M7S2R4W5YZ --at 7 --result 'price={"value": "12 EUR"}'`,
		Args: exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if req.Results, err = resultsOf(results); err != nil {
				return err
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			next, err := client.Fork(c.Context(), args[0], req)
			if err != nil {
				return err
			}
			return a.printSuccessor(&next)
		},
	}
	f := c.Flags()
	f.Uint64Var(&req.At, "at", 0, "the number of the newest `EVENT` that is kept (default: the newest before the end)")
	f.StringArrayVar(&results, "result", nil, "put another result in a step's place: `STEP=JSON`; may be given several times")
	f.BoolVar(&req.KeepKeys, "keep-keys", false, "keep the idempotency keys of the old run's steps")
	f.BoolVar(&req.KeepSignals, "keep-signals", false, "send the fork the signals that it has not received by then")
	f.StringVar(&req.Key, "key", "", "the new run's `KEY`: forking again under it finds the run")
	f.IntVar(&req.Version, "tool-version", 0, "go on with this `VERSION` of the tool, which must fit the history")
	f.StringVar(&req.Reason, "reason", "", "the `REASON`, for the new run's history")
	return c
}

func resultsOf(args []string) (map[history.Position]json.RawMessage, error) {
	results := map[history.Position]json.RawMessage{}
	for _, arg := range args {
		step, text, ok := strings.Cut(arg, "=")
		if !ok || step == "" || !json.Valid([]byte(text)) {
			return nil, exit.New(exit.Usage, "for example: --result 'price={\"value\": \"12\"}'", "--result %q: want STEP=JSON", arg)
		}
		at := position(step)
		if _, twice := results[at]; twice {
			return nil, exit.New(exit.Usage, "", "--result: step %s is given twice", step)
		}
		results[at] = json.RawMessage(text)
	}
	return results, nil
}

// position adds the occurrences that people leave out: the first, as in count[3]/size, which is count#0[3]/size#0.
func position(text string) history.Position {
	parts := strings.Split(text, "/")
	for i, part := range parts {
		name, branch, inside := strings.Cut(part, "[")
		if !strings.Contains(name, "#") {
			name += "#0"
		}
		if parts[i] = name; inside {
			parts[i] += "[" + branch
		}
	}
	return history.Position(strings.Join(parts, "/"))
}

func (a *app) printSuccessor(next *admin.Successor) error {
	return a.print(next, func(w io.Writer) {
		what := "started"
		if next.Existed {
			what = "was started before"
		}
		fmt.Fprintf(w, "run %s %s: %s\n", next.ID, what, present.Standing(&next.Run))
	})
}

func (a *app) decideCommand() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "decide RUN STEP retry|complete|fail [JSON]",
		Short: "Settle a step that may or may not have taken effect",
		Long: `Decide settles an at-most-once step that was cut off: nobody knows whether it took effect, and its run waits for an operator
to find out. "retry" attempts it again, "complete" takes the JSON as its result, "fail" lets it fail. The run says in its reason
which step waits.`,
		Example: `  perdure decide 01KBD3X0V9N6T0Q8M7S2R4W5YZ pay retry --reason "the bank has no such payment"
  perdure decide 01KBD3X0V9N6T0Q8M7S2R4W5YZ pay complete '{"id": "tx-17"}'`,
		Args: exactly("RUN", "STEP", "retry|complete|fail", "[JSON]"),
		RunE: func(c *cobra.Command, args []string) error {
			req := admin.DecideRequest{Step: position(args[1]), Decision: args[2], Reason: reason}
			if (args[2] == "complete") != (len(args) == 4) {
				return exit.New(exit.Usage, "", "decide: \"complete\" needs a JSON result, and the others take none")
			}
			if len(args) == 4 {
				if req.Result = json.RawMessage(args[3]); !json.Valid(req.Result) {
					return exit.New(exit.Usage, "quote it for the shell: '{\"id\": 1}', or '\"text\"'", "decide: the result %q is not JSON", args[3])
				}
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			run, err := client.Decide(c.Context(), args[0], req)
			if err != nil {
				return err
			}
			return a.print(run, func(w io.Writer) { fmt.Fprintf(w, "run %s: %s of %s is decided\n", run.ID, args[2], args[1]) })
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "the `REASON`, for the run's history")
	return c
}

func (a *app) redeliverCommand() *cobra.Command {
	var req admin.RedeliverRequest
	c := &cobra.Command{
		Use:   "redeliver RUN LETTER --to RUN",
		Short: "Send a dead letter on to another run",
		Long: `Redeliver sends a signal that a run never received on to another run that is not over, and takes it off the list. LETTER is
its number, which perdure show prints.`,
		Example: `  perdure redeliver 01KBD3X0V9N6T0Q8M7S2R4W5YZ 3 --to 01KBD4A0B1N6T0Q8M7S2R4W5YZ`,
		Args:    exactly("RUN", "LETTER"),
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := fmt.Sscan(args[1], &req.Seq); err != nil {
				return exit.New(exit.Usage, "perdure show prints the numbers", "redeliver: %q is no number", args[1])
			}
			if req.To == "" {
				return exit.New(exit.Usage, "", "redeliver: missing --to RUN")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			res, err := client.Redeliver(c.Context(), args[0], req)
			if err != nil {
				return err
			}
			return a.print(res, func(w io.Writer) { fmt.Fprintf(w, "run %s: %s\n", res.Run, res.Delivery) })
		},
	}
	c.Flags().StringVar(&req.To, "to", "", "the `RUN` that gets it")
	return c
}

func (a *app) exportCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "export RUN",
		Short: "Write a run with its whole history as JSON",
		Long: `Export writes a run with its whole history as one JSON document, for keeping, and for perdure replay. It holds inputs and
results as they are: treat it as you treat those.`,
		Example: `  perdure export 01KBD3X0V9N6T0Q8M7S2R4W5YZ -o testdata/order.json`,
		Args:    exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			x, err := client.Export(c.Context(), args[0])
			if err != nil {
				return err
			}
			if out == "" {
				fmt.Fprintln(a.out, string(x))
				return nil
			}
			if err := os.WriteFile(out, append(x, '\n'), 0o600); err != nil {
				return fmt.Errorf("export: %w", err)
			}
			return a.print(map[string]string{"file": out}, func(w io.Writer) { fmt.Fprintln(w, "wrote", out) })
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "write to this `FILE`")
	return c
}
