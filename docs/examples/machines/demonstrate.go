package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/mcptasks"
)

// demonstrate is the client of the four processes, which it starts, and kills.
func demonstrate(ctx context.Context, dsn string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if _, err := pgstore.Migrate(ctx, dsn); err != nil {
		return err
	}
	said := make(chan string, 100) // what the workers say
	workers := map[string]*process{}
	for _, name := range []string{"one", "two"} {
		w, err := start(ctx, "worker", name)
		if err != nil {
			return err
		}
		defer w.kill()
		go w.tell(ctx, said)
		workers[name] = w
	}
	var servers []*process
	var urls []string
	for range 2 {
		s, err := start(ctx, "serve", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer s.kill()
		url, err := s.line()
		if err != nil {
			return fmt.Errorf("a server: %w", err)
		}
		servers, urls = append(servers, s), append(urls, url)
	}
	task, err := call(ctx, urls[0])
	if err != nil {
		return err
	}
	fmt.Println("the first server has taken the call, as a task")
	killed, err := begun(ctx, said, parts[1])
	if err != nil {
		return err
	}
	workers[killed].kill()
	servers[0].kill()
	fmt.Printf("worker %s is killed in the middle of its second step, and the first server with it\n", killed)
	result, err := resume(ctx, urls[1], task)
	if err != nil {
		return err
	}
	fmt.Println("the second server has the result:", result)
	return nil
}

// process is this program in another role.
type process struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

func start(ctx context.Context, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self, args...)}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.cmd.Start()
}

// line returns the next line that the process prints.
func (p *process) line() (string, error) {
	text, err := p.out.ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = errors.New("it has ended")
	}
	return strings.TrimSpace(text), err
}

// tell hands on what the process prints.
func (p *process) tell(ctx context.Context, to chan<- string) {
	for {
		text, err := p.line()
		if err != nil {
			return
		}
		select {
		case to <- text:
		case <-ctx.Done():
			return
		}
	}
}

// kill ends the process with SIGKILL; the second time it does nothing.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// begun waits until a worker begins a part, and returns its name.
func begun(ctx context.Context, said <-chan string, part string) (name string, err error) {
	for {
		select {
		case text := <-said:
			fmt.Println(text)
			who, what, _ := strings.Cut(strings.TrimPrefix(text, "worker "), ": ")
			if strings.HasPrefix(what, part+" ") {
				return who, nil
			}
		case <-ctx.Done():
			return "", fmt.Errorf("no worker began to %s: %w", part, ctx.Err())
		}
	}
}

func client(url string) (*mcptasks.Client, error) {
	return mcptasks.NewClient(func(context.Context) (mcp.Transport, error) {
		return &mcp.StreamableClientTransport{Endpoint: url}, nil
	}, mcptasks.ClientOptions{MaxPoll: 200 * time.Millisecond})
}

// call calls the tool at a server, and returns the id of the task.
func call(ctx context.Context, url string) (task string, err error) {
	c, err := client(url)
	if err != nil {
		return "", err
	}
	defer c.Close()
	out, err := c.Call(ctx, mcptasks.CallRequest{Tool: "fulfil", Arguments: order{"17"}})
	if err != nil {
		return "", err
	}
	if out.Task == nil {
		return "", errors.New("the server has made no task of the call")
	}
	return out.Task.TaskID, nil
}

// resume waits for a task, at whatever server.
func resume(ctx context.Context, url, task string) (string, error) {
	c, err := client(url)
	if err != nil {
		return "", err
	}
	defer c.Close()
	result, err := c.Resume(ctx, task, mcptasks.WaitOptions{})
	if err != nil {
		return "", err
	}
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			return text.Text, nil
		}
	}
	return "", errors.New("the result has no text")
}
