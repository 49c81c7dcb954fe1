package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
)

// Launcher finds the server of a state folder, or starts a detached one.
//
// Several launchers may race: each starts a server, the store's lock decides which of them stays, and all launchers end
// up with that one. The others' servers end with exit.Conflict.
type Launcher struct {
	Dir    state.Dir
	Client *admin.Client
	// Command starts a server in the foreground of a process of its own.
	Command []string
	Log     *slog.Logger
	// Patience bounds the whole. Default 90 s: a server that is draining keeps the lock for up to its drain limit.
	Patience time.Duration
}

const (
	defaultPatience = 90 * time.Second
	// again is the pause between two looks at the socket.
	again = 50 * time.Millisecond
	// retryStart is the pause after a server ended because another had the lock.
	retryStart = 500 * time.Millisecond
	// maxLog is the size at which the log of detached servers is set aside.
	maxLog = 8 << 20
)

// Connect returns an MCP connection to the server.
func (l *Launcher) Connect(ctx context.Context) (net.Conn, error) {
	patience := l.Patience
	if patience <= 0 {
		patience = defaultPatience
	}
	giveUp := time.Now().Add(patience)
	var child *child
	var startAt time.Time
	for {
		conn, err := l.Client.Connect(ctx)
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
		if time.Now().After(giveUp) {
			return nil, exit.New(exit.Unreachable, "the server's own words are in "+l.Dir.Log(), "no server answers for %s after %s: %w", l.Dir.Path, patience, err)
		}
		switch {
		case child == nil && !admin.IsDial(err): // a server that is draining: it will be gone
		case child == nil && time.Now().After(startAt):
			if child, err = l.start(); err != nil {
				return nil, err
			}
		case child != nil && child.ended():
			if child.code() != int(exit.Conflict) {
				return nil, child.failure()
			}
			child, startAt = nil, time.Now().Add(retryStart)
		}
		pause := time.NewTimer(again)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, ctx.Err()
		}
	}
}

// child is a server that was started here. It outlives this process.
type child struct {
	cmd  *exec.Cmd
	log  string
	from int64 // where its words in the log begin
	done chan struct{}
}

func (l *Launcher) start() (*child, error) {
	if err := l.Dir.Make(); err != nil {
		return nil, err
	}
	log, from, err := openLog(l.Dir.Log())
	if err != nil {
		return nil, fmt.Errorf("log of the server: %w", err)
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(l.Command[0], l.Command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = l.Dir.Path // keeps no other folder busy
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	l.Log.Info("started a server", "pid", cmd.Process.Pid, "log", l.Dir.Log())
	c := &child{cmd: cmd, log: l.Dir.Log(), from: from, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		_ = cmd.Wait() // its outcome is in ProcessState
	}()
	return c, nil
}

func openLog(path string) (*os.File, int64, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, 0, err
		}
	}
	f, err := os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *child) code() int { return c.cmd.ProcessState.ExitCode() }

// failure is the error of a server that did not stay: its own last words.
func (c *child) failure() error {
	return exit.New(exit.Failed, "all of its log is in "+c.log, "the server did not start (%s):\n%s", c.cmd.ProcessState, c.words())
}

func (c *child) words() string {
	f, err := os.Open(c.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if _, err := f.Seek(c.from, io.SeekStart); err != nil {
		return err.Error()
	}
	b, err := io.ReadAll(io.LimitReader(f, 16<<10))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b))
}
