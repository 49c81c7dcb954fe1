package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
)

// validation is what validate prints as JSON.
type validation struct {
	File     string            `json:"file"`
	Valid    bool              `json:"valid"`
	Tools    []validTool       `json:"tools"`
	Problems toolfile.Problems `json:"problems"`
	Warnings toolfile.Problems `json:"warnings"`
}

type validTool struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
	Steps  int    `json:"steps"`
}

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check a tool file, and list everything that is wrong with it",
		Long: `Validate reads a tool file as a server does, and prints all mistakes at once, each with its line and column, what is
wrong and what would be right. Nothing is executed, and no server is needed.

Exit codes: 0 the file is good (there may be warnings), 1 it has mistakes, 3 there is no such file.`,
		Example: `  perdure validate
  perdure validate tools/perdure.yaml
  perdure validate --json perdure.yaml | jq '.problems[] | "\(.line): \(.message)"'`,
		Args: exactly("[FILE]"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.validate(args[0])
			}
			path, err := state.FindConfig(a.config)
			if err != nil {
				return err
			}
			return a.validate(path)
		},
	}
}

// loadTools loads a tool file, and says how to write one where it is not there.
func loadTools(path string) (*toolfile.File, error) {
	file, err := toolfile.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.New(exit.NotFound, "write an example with: perdure init "+path, "%w", err)
	}
	return file, err
}

func (a *app) validate(path string) error {
	v := validation{File: path, Tools: []validTool{}, Problems: toolfile.Problems{}, Warnings: toolfile.Problems{}}
	file, err := loadTools(path)
	if err != nil && !errors.As(err, &v.Problems) {
		return err
	}
	if file != nil {
		v.Valid = true
		v.Warnings = append(v.Warnings, file.Warnings...)
		for _, t := range file.Tools {
			v.Tools = append(v.Tools, validTool{Name: t.Name, Digest: t.Digest(), Steps: len(t.Steps)})
		}
	}
	err = a.print(v, func(w io.Writer) {
		for _, p := range v.Problems {
			fmt.Fprintln(w, p)
		}
		for _, p := range v.Warnings {
			fmt.Fprintln(w, "warning:", p)
		}
		if v.Valid {
			fmt.Fprintf(w, "%s is good: %s\n", path, present.Count(len(v.Tools), "tool"))
			for _, t := range v.Tools {
				fmt.Fprintf(w, "  %-24s %s  digest %.12s\n", t.Name, present.Count(t.Steps, "step"), t.Digest)
			}
		}
	})
	if err == nil && !v.Valid {
		err = &quietError{exit.Failed}
	}
	return err
}
