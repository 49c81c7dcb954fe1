package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/mcptasks"
)

// Options of the demo.
type Options struct {
	// Folder is what the tool looks at; empty means the repository around the working folder, or that folder itself.
	Folder string
	// Self is the binary.
	Self string
	// Keep leaves the demo's files where they are.
	Keep bool
	// Say gets the story, line by line.
	Say io.Writer
}

// timeLimit bounds the whole demo.
const timeLimit = 100 * time.Second

// director runs the demo.
type director struct {
	opts   Options
	place  string // the demo's own folder
	config string
	dir    state.Dir
	admin  *admin.Client
	server *process

	telling sync.Mutex // held while a line of the story is written
	acts    int        // guarded by telling
}

// Run runs the demo. Its error says what went wrong; a Report with Lost set says that the promise was not kept.
func Run(ctx context.Context, o Options) (report Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	d := &director{opts: o}
	if err := d.prepare(); err != nil {
		return report, err
	}
	defer func() {
		if d.server != nil {
			d.server.kill()
		}
		if err != nil || report.failed() || o.Keep {
			d.say("the demo's files, with the server's log, are in %s", d.place)
			return
		}
		err = os.RemoveAll(d.place)
	}()
	return d.play(ctx)
}

func (d *director) prepare() error {
	folder, err := chooseFolder(d.opts.Folder)
	if err != nil {
		return err
	}
	d.opts.Folder = folder
	if d.place, err = os.MkdirTemp("", "perdure-demo-"); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if err := os.Mkdir(reports(d.place), 0o700); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	text, err := tool(d.opts.Self, d.place)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	d.config = filepath.Join(d.place, "perdure.yaml")
	if err := os.WriteFile(d.config, text, 0o600); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if d.dir, err = state.At(filepath.Join(d.place, "state")); err != nil {
		return err
	}
	d.admin = admin.NewClient(d.dir)
	return d.dir.Make()
}

// chooseFolder returns the absolute folder to look at.
func chooseFolder(given string) (string, error) {
	folder := given
	if folder == "" {
		folder = "."
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", fmt.Errorf("demo: %w", err)
	}
	info, err := os.Stat(folder)
	switch {
	case err != nil:
		return "", fmt.Errorf("demo: %w", err)
	case !info.IsDir():
		return "", exit.New(exit.Usage, "name a folder", "demo: %s is not a folder", given)
	case given != "":
		return folder, nil
	}
	for at := folder; ; at = filepath.Dir(at) {
		for _, mark := range []string{"go.mod", ".git"} {
			if _, err := os.Stat(filepath.Join(at, mark)); err == nil {
				return at, nil
			}
		}
		if at == filepath.Dir(at) {
			return folder, nil
		}
	}
}

func (d *director) say(format string, a ...any) { fmt.Fprintf(d.opts.Say, format+"\n", a...) }

// act tells the next act of the story.
func (d *director) act(format string, a ...any) {
	d.telling.Lock()
	defer d.telling.Unlock()
	d.acts++
	d.say("%2d  "+format, append([]any{d.acts}, a...)...)
}

func (d *director) start(ctx context.Context) (pid int, err error) {
	if d.server, err = startServer(ctx, d.opts.Self, d.config, d.dir, d.admin); err != nil {
		return 0, err
	}
	return d.server.pid(), nil
}

// play is the demo, act by act.
func (d *director) play(ctx context.Context) (Report, error) {
	d.say("perdure demo: a tool looks at %s; its server is killed twice with SIGKILL on the way\n", present.Clip(d.opts.Folder, 0))
	pids := make([]int, 3)
	var err error
	if pids[0], err = d.start(ctx); err != nil {
		return Report{}, err
	}
	d.act("server started: process %d", pids[0])
	client, err := d.client()
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = client.Close() }() // nothing is asked of it any more
	out, err := client.Call(ctx, mcptasks.CallRequest{
		Tool: "report", Arguments: map[string]string{"folder": d.opts.Folder}, IdempotencyKey: "demo",
	})
	if err != nil {
		return Report{}, err
	}
	if out.Task == nil {
		return Report{}, errors.New("the call gave a result at once, and no task")
	}
	task := out.Task.TaskID
	d.act("called the tool report as an MCP client: it became task %s", task)
	ended := d.follow(ctx, client, out.Task)

	done, err := d.untilBetweenSteps(ctx, task)
	if err != nil {
		return Report{}, err
	}
	d.act("%d steps have run and are recorded; the run sleeps before its next step", done)
	if pids[1], err = d.killAndRestart(ctx, "between two steps"); err != nil {
		return Report{}, err
	}
	d.act("process %d replays those %d results, and goes on", pids[1], done)
	if err := d.untilInside(ctx, ended); err != nil {
		return Report{}, err
	}
	d.act("the step write has written the report; its result is not recorded yet")
	if pids[2], err = d.killAndRestart(ctx, "inside the step write"); err != nil {
		return Report{}, err
	}
	end := <-ended
	if end.err != nil {
		return Report{}, fmt.Errorf("the task: %w", end.err)
	}
	d.act("process %d ran that one attempt again, under the same idempotency key: it found the report written", pids[2])
	d.act("the task is %s: %s", end.status, present.Short(end.result, 0))
	return d.judge(ctx, task, pids, end)
}

