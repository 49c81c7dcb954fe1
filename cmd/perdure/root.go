package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
)

// app is what all commands share: the streams and the common flags.
type app struct {
	in       *os.File
	out, err io.Writer

	config, state       string
	json                bool
	logFormat, logLevel string
}

// run executes a command line and returns the exit code.
func run(args []string) int {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return int(exit.OK)
	}
	return a.fail(ctx, err)
}

// fail prints an error and returns its exit code.
func (a *app) fail(ctx context.Context, err error) int {
	var quiet *quietError
	if errors.As(err, &quiet) {
		return int(quiet.code)
	}
	code, hint := exit.Of(err)
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || code == exit.Unreachable) {
		return int(exit.Interrupted)
	}
	if a.json {
		b, merr := json.Marshal(admin.Problem{Error: exit.Text(err), Hint: hint, Code: int(code)})
		if merr == nil {
			fmt.Fprintln(a.err, string(b))
			return int(code)
		}
	}
	fmt.Fprintln(a.err, "perdure: "+exit.Text(err))
	for line := range strings.Lines(hint) {
		fmt.Fprintln(a.err, "  hint: "+strings.TrimRight(line, "\n"))
	}
	return int(code)
}

// quietError ends a command that has already said what there is to say.
type quietError struct{ code exit.Code }

