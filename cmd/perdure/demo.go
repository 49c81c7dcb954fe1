package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/demo"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
)

func (a *app) demoCommand() *cobra.Command {
	var keep bool
	c := &cobra.Command{
		Use:   "demo [FOLDER]",
		Short: "See a tool survive two kill -9",
		Long: `Demo starts a server with a tool that looks at a folder in several steps, asks whether it may write a report, and writes it.
It calls the tool as an MCP client does, kills the server with SIGKILL twice, once between two steps and once inside
one, starts it again each time, and answers the question. At the end it prints the run's timeline and what ran where.

Each execution of a step appends a line to a file outside the store. Exit code 0 means that these lines and the
history agree: nothing was lost, no recorded step ran again, and the one attempt that was cut off was repeated under
the same idempotency key without writing twice.

It needs no network, no configuration and no terminal, and leaves nothing behind. FOLDER is only read; without it the
demo looks at the repository around the working folder.`,
		Example: `  perdure demo
  perdure demo ~/projects --json`,
		Args: exactly("[FOLDER]"),
		RunE: func(c *cobra.Command, args []string) error {
			self, err := os.Executable()
			if err != nil {
				return exit.New(exit.Failed, "", "find this program: %w", err)
			}
			o := demo.Options{Self: self, Keep: keep, Say: a.out}
			if a.json {
				o.Say = a.err
			}
			if len(args) == 1 {
				o.Folder = args[0]
			}
			report, err := demo.Run(c.Context(), o)
			if err != nil {
				return err
			}
			if err := a.print(report, func(w io.Writer) { report.Write(w) }); err != nil {
				return err
			}
			if !report.OK() {
				return exit.New(exit.Failed, "", "the promise was not kept")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&keep, "keep", false, "leave the demo's files in place")
	return c
}

// demoStepCommand is the program of the demo's steps.
func (a *app) demoStepCommand() *cobra.Command {
	var place string
	c := &cobra.Command{
		Use:    "demo-step",
		Short:  "One step of the demo's tool",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return demo.Step(place, args, a.in, a.out) },
	}
	c.Flags().StringVar(&place, "place", ".", "the demo's own folder")
	return c
}
