package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/present"
)

func (a *app) questionsCommand() *cobra.Command {
	var wait bool
	c := &cobra.Command{
		Use:   "questions",
		Short: "List all open questions",
		Long: `Questions lists what runs wait to be told, by whoever called them or by an operator, with the command that answers
each. A question stays open over restarts, until its answer or its deadline. To be told when one opens, write a notify
section into the tool file.`,
		Example: `  perdure questions
  perdure questions --wait
  perdure questions --json | jq -r '.[] | [.run, .key, .message] | @tsv'`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			qs, err := client.Questions(c.Context())
			for wait && err == nil && len(qs) == 0 {
				select {
				case <-time.After(lookAgain):
					qs, err = client.Questions(c.Context())
				case <-c.Context().Done():
					err = c.Context().Err()
				}
			}
			if err != nil {
				return err
			}
			return a.print(qs, func(w io.Writer) {
				if len(qs) == 0 {
					fmt.Fprintln(w, "no open questions")
					return
				}
				present.Questions(w, qs, time.Now())
			})
		},
	}
	c.Flags().BoolVar(&wait, "wait", false, "wait until there is one")
	return c
}

// lookAgain is the pause between two looks for questions.
const lookAgain = 200 * time.Millisecond
