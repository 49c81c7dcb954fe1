package main

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/present"
)

func (a *app) runsCommand() *cobra.Command {
	var q struct {
		statuses, tags       []string
		tool, after          string
		limit                int
		asking, all, running bool
		created              created
	}
	c := &cobra.Command{
		Use:   "runs",
		Short: "List runs, newest first",
		Long: `Runs lists the runs of a server, newest first, a page at a time. Without filters it lists all, finished ones too.

The statuses are ready, running, waiting, paused, blocked, completed, failed and canceled. A run that waits for a
person is shown as "asks"; list those alone with --asking.`,
		Example: `  perdure runs
  perdure runs --tool deploy --status failed
  perdure runs --unfinished
  perdure runs --created-after 24h --status failed
  perdure runs --json --limit 1000 | jq -r '.runs[].id'`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			v := url.Values{"status": q.statuses, "tag": q.tags, "limit": {strconv.Itoa(q.limit)}}
			if err := q.created.set(v, time.Now()); err != nil {
				return err
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			if q.running {
				v["status"] = append(v["status"], "ready", "running", "waiting", "paused", "blocked")
			}
			for name, value := range map[string]string{"workflow": q.tool, "after": q.after} {
				if value != "" {
					v.Set(name, value)
				}
			}
			v.Set("questions", strconv.FormatBool(q.asking))
			v.Set("all", strconv.FormatBool(q.all))
			page, err := client.Runs(c.Context(), v)
			if err != nil {
				return err
			}
			return a.print(page, func(w io.Writer) {
				if len(page.Runs) == 0 {
					fmt.Fprintln(w, "no runs")
					return
				}
				present.Runs(w, page.Runs, time.Now())
				if page.Next != "" {
					fmt.Fprintf(w, "more: --after %s\n", page.Next)
				}
			})
		},
	}
	f := c.Flags()
	f.StringSliceVar(&q.statuses, "status", nil, "only runs with this `STATUS`; may be given several times")
	f.StringVar(&q.tool, "tool", "", "only runs of this `TOOL`")
	f.StringSliceVar(&q.tags, "tag", nil, "only runs with this `NAME=VALUE`")
	q.created.flags(c)
	f.BoolVar(&q.asking, "asking", false, "only runs with an open question")
	f.BoolVar(&q.running, "unfinished", false, "only runs that are not over")
	f.BoolVar(&q.all, "all", false, "the server's own runs too: notifications")
	f.IntVar(&q.limit, "limit", 50, "list `N` runs, 1 to 1000")
	f.StringVar(&q.after, "after", "", "go on after the page that ended with this `CURSOR`")
	return c
}
