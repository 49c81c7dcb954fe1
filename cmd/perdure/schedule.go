package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
	"github.com/perdure/perdure/engine/schedule"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/timer"
)

func (a *app) scheduleCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "schedule",
		Short: "Start runs at fixed times",
		Long: `A schedule starts a run of a tool at the times that a cron expression names. It is kept in the server's state folder: it goes on
after restarts, and a server that has one does not end by itself. The runs are those of the tool's newest version at that time.`,
		Example: `  perdure schedule create nightly --cron "0 3 * * *" --zone Europe/Berlin --tool report
  perdure schedule list`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.scheduleCreateCommand(), a.scheduleListCommand(), a.scheduleShowCommand(),
		a.scheduleVerbCommand("pause", "Stop a schedule until it is resumed", "Times that pass while a schedule is paused are not missed: they do not count."),
		a.scheduleVerbCommand("resume", "Let a paused schedule go on", "The next time is the first one after now."),
		a.scheduleVerbCommand("trigger", "Start a run now", "The run is started under the schedule's overlap policy; the schedule goes on as before."),
		a.scheduleVerbCommand("delete", "End a schedule", "The runs that it started go on."),
	)
	return c
}

func (a *app) scheduleCreateCommand() *cobra.Command {
	var spec schedule.Spec
	var input, overlap, missed string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a schedule",
		Long: `Create makes a schedule. Creating it again with the same settings finds it; with others it is refused (exit code 5): delete it
first. The input is held against the tool's schema. --overlap says what happens while the run before still goes on: skip the time, allow another run, or cancel the run before.
--missed says what happens with times that passed while no server ran: fire once for all, all of them, or none.`,
		Example: `  perdure schedule create nightly --cron "0 3 * * *" --zone Europe/Berlin --tool report --input '{"path": "."}'
  perdure schedule create often --cron "*/5 * * * *" --tool poll --overlap skip --missed none`,
		Args: exactly("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			if spec.Workflow == "" || spec.Cron == "" {
				return exit.New(exit.Usage, "see: perdure schedule create --help", "schedule create: missing %s", missingOf(&spec))
			}
			if input != "" {
				if spec.Input = json.RawMessage(input); !json.Valid(spec.Input) {
					return exit.New(exit.Usage, "quote it for the shell: --input '{\"path\": \".\"}'", "--input %q is not JSON", input)
				}
			}
			spec.Overlap, spec.Missed = schedule.Overlap(overlap), schedule.Missed(missed)
			client, err := a.client()
			if err != nil {
				return err
			}
			s, err := client.CreateSchedule(c.Context(), args[0], admin.ScheduleRequest{Spec: spec})
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { writeSchedule(w, &s) })
		},
	}
	f := c.Flags()
	f.StringVar(&spec.Cron, "cron", "", "when, as an `EXPRESSION`: minute, hour, day, month and weekday, or @hourly, @daily, @weekly, @monthly")
	f.StringVar(&spec.Zone, "zone", "", "the time `ZONE` of the expression (default UTC)")
	f.StringVar(&spec.Workflow, "tool", "", "the `TOOL` to start")
	f.StringVar(&input, "input", "{}", "its arguments, as `JSON`")
	f.StringVar(&overlap, "overlap", "skip", "the `POLICY` while the run before goes on: skip, allow or cancel")
	f.StringVar(&missed, "missed", "once", "the `POLICY` for times that were missed: once, all or none")
	f.StringVar(&spec.Queue, "queue", "", "the `QUEUE` of the runs")
	f.IntVar(&spec.Priority, "priority", 0, "the `PRIORITY` of the runs, a whole number")
	f.StringToStringVar(&spec.Tags, "tag", nil, "tags of the runs, as `NAME=VALUE`")
	f.DurationVar(&spec.Deadline, "deadline", 0, "how much `TIME` each run may take, such as 2h")
	return c
}

func missingOf(spec *schedule.Spec) string {
	if spec.Workflow == "" {
		return "--tool"
	}
	return "--cron"
}

func (a *app) scheduleListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the schedules",
		Long:    "List lists the schedules that are not deleted, newest first.",
		Example: `  perdure schedule list`,
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			all, err := client.Schedules(c.Context())
			if err != nil {
				return err
			}
			return a.print(all, func(w io.Writer) {
				if len(all) == 0 {
					fmt.Fprintln(w, "no schedules")
					return
				}
				t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
				fmt.Fprintln(t, "SCHEDULE\tTOOL\tWHEN\tSAYS")
				for i := range all {
					s := &all[i]
					fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", present.Clip(s.Name, 32), present.Clip(s.Spec.Workflow, 32), present.Clip(when(s), 40), present.Clip(scheduleSays(s), 160))
				}
				_ = t.Flush() // a broken pipe shows at the next write of the command
			})
		},
	}
}

func (a *app) scheduleShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Show a schedule",
		Long:    "Show prints a schedule and its next time, and why the last start failed, where it did. What it did is the history of its run: perdure show.",
		Example: `  perdure schedule show nightly`,
		Args:    exactly("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			s, err := client.Schedule(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { writeSchedule(w, &s) })
		},
	}
}

func (a *app) scheduleVerbCommand(verb, short, long string) *cobra.Command {
	return &cobra.Command{
		Use:     verb + " NAME",
		Short:   short,
		Long:    short + ". " + long,
		Example: "  perdure schedule " + verb + " nightly",
		Args:    exactly("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			s, err := client.ChangeSchedule(c.Context(), args[0], verb)
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) {
				if s.Status.Terminal() {
					fmt.Fprintf(w, "schedule %s is deleted\n", s.Name)
					return
				}
				fmt.Fprintf(w, "schedule %s: %s is on its way\n", s.Name, verb)
			})
		},
	}
}

// scheduleSays is how a schedule stands: when its next time is, or how it ended. One that was made just now has not said so yet.
func scheduleSays(s *admin.Schedule) string {
	switch {
	case s.Failure != nil && s.Status.Terminal():
		return s.Status.String() + ": " + s.Failure.Error()
	case s.Status.Terminal():
		return s.Status.String()
	case s.Message == "" && (s.Status == history.StatusReady || s.Status == history.StatusRunning):
		return nextTime(&s.Spec, time.Now())
	}
	return s.Message
}

func nextTime(spec *schedule.Spec, now time.Time) string {
	cron, err := timer.ParseCron(spec.Cron, spec.Zone)
	if err != nil {
		return "" // made by a later version
	}
	next, ok := cron.Next(now)
	if !ok {
		return ""
	}
	return "next at " + next.UTC().Format(time.RFC3339)
}

func when(s *admin.Schedule) string {
	zone := s.Spec.Zone
	if zone == "" {
		zone = "UTC"
	}
	return s.Spec.Cron + " " + zone
}

func writeSchedule(w io.Writer, s *admin.Schedule) {
	fmt.Fprintf(w, "schedule %s\n", s.Name)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  tool\t%s\n  when\t%s\n  says\t%s\n", present.Clip(s.Spec.Workflow, 64), when(s), present.Clip(scheduleSays(s), 400))
	fmt.Fprintf(t, "  input\t%s\n  overlap\t%s\n  missed\t%s\n", present.Short(s.Spec.Input, 100), s.Spec.Overlap, s.Spec.Missed)
	fmt.Fprintf(t, "  created\t%s\n  run\t%s\n", present.Ago(s.Created, time.Now()), s.Run)
	_ = t.Flush() // a broken pipe shows at the next write of the command
}
