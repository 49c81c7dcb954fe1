package main

import (
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/policyfile"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
	"github.com/perdure/perdure/history"
)

func (a *app) retentionCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "retention",
		Short: "How long finished runs are kept, and what holds them",
		Long: `A finished run is deleted once the retention of its tool has passed (retention in the tool file), and at the earliest when the handle
that its client was shown runs out. A tombstone stays: a late duplicate of its call is told that it expired. A tool without a
retention keeps its runs for 7 days, unless the server has a policy, serve --retention FILE, which decides then. It is JSON:

  {
    "exports": "exports.jsonl",
    "rules": [
      {"tool": "deploy", "keep": "365d", "exportFirst": true, "keepTombstones": "1825d"},
      {"tenant": "acme", "keep": "forever"},
      {"tool": "poll", "keepGenerations": "7d", "keep": "12h"},
      {"keep": "30d"}
    ]
  }

The first rule that fits a run's tool and tenant counts. Keep is for tools without a retention of their own. With exportFirst a run
stays until it is exported; keepTombstones purges what is left of exported ones; keepGenerations prunes the closed generations of
runs that go on. The file is read when the server starts, and refused as a whole where something is wrong with it.

A legal hold keeps runs and tombstones until it is released, whatever the retention says. Who placed and released it, when and
why, stays on record.

Without a command this shows the policy and the holds.`,
		Example: `  perdure retention
  perdure retention check retention.json
  perdure retention hold --tool deploy --reason "audit 2026-3"
  perdure retention release 01KBD3X0V9N6T0Q8M7S2R4W5YZ --reason "audit closed"`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			s, err := client.Retention(c.Context(), all)
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { writeRetention(w, &s) })
		},
	}
	c.Flags().BoolVar(&all, "all", false, "released holds too")
	c.AddCommand(a.checkPolicyCommand(), a.sweepCommand(), a.holdCommand(), a.releaseCommand(), a.tombstonesCommand(), a.journalCommand(), a.exportFinishedCommand())
	return c
}

func (a *app) checkPolicyCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "check FILE",
		Short:   "List every mistake in a policy, with its line",
		Long:    `Check reads a policy as a server does when it starts, and shows what it says, or what is wrong with it. It needs no server.`,
		Example: `  perdure retention check retention.json`,
		Args:    exactly("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := policyfile.Load(args[0])
			if err != nil {
				return err
			}
			s := admin.RetentionState{Policy: f.Policy, File: f.Path, Exports: f.Exports, Holds: []history.Hold{}}
			return a.print(s, func(w io.Writer) { writePolicy(w, &s) })
		},
	}
}

func writeRetention(w io.Writer, s *admin.RetentionState) {
	writePolicy(w, s)
	for i := range s.Holds {
		writeHold(w, &s.Holds[i])
	}
	if len(s.Holds) == 0 {
		fmt.Fprintln(w, "no holds")
	}
}

func writePolicy(w io.Writer, s *admin.RetentionState) {
	if s.File != "" {
		fmt.Fprintf(w, "policy %s\n", present.Safe(s.File))
	}
	if len(s.Policy) == 0 {
		fmt.Fprintln(w, "each run is kept as its tool says")
	}
	for i := range s.Policy {
		fmt.Fprintf(w, "%d. %s\n", i+1, ruleText(&s.Policy[i]))
	}
	if s.Exports != "" {
		fmt.Fprintf(w, "exports to %s\n", present.Safe(s.Exports))
	}
}

// ruleText is a rule in words.
func ruleText(r *history.RetentionRule) string {
	out := "tool " + orAll(r.Workflow)
	if r.Tenant != nil {
		out += fmt.Sprintf(", tenant %q", *r.Tenant)
	}
	out += ": kept " + kept(r.Keep) + " after the end, unless the tool says otherwise"
	if r.ExportFirst {
		out += "; exported first"
	}
	if r.KeepTombstones > 0 {
		out += "; tombstones kept " + kept(r.KeepTombstones) + " and until there is an export"
	}
	if r.KeepGenerations > 0 {
		out += "; closed generations kept " + kept(r.KeepGenerations)
	}
	return out
}