func (e *quietError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

const rootLong = `Perdure runs tools for MCP clients so that their work survives crashes, restarts and long waits.

Tools are declared in a YAML file, each an ordered list of steps. Every call of a tool is a durable run:
each step's result is recorded before the next step begins, and after a crash the run goes on where it was.

  perdure demo                          see it survive two kill -9, in seconds
  perdure init                          write an example tool file, perdure.yaml
  perdure start                         start a server for its tools, in the background
  perdure call folder_report path=.     call one, as an MCP client does
  perdure show                          see what the run did

A server owns a state folder, by default one for each tool file under $XDG_STATE_HOME/perdure. The commands find it
by --state, else by the tool file: --config, $PERDURE_CONFIG, ./perdure.yaml, or perdure/perdure.yaml in your
configuration folder.

Exit codes:
    0  done
    1  it failed, or a check found something
    2  the command line, an argument or an answer is wrong
    3  no such run, question, tool or file
    4  no server runs for the state folder
    5  somebody else was first: the folder is in use, the question is answered, the file exists, the run is over, the key or id
       was used before for something else
  130  interrupted`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "perdure",
		Short:         "Durable tools for MCP clients",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
		Args:          cobra.ArbitraryArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			_, err := a.logger() // a misspelt --log-level is a mistake of any command
			return err
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.unknown(c, args[0])
			}
			return c.Help()
		},
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SuggestionsMinimumDistance = 2
	root.SetVersionTemplate("perdure {{.Version}}\n")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return exit.New(exit.Usage, "see: "+c.CommandPath()+" --help", "%w", flagError(err))
	})
	f := root.PersistentFlags()
	f.StringVar(&a.config, "config", "", "the tool `FILE` (default ./perdure.yaml)")
	f.StringVar(&a.state, "state", "", "the state `FOLDER` (default: one for each tool file)")
	f.BoolVar(&a.json, "json", false, "print JSON, errors too")
	f.StringVar(&a.logFormat, "log-format", "text", "the `FORMAT` of log lines on stderr: text or json")
	f.StringVar(&a.logLevel, "log-level", "info", "the least important `LEVEL` of log lines: debug, info, warn or error")
	root.AddGroup(
		&cobra.Group{ID: "start", Title: "Start here:"},
		&cobra.Group{ID: "use", Title: "Work with a running server:"},
		&cobra.Group{ID: "operate", Title: "Operate runs and schedules:"},
	)
	for _, c := range []*cobra.Command{a.demoCommand(), a.initCommand(), a.validateCommand(), a.serveCommand(), a.startCommand(), a.callCommand()} {
		c.GroupID = "start"
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{
		a.runsCommand(), a.showCommand(), a.questionsCommand(), a.answerCommand(), a.signalCommand(),
		a.cancelCommand(), a.terminateCommand(), a.verifyCommand(), a.statusCommand(), a.reloadCommand(), a.stopCommand(),
	} {
		c.GroupID = "use"
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{
		a.pauseCommand(), a.resumeCommand(), a.retryCommand(), a.forkCommand(), a.decideCommand(), a.redeliverCommand(), a.bulkCommand(),
		a.exportCommand(), a.replayCommand(), a.scheduleCommand(),
		a.statsCommand(), a.backupCommand(), a.restoreCommand(), a.compactCommand(), a.migrateCommand(), a.moveCommand(), a.promoteCommand(), a.retentionCommand(), a.tokenCommand(), a.keyCommand(), a.eraseCommand(),
	} {
		c.GroupID = "operate"
		root.AddCommand(c)
	}
	root.SetHelpCommand(a.helpCommand(root))
	root.AddCommand(a.versionCommand(), a.demoStepCommand(), a.stepGuardCommand())
	return root
}

// flagError says what a flag wants, where the library says what a parser of Go's found wrong.
func flagError(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	want := bad.Unwrap().Error()
	switch bad.GetFlag().Value.Type() {
	case "int", "uint64":
		want = "want a whole number"
	case "duration":
		want = "want a time such as 500ms, 30s, 5m or 2h"
	case "bool":
		want = "want true or false"
	}
	return fmt.Errorf("--%s %q: %s", bad.GetFlag().Name, bad.GetValue(), want)
}

// helpCommand is cobra's, but that a command which does not exist is an error.
func (a *app) helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Help about a command",
		Long:    "Help prints what a command does, its flags and examples, as COMMAND --help does.",
		Example: `  perdure help schedule create`,
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || c == nil || len(rest) > 0 {
				return a.unknown(root, strings.Join(args, " "))
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

// unknown is the error for a command that does not exist.
func (a *app) unknown(c *cobra.Command, name string) error {
	hint := "all commands: perdure --help"
	if near := c.SuggestionsFor(name); len(near) > 0 {
		hint = "did you mean: perdure " + strings.Join(near, ", perdure ") + "\n" + hint
	}
	return exit.New(exit.Usage, hint, "unknown command %q", name)
}

// exactly wants as many arguments as there are names; the last may be optional: [NAME].
func exactly(names ...string) cobra.PositionalArgs {
	least := 0
	for _, n := range names {
		if !strings.HasPrefix(n, "[") {
			least++
		}
	}
	return func(c *cobra.Command, args []string) error {
		hint := "see: " + c.CommandPath() + " --help"
		if len(args) < least {
			return exit.New(exit.Usage, hint, "%s: missing %s", c.Name(), names[len(args)])
		}
		if len(args) > len(names) {
			return exit.New(exit.Usage, hint, "%s: unexpected argument %q", c.Name(), args[len(names)])
		}
		if i := slices.Index(args, ""); i >= 0 { // a script's variable that was never set
			return exit.New(exit.Usage, hint, "%s: %s is empty", c.Name(), strings.Trim(names[i], "[]"))
		}
		return nil
	}
}

// logger writes to stderr, as the flags say.
func (a *app) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return nil, exit.New(exit.Usage, "", "--log-level %q: want debug, info, warn or error", a.logLevel)
	}
	o := &slog.HandlerOptions{Level: level}
	switch a.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(a.err, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.err, o)), nil
	}
	return nil, exit.New(exit.Usage, "", "--log-format %q: want text or json", a.logFormat)
}

// client speaks to the server that the flags mean.
func (a *app) client() (*admin.Client, error) {
	dir, err := state.Find(a.state, a.config)
	if err != nil {
		return nil, err
	}
	return admin.NewClient(dir), nil
}

// print prints a value as JSON where that is asked for, else what text writes.
func (a *app) print(v any, text func(w io.Writer)) error {
	if !a.json {
		text(a.out)
		return nil
	}
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Long:    "Version prints the version of this program, as perdure --version does.",
		Example: `  perdure version`,
		Args:    exactly(),
		RunE: func(*cobra.Command, []string) error {
			v := version()
			return a.print(map[string]string{"version": v}, func(w io.Writer) { fmt.Fprintln(w, "perdure", v) })
		},
	}
}

// version is what the Go toolchain recorded about this binary.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