// client is an MCP client with Tasks that answers the tool's question as a person would.
func (d *director) client() (*mcptasks.Client, error) {
	dial := func(context.Context) (mcp.Transport, error) {
		return &mcp.StreamableClientTransport{Endpoint: admin.MCP, HTTPClient: d.admin.HTTP()}, nil
	}
	return mcptasks.NewClient(dial, mcptasks.ClientOptions{
		Elicit: func(_ context.Context, q *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			message, _, _ := strings.Cut(q.Message, "\n")
			d.act("the tool asks: %s\n    and is answered: approve", present.Clip(message, 110))
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": "approve"}}, nil
		},
	})
}

// ending is how the task ended, as the client saw it.
type ending struct {
	status mcptasks.TaskStatus
	result []byte
	err    error
}

// follow waits for the task, through the kills.
func (d *director) follow(ctx context.Context, client *mcptasks.Client, task *mcptasks.Task) <-chan ending {
	ended := make(chan ending, 1)
	go func() {
		var e ending
		_, e.err = client.Wait(ctx, task, mcptasks.WaitOptions{OnChange: func(t *mcptasks.DetailedTask) {
			e.status, e.result = t.Status, structured(t.Result)
		}})
		ended <- e
	}()
	return ended
}

// untilBetweenSteps waits until the run sleeps, and returns how many steps are recorded.
func (d *director) untilBetweenSteps(ctx context.Context, task string) (steps int, err error) {
	for run, err := range d.admin.Follow(ctx, task) {
		if err != nil {
			return 0, err
		}
		if run.Status.Terminal() {
			return 0, fmt.Errorf("the run is %s before its first kill", run.Status)
		}
		detail, err := d.admin.Run(ctx, task)
		if err != nil {
			return 0, err
		}
		if n := len(detail.Timeline); n > 0 && detail.Timeline[n-1].Kind == admin.Kind(history.TimerSet) {
			return len(recorded(detail.Timeline)), nil
		}
	}
	return 0, errors.New("the run never slept")
}

// untilInside waits until the step write has had its effect.
func (d *director) untilInside(ctx context.Context, ended <-chan ending) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := os.Stat(insideFile(d.place))
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-tick.C:
		case end := <-ended:
			return fmt.Errorf("the task ended before its second kill: %q, %v", end.status, end.err)
		case <-d.server.done:
			return errors.New("the server ended by itself")
		case <-ctx.Done():
			return fmt.Errorf("the step write did not begin: %w", ctx.Err())
		}
	}
}

func (d *director) killAndRestart(ctx context.Context, where string) (pid int, err error) {
	old := d.server.pid()
	d.server.kill()
	d.act("kill -9 %d, %s", old, where)
	if pid, err = d.start(ctx); err != nil {
		return 0, err
	}
	d.act("server started again: process %d", pid)
	return pid, nil
}

// judge ends the server and holds the history against the witness.
func (d *director) judge(ctx context.Context, task string, pids []int, end ending) (Report, error) {
	detail, err := d.admin.Run(ctx, task)
	if err != nil {
		return Report{}, err
	}
	if _, err := d.admin.Stop(ctx); err != nil {
		return Report{}, err
	}
	select {
	case <-d.server.done:
	case <-ctx.Done():
		return Report{}, fmt.Errorf("the server does not end: %w", ctx.Err())
	}
	seen, err := testimony(d.place)
	if err != nil {
		return Report{}, err
	}
	files, err := os.ReadDir(reports(d.place))
	if err != nil {
		return Report{}, fmt.Errorf("reports: %w", err)
	}
	store, err := boltstore.Open(d.dir.Database(), &boltstore.Options{ReadOnly: true})
	if err != nil {
		return Report{}, err
	}
	found, err := admin.Verify(ctx, store.Verify)
	if err = errors.Join(err, store.Close()); err != nil {
		return Report{}, err
	}
	return newReport(d.opts.Folder, detail, pids, seen, len(files), found, end), nil
}