func kept(d time.Duration) string {
	if d == 0 {
		d = time.Duration(toolfile.Forever)
	}
	return toolfile.Duration(d).String()
}

func orAll(name string) string {
	if name == "" {
		return "any"
	}
	return present.Safe(name)
}

func writeHold(w io.Writer, h *history.Hold) {
	on := "tenant"
	switch h.Scope {
	case history.HoldRun:
		on = "run " + h.Run.String()
	case history.HoldWorkflow:
		on = "tool " + present.Safe(h.Workflow)
	case history.HoldTenant:
		if h.Tenant != nil {
			on = fmt.Sprintf("tenant %q", *h.Tenant)
		}
	}
	fmt.Fprintf(w, "hold %s on %s: %s (%s, %s)\n", h.ID, on, present.Safe(h.Reason), present.Safe(h.By), present.Moment(h.PlacedAt.Std()))
	if h.ReleasedAt != 0 {
		fmt.Fprintf(w, "  released: %s (%s, %s)\n", present.Safe(h.ReleaseReason), present.Safe(h.ReleasedBy), present.Moment(h.ReleasedAt.Std()))
	}
}

func (a *app) sweepCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "run",
		Short:   "Delete now what is due",
		Long:    `A server deletes what is due within a minute by itself. Run does it now, and says what it did and what is held.`,
		Example: `  perdure retention run`,
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			s, err := client.Sweep(c.Context())
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) {
				fmt.Fprintf(w, "deleted %d, exported %d, purged %d tombstones, pruned %d events; held %d, waiting for an export %d\n", s.Deleted, s.Exported, s.Purged, s.Pruned, s.Held, s.Unexported)
			})
		},
	}
}

func (a *app) holdCommand() *cobra.Command {
	var req admin.HoldRequest
	var tenant string
	c := &cobra.Command{
		Use:   "hold",
		Short: "Keep runs from being deleted, on record",
		Long: `Hold places a legal hold on a run, on all runs of a tool, or on all of a tenant, those to come too. Nothing that it is on is
deleted until the hold is released. Each call places a hold of its own, and each is released by itself: where an answer was
lost, look with perdure retention before you place another.`,
		Example: `  perdure retention hold --run 01KBD3X0V9N6T0Q8M7S2R4W5YZ --reason "case 7"
  perdure retention hold --tenant "" --reason "everything, until the audit is over"`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("tenant") {
				req.Tenant = &tenant
			}
			if req.Reason == "" {
				return exit.New(exit.Usage, "see: perdure retention hold --help", "a hold needs a --reason, for the record")
			}
			if req.Run == "" && req.Workflow == "" && req.Tenant == nil {
				return exit.New(exit.Usage, "see: perdure retention hold --help", "a hold is on a --run, a --tool or a --tenant")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			h, err := client.PlaceHold(c.Context(), req)
			if err != nil {
				return err
			}
			return a.print(h, func(w io.Writer) { writeHold(w, &h) })
		},
	}
	f := c.Flags()
	f.StringVar(&req.Run, "run", "", "the `ID` of the run")
	f.StringVar(&req.Workflow, "tool", "", "all runs of this `TOOL`")
	f.StringVar(&tenant, "tenant", "", "all runs of this `TENANT`; the tenant of tools is \"\"")
	f.StringVar(&req.Reason, "reason", "", "the `REASON`, for the record")
	return c
}

