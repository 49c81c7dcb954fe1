package main

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
)

// bulkPage bounds what one request acts on, so that a command that is interrupted has done whole pages.
const bulkPage = 100

// bulkSummary is what became of all selected runs.
type bulkSummary struct {
	Verb    string              `json:"verb"`
	DryRun  bool                `json:"dryRun,omitempty"`
	Matched int                 `json:"matched"`
	Done    int                 `json:"done"`
	Existed int                 `json:"existed,omitempty"`
	Failed  int                 `json:"failed"`
	Runs    []admin.BulkOutcome `json:"runs"`
	// Next is the cursor to go on after, where --limit ended it.
	Next string `json:"next,omitempty"`
}

func (a *app) bulkCommand() *cobra.Command {
	var q struct {
		statuses, tags []string
		tool, after    string
		limit          int
		all            bool
		created        created
	}
	var req admin.BulkRequest
	c := &cobra.Command{
		Use:   "bulk cancel|retry",
		Short: "Cancel or retry many runs",
		Long: `Bulk cancels or retries all runs that the filters select, newest first, in pages of 100. Without --status it cancels runs that are
not over, and retries those that failed. It wants at least one filter, or --all. See perdure cancel and perdure retry for what
happens to each; an error of one run does not end the others. Start with --dry-run, which lists the runs and does nothing.

Exit codes: 0 done, 1 some runs had errors.`,
		Example: `  perdure bulk cancel --tool deploy --dry-run
  perdure bulk retry --tag batch=7 --reason "the database is back"`,
		Args: exactly("cancel|retry"),
		RunE: func(c *cobra.Command, args []string) error {
			req.Verb = args[0]
			if req.Verb != "cancel" && req.Verb != "retry" {
				return exit.New(exit.Usage, "", "bulk: %q: want cancel or retry", req.Verb)
			}
			if len(q.statuses)+len(q.tags) == 0 && q.tool == "" && q.created == (created{}) && !q.all {
				return exit.New(exit.Usage, "select all of them with: --all", "bulk: missing a filter: --tool, --tag, --status, --created-after or --created-before")
			}
			v := url.Values{"status": q.statuses, "tag": q.tags}
			if q.tool != "" {
				v.Set("workflow", q.tool)
			}
			if err := q.created.set(v, time.Now()); err != nil {
				return err
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			sum := bulkSummary{Verb: req.Verb, DryRun: req.DryRun, Runs: []admin.BulkOutcome{}, Next: q.after}
			for first := true; first || sum.Next != ""; first = false {
				v.Set("after", sum.Next)
				v.Set("limit", strconv.Itoa(min(bulkPage, q.limit-sum.Matched)))
				page, err := client.Bulk(c.Context(), v, req)
				if err != nil {
					return err
				}
				sum.add(&page)
				if sum.Matched >= q.limit {
					break
				}
			}
			if err := a.print(sum, sum.write); err != nil {
				return err
			}
			if sum.Failed > 0 {
				return &quietError{exit.Failed}
			}
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&req.DryRun, "dry-run", false, "list what would happen, and do nothing")
	f.StringVar(&req.Reason, "reason", "", "the `REASON`, for the runs' histories")
	f.BoolVar(&req.AfterCleanUp, "after-clean-up", false, "retry also runs that cleaned up after their failure")
	f.StringSliceVar(&q.statuses, "status", nil, "only runs with this `STATUS`; may be given several times")
	f.StringVar(&q.tool, "tool", "", "only runs of this `TOOL`")
	f.StringSliceVar(&q.tags, "tag", nil, "only runs with this `NAME=VALUE`")
	q.created.flags(c)
	f.BoolVar(&q.all, "all", false, "without a filter: all runs of the server")
	f.IntVar(&q.limit, "limit", 10_000, "act on at most this `NUMBER` of runs")
	f.StringVar(&q.after, "after", "", "go on after the run that a command before ended with: its `CURSOR`")
	return c
}

func (s *bulkSummary) add(page *admin.BulkPage) {
	s.Next = page.Next
	for _, o := range page.Runs {
		s.Matched++
		switch {
		case o.Error != "":
			s.Failed++
		case o.Existed:
			s.Existed++
		case !s.DryRun:
			s.Done++
		}
		s.Runs = append(s.Runs, o)
	}
}

func (s *bulkSummary) write(w io.Writer) {
	for i := range s.Runs {
		o := &s.Runs[i]
		switch {
		case o.Error != "":
			fmt.Fprintf(w, "run %s: %s\n", o.ID, present.Safe(o.Error))
		case s.DryRun:
			fmt.Fprintf(w, "run %s (%s, %s): would %s\n", o.ID, present.Clip(o.Workflow, 32), o.Status, s.Verb)
		case o.Existed:
			fmt.Fprintf(w, "run %s: retried before, as run %s\n", o.ID, o.New)
		case o.New != "":
			fmt.Fprintf(w, "run %s: retried as run %s\n", o.ID, o.New)
		default:
			fmt.Fprintf(w, "run %s: asked to end\n", o.ID)
		}
	}
	if s.DryRun {
		fmt.Fprintf(w, "%s would be selected; nothing was done\n", present.Count(s.Matched, "run"))
	} else {
		fmt.Fprintf(w, "%s: %d done, %d retried before, %d with errors\n", present.Count(s.Matched, "run"), s.Done, s.Existed, s.Failed)
	}
	if s.Next != "" {
		fmt.Fprintf(w, "more: --after %s\n", s.Next)
	}
}
