package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/form"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
	"github.com/perdure/perdure/mcptasks"
	"github.com/perdure/perdure/workflow/schemafit"
)

// callFlags are the flags of call.
type callFlags struct {
	url, args, key, resume string
	detach, noInput        bool
	timeout                time.Duration
}

func (a *app) callCommand() *cobra.Command {
	var flags callFlags
	c := &cobra.Command{
		Use:   "call TOOL [NAME=VALUE …]",
		Short: "Call a tool as an MCP client does, and wait for its result",
		Long: `Call is an MCP client with Tasks. It calls a tool of the running server, or of any MCP server with --url, shows what the
task says, asks its questions in the terminal, and prints the result. While it waits the server may be killed and
started again: the call goes on. Ctrl-C leaves the task running.

Arguments are words NAME=VALUE, where the value gets the type that the tool declares, NAME:=JSON for anything else, or one
JSON object with --args. The server at --url gets the token in $PERDURE_TOKEN, where that is set. Where stdin is no terminal, or with --no-input, questions are left open for: perdure answer.

Exit codes: 1 the tool reported an error or the task failed or was cancelled, 3 no such tool or task, 5 the --key was used
before for another call. perdure --help has those of all commands.`,
		Example: `  perdure call folder_report path=.
  perdure call deploy --args '{"branch": "main", "hosts": ["a", "b"]}'
  perdure call report folder=. --detach
  perdure call --resume TASK_ID
  perdure call folder_report path=. --url http://127.0.0.1:7337/mcp --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && flags.resume == "" {
				return exit.New(exit.Usage, "list them with: perdure status", "call: missing TOOL")
			}
			if len(args) > 0 && flags.resume != "" {
				return exit.New(exit.Usage, "", "--resume takes no tool")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.call(c.Context(), args, flags) },
	}
	f := c.Flags()
	f.StringVar(&flags.url, "url", "", "call the MCP server at this `URL` instead")
	f.StringVar(&flags.args, "args", "", "all arguments as a `JSON` object")
	f.StringVar(&flags.key, "key", "", "the call's own `ID`: called twice with it, the tool runs once; perdure show finds the run by it")
	f.StringVar(&flags.resume, "resume", "", "wait for a `TASK` that is there already")
	f.BoolVar(&flags.detach, "detach", false, "print the task's id and do not wait")
	f.BoolVar(&flags.noInput, "no-input", false, "ask nothing here; leave questions to others")
	f.DurationVar(&flags.timeout, "timeout", 0, "wait no longer than this `TIME`; the task goes on")
	return c
}

// called is what call prints as JSON.
type called struct {
	Task   string              `json:"taskId,omitempty"`
	Status mcptasks.TaskStatus `json:"status,omitempty"`
	Result *mcp.CallToolResult `json:"result,omitempty"`
}

func (a *app) call(ctx context.Context, args []string, flags callFlags) error {
	client, err := a.mcpClient(ctx, flags)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // the task goes on
	if _, err := client.Session(ctx); err != nil {
		return exit.New(exit.Unreachable, "does an MCP server listen there, and does it want a token in $PERDURE_TOKEN?", "%w", err)
	}
	task := &mcptasks.Task{TaskID: flags.resume}
	if flags.resume == "" {
		if task, err = a.begin(ctx, client, args, flags); err != nil || task == nil {
			return err
		}
	}
	if flags.detach {
		return a.print(called{Task: task.TaskID, Status: task.Status}, func(w io.Writer) { fmt.Fprintln(w, task.TaskID) })
	}
	return a.wait(ctx, client, task, flags)
}

// mcpClient is a client of the running server, or of the one at --url.
func (a *app) mcpClient(ctx context.Context, flags callFlags) (*mcptasks.Client, error) {
	remote, err := remoteHTTP(flags.url)
	if err != nil {
		return nil, err
	}
	transport := func() mcp.Transport {
		return &mcp.StreamableClientTransport{Endpoint: flags.url, HTTPClient: remote}
	}
	if flags.url == "" {
		local, err := a.client()
		if err != nil {
			return nil, err
		}
		if _, err := local.Server(ctx); err != nil {
			return nil, err
		}
		transport = func() mcp.Transport {
			return &mcp.StreamableClientTransport{Endpoint: admin.MCP, HTTPClient: local.HTTP()}
		}
	}
	o := mcptasks.ClientOptions{
		Implementation: &mcp.Implementation{Name: "perdure-call", Version: version()},
		Unreachable:    5 * time.Minute,
		Logger:         slog.New(slog.DiscardHandler), // what fails comes back as an error
	}
	if !flags.noInput && form.IsTerminal(a.in) {
		d := form.NewDialog(a.in, a.err)
		o.Elicit = func(ctx context.Context, q *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			res, err := elicit(ctx, d, q)
			if err == nil && res.Action == form.Leave && flags.url == "" {
				// Dismissed it would be asked again. It is simply not answered, until it is no longer open.
				fmt.Fprintln(a.err, "left open; answer it with: perdure answer")
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return res, err
		}
	}
	return mcptasks.NewClient(func(context.Context) (mcp.Transport, error) { return transport(), nil }, o)
}

// elicit asks a question of the server's in the terminal.
func elicit(ctx context.Context, d *form.Dialog, q *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	schema, err := json.Marshal(q.RequestedSchema)
	if err != nil {
		return nil, fmt.Errorf("question: %w", err)
	}
	var answer form.Answer
	if slices.Contains(present.Order(schema), "decision") {
		answer, err = d.Approval(ctx, q.Message)
	} else {
		answer, err = d.Form(ctx, q.Message, schema)
	}
	if err != nil {
		return nil, err
	}
	res := &mcp.ElicitResult{Action: answer.Action, Content: answer.Content}
	if answer.Action == form.Decline && answer.Reason != "" {
		res.Content = map[string]any{"reason": answer.Reason}
	}
	return res, nil
}

// begin calls the tool. It returns no task where the result came at once, and was printed.
func (a *app) begin(ctx context.Context, client *mcptasks.Client, args []string, flags callFlags) (*mcptasks.Task, error) {
	tool, err := findTool(ctx, client, args[0])
	if err != nil {
		return nil, err
	}
	arguments, err := callArguments(tool, args[1:], flags.args)
	if err != nil {
		return nil, err
	}
	if err := checkArguments(tool, arguments); err != nil {
		return nil, err
	}
	key := flags.key
	if key == "" {
		key = "call-" + rand.Text() // so that a call whose answer is lost can be repeated
	}
	out, err := client.Call(ctx, mcptasks.CallRequest{Tool: tool.Name, Arguments: arguments, IdempotencyKey: key})
	if err != nil {
		return nil, callError(err)
	}
	if out.Task == nil {
		return nil, a.printResult("", out.Result)
	}
	return out.Task, nil
}

func findTool(ctx context.Context, client *mcptasks.Client, name string) (*mcp.Tool, error) {
	session, err := client.Session(ctx)
	if err != nil {
		return nil, exit.New(exit.Unreachable, "", "connect: %w", err)
	}
	var names []string
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, callError(err)
		}
		if tool.Name == name {
			return tool, nil
		}
		names = append(names, tool.Name)
	}
	return nil, exit.New(exit.NotFound, "there are: "+strings.Join(names, ", "), "no tool %q", name)
}

func callArguments(tool *mcp.Tool, words []string, whole string) (any, error) {
	if whole != "" {
		if len(words) > 0 {
			return nil, exit.New(exit.Usage, "", "--args has all arguments: %q is one too many", words[0])
		}
		var object map[string]any
		if err := json.Unmarshal([]byte(whole), &object); err != nil {
			return nil, exit.New(exit.Usage, "", "--args is not a JSON object: %w", err)
		}
		return json.RawMessage(whole), nil
	}
	schema, err := json.Marshal(tool.InputSchema)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", tool.Name, err)
	}
	return form.FromWords(schema, words)
}

// checkArguments holds the arguments against the tool's schema, as the server does: there they would be a tool's error
// and not one of the command line. A schema that cannot be read here is left to the server.
func checkArguments(tool *mcp.Tool, arguments any) error {
	shape, err := json.Marshal(tool.InputSchema)
	if err != nil {
		return fmt.Errorf("schema of %s: %w", tool.Name, err)
	}
	var schema jsonschema.Schema
	if json.Unmarshal(shape, &schema) != nil {
		return nil
	}
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		return fmt.Errorf("arguments of %s: %w", tool.Name, err)
	}
	object := map[string]any{}
	if err := json.Unmarshal(raw, &object); err != nil {
		return exit.New(exit.Usage, "", "the arguments are not a JSON object: %w", err)
	}
	if err := resolved.ApplyDefaults(&object); err != nil {
		return nil
	}
	if err := schemafit.Check(resolved, object); err != nil {
		hint := strings.Join(present.Fields(shape), "\n")
		return exit.New(exit.Usage, hint, "the arguments of %s do not fit: %w", tool.Name, err)
	}
	return nil
}

// callError gives a server's error its exit code.
func callError(err error) error {
	var wire *jsonrpc.Error
	switch {
	case errors.Is(err, mcptasks.ErrTaskNotFound):
		return exit.New(exit.NotFound, "a task is kept for a while after its end, and shown to its caller only", "the server knows no such task")
	case mcptasks.IsKeyConflict(err):
		return exit.New(exit.Conflict, "choose another --key, or repeat the call with the arguments that it had", "the key was used before, for a call of another tool or with other arguments")
	case errors.As(err, &wire) && wire.Code == jsonrpc.CodeInvalidParams:
		return exit.New(exit.Usage, "", "%s", wire.Message)
	case errors.As(err, &wire):
		return exit.New(exit.Failed, "", "%s", wire.Message)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return exit.New(exit.Unreachable, "", "%w", err)
}

// wait follows a task to its end.
func (a *app) wait(ctx context.Context, client *mcptasks.Client, task *mcptasks.Task, flags callFlags) error {
	fmt.Fprintf(a.err, "task %s\n", task.TaskID)
	p := &progress{app: a}
	if flags.url == "" {
		local, err := a.client()
		if err != nil {
			return err
		}
		asks := !flags.noInput && form.IsTerminal(a.in)
		watch, stop := context.WithCancel(ctx)
		var g errgroup.Group
		g.Go(func() error {
			p.watchQuestions(watch, local, task.TaskID, asks)
			return nil
		})
		defer func() {
			stop()
			_ = g.Wait() // it returns no error
		}()
	}
	res, err := client.Wait(ctx, task, mcptasks.WaitOptions{Timeout: flags.timeout, OnChange: p.show, LeaveQuestions: true})
	var failed *mcptasks.TaskFailedError
	switch {
	case err == nil:
		return a.printResult(task.TaskID, res)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		fmt.Fprintf(a.err, "the task goes on; wait for it again with: perdure call --resume %s\n", task.TaskID)
		if ctx.Err() == nil {
			return exit.New(exit.Failed, "", "the task has not ended within %s", flags.timeout)
		}
		return context.Canceled
	case errors.As(err, &failed):
		return exit.New(exit.Failed, "see: perdure show "+task.TaskID, "the task failed: %s", failed.Message)
	case errors.Is(err, mcptasks.ErrTaskCancelled):
		return exit.New(exit.Failed, "", "the task was cancelled")
	}
	return callError(err)
}

// progress shows what a task says while it is waited for.
type progress struct {
	app *app

	mu   sync.Mutex
	last string // guarded by mu
}

func (p *progress) show(t *mcptasks.DetailedTask) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := string(t.Status)
	if t.StatusMessage != "" {
		line += ": " + present.Clip(t.StatusMessage, 120)
	}
	if line == p.last || t.Status.Terminal() {
		return
	}
	p.last = line
	fmt.Fprintln(p.app.err, line)
}

// watchQuestions shows the run's questions that are left to others, each once, with the command that answers it, until ctx
// or the run ends. Those that the client does not see, as it said that it cannot answer them, change nothing of its task:
// so the run itself is looked at. asks says that the others are asked here. Where the server ends it waits for the next.
func (p *progress) watchQuestions(ctx context.Context, local *admin.Client, task string, asks bool) {
	shown := map[string]bool{}
	for {
		for run, err := range local.Follow(ctx, task) {
			if err != nil {
				break
			}
			if run.Questions > 0 {
				p.showQuestions(ctx, local, run.ID, asks, shown)
			}
			if run.Status.Terminal() {
				return
			}
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return
		}
	}
}

func (p *progress) showQuestions(ctx context.Context, local *admin.Client, id string, asks bool, shown map[string]bool) {
	d, err := local.Run(ctx, id)
	if err != nil {
		return // the next change asks again
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range d.Open {
		q := &d.Open[i]
		if shown[q.Key] || asks && !q.OperatorOnly {
			continue
		}
		shown[q.Key] = true
		present.Question(p.app.err, q, time.Now())
	}
}

// printResult prints a tool's result: its structured content, else its texts. A result that is an error fails the
// command.
func (a *app) printResult(task string, res *mcp.CallToolResult) error {
	status := mcptasks.TaskStatus("")
	if task != "" {
		status = mcptasks.Completed
	}
	err := a.print(called{Task: task, Status: status, Result: res}, func(w io.Writer) {
		if res.StructuredContent != nil && !res.IsError {
			if b, err := json.MarshalIndent(res.StructuredContent, "", "  "); err == nil {
				fmt.Fprintln(w, present.Safe(string(b)))
				return
			}
		}
		if res.IsError {
			w = a.err
		}
		for _, c := range res.Content {
			if text, ok := c.(*mcp.TextContent); ok {
				fmt.Fprintln(w, present.Safe(text.Text))
			} else if b, err := json.Marshal(c); err == nil {
				fmt.Fprintln(w, string(b))
			}
		}
	})
	if err == nil && res.IsError {
		err = &quietError{exit.Failed}
	}
	return err
}