func (a *app) releaseCommand() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:     "release HOLD",
		Short:   "Release a hold, on record",
		Long:    `Release ends a hold. What it kept and is due is deleted within a minute.`,
		Example: `  perdure retention release 01KBD3X0V9N6T0Q8M7S2R4W5YZ --reason "case closed"`,
		Args:    exactly("HOLD"),
		RunE: func(c *cobra.Command, args []string) error {
			if reason == "" {
				return exit.New(exit.Usage, "see: perdure retention release --help", "a release needs a --reason, for the record")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			h, err := client.ReleaseHold(c.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return a.print(h, func(w io.Writer) { writeHold(w, &h) })
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "the `REASON`, for the record")
	return c
}

func (a *app) tombstonesCommand() *cobra.Command {
	var tool, after string
	var limit int
	c := &cobra.Command{
		Use:     "tombstones",
		Short:   "List what is left of deleted runs, oldest first",
		Long:    `A tombstone keeps the ids, tool, times, final status and digest of a deleted run, and none of its content.`,
		Example: `  perdure retention tombstones --tool deploy --json`,
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			q := url.Values{"workflow": {tool}, "after": {after}, "limit": {strconv.Itoa(limit)}}
			page, err := client.Tombstones(c.Context(), q.Encode())
			if err != nil {
				return err
			}
			return a.print(page, func(w io.Writer) {
				for _, t := range page.Tombstones {
					fmt.Fprintf(w, "%s  %s v%d  %s %s, deleted %s, %d events, %.12s\n", t.Run, present.Safe(t.Workflow), t.Version, t.Status, present.Moment(t.ClosedAt.Std()), present.Moment(t.DeletedAt.Std()), t.Events, t.Head)
				}
				if len(page.Tombstones) == 0 {
					fmt.Fprintln(w, "no tombstones")
				}
				if page.Next != "" {
					fmt.Fprintf(w, "more: --after %s\n", page.Next)
				}
			})
		},
	}
	f := c.Flags()
	f.StringVar(&tool, "tool", "", "only of this `TOOL`")
	f.StringVar(&after, "after", "", "go on after the page that ended with this `CURSOR`")
	f.IntVar(&limit, "limit", 50, "list `N` tombstones, 1 to 1000")
	return c
}

func (a *app) exportFinishedCommand() *cobra.Command {
	var tool string
	c := &cobra.Command{
		Use:   "export FILE",
		Short: "Write finished runs to a file before they go",
		Long: `Export appends the finished runs that were not exported before to FILE, one a line, each as perdure export writes it, and records
a receipt of each: the file, the line's digest and that of the history. The server writes the file. One process may write to a
file at a time.`,
		Example: `  perdure retention export /srv/archive/runs.jsonl
  perdure retention export deploys.jsonl --tool deploy`,
		Args: exactly("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			file, err := filepath.Abs(args[0])
			if err != nil {
				return fmt.Errorf("export: %w", err)
			}
			out, err := client.ExportFinished(c.Context(), admin.ExportRequest{File: file, Workflow: tool})
			if err != nil {
				return err
			}
			return a.print(out, func(w io.Writer) { fmt.Fprintf(w, "exported %d runs to %s\n", out.Runs, out.File) })
		},
	}
	c.Flags().StringVar(&tool, "tool", "", "only runs of this `TOOL`")
	return c
}

func (a *app) journalCommand() *cobra.Command {
	var from uint64
	c := &cobra.Command{
		Use:     "journal",
		Short:   "The record of holds, purges and erasures",
		Long:    `Journal lists who placed and released holds and erased runs, when and why, and which tombstones were purged.`,
		Example: `  perdure retention journal`,
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			entries, err := client.Journal(c.Context(), from)
			if err != nil {
				return err
			}
			return a.print(entries, func(w io.Writer) {
				for _, e := range entries {
					fmt.Fprintf(w, "%d  %s  %s by %s: %s %s\n", e.Seq, present.Moment(e.At.Std()), e.Verb, present.Safe(e.By), present.Safe(e.Reason), e.Subject)
				}
				if len(entries) == 0 {
					fmt.Fprintln(w, "no entries")
				}
			})
		},
	}
	c.Flags().Uint64Var(&from, "from", 1, "the first entry `NUMBER`")
	return c
}
