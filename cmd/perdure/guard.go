package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/runstep"
)

const stepGuard = "step-guard"

// stepGuardCommand is the process that outlives a killed server for long enough to kill what its steps have started.
func (a *app) stepGuardCommand() *cobra.Command {
	return &cobra.Command{
		Use:    stepGuard,
		Short:  "Kill the programs of steps when their server is gone",
		Hidden: true,
		Args:   exactly(),
		Run:    func(*cobra.Command, []string) { runstep.ServeGuard(a.in) },
	}
}

// guardCommandLine starts stepGuardCommand.
func guardCommandLine() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, exit.New(exit.Failed, "", "find this program: %w", err)
	}
	return []string{self, stepGuard}, nil
}
