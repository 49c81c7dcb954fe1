package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
	"github.com/perdure/perdure/cmd/perdure/internal/toolflow"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// replayed is what perdure replay finds about one file.
type replayed struct {
	File string `json:"file"`
	Run  string `json:"run"`
	Tool string `json:"tool"`
	Fits bool   `json:"fits"`
	// Difference says where the tool does not fit the history.
	Difference string `json:"difference,omitempty"`
}

func (a *app) replayCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "replay HISTORY...",
		Short: "Hold the tool file against exported histories",
		Long: `Replay reads histories that perdure export wrote, and goes through each with the tool of the same name in the tool file, as it is
now. No step is executed and no server is needed. Where the tool would do something else than the history says, it prints the
difference: a run with that history would be blocked by the tool.

A live run keeps the definition that it was started with, so a change of the tool file does not block it: this is for
retrying or forking runs with another version, and for new versions of this program.

Exit codes: 0 all fit, 1 some do not, 2 a file is no history, 3 a file or a tool is not there.`,
		Example: `  perdure replay testdata/*.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.New(exit.Usage, "see: perdure replay --help", "replay: missing HISTORY")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.replay(args) },
	}
}

func (a *app) replay(paths []string) error {
	config, err := state.FindConfig(a.config)
	if err != nil {
		return err
	}
	file, err := loadTools(config)
	if err != nil {
		return err
	}
	all, fit := []replayed{}, true
	for _, path := range paths {
		r, err := replayFile(file, path)
		if err != nil {
			return err
		}
		all, fit = append(all, r), fit && r.Fits
	}
	err = a.print(all, func(w io.Writer) {
		for _, r := range all {
			if r.Fits {
				fmt.Fprintf(w, "%s: %s fits\n", r.File, r.Tool)
			} else {
				fmt.Fprintf(w, "%s: %s does not fit: %s\n", r.File, r.Tool, present.Safe(r.Difference))
			}
		}
	})
	if err == nil && !fit {
		err = &quietError{exit.Failed}
	}
	return err
}

func replayFile(file *toolfile.File, path string) (replayed, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return replayed{}, fmt.Errorf("replay: %w", err)
	}
	var x history.Export
	if err := json.Unmarshal(data, &x); err != nil {
		return replayed{}, exit.New(exit.Usage, "write one with: perdure export RUN", "replay: %s is no exported history: %w", path, err)
	}
	r := replayed{File: path, Run: x.Run.ID.String(), Tool: x.Run.Workflow}
	for _, tool := range file.Tools {
		if tool.Name != x.Run.Workflow {
			continue
		}
		err := workflow.Replay(toolflow.New(tool, x.Run.Version, toolflow.Deps{}), &x)
		switch {
		case errors.Is(err, history.ErrInvalid):
			return r, exit.New(exit.Usage, "write one with: perdure export RUN", "replay: %s: %w", path, err)
		case err != nil:
			r.Difference = err.Error()
		}
		r.Fits = err == nil
		return r, nil
	}
	return r, exit.New(exit.NotFound, "", "replay: %s is a history of %q, which is no tool of the file", path, x.Run.Workflow)
}
