package runstep

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

// Guard kills the process groups of steps when the server dies without having been able to: by SIGKILL, by the
// kernel for want of memory, by a panic. On Linux the kernel kills a step's program itself then (see Run), but not
// what the program has started; elsewhere it kills nothing.
//
// A guard is a second process, started once a server, that reads lines from a pipe of which the server alone holds
// the other end:
//
//	+PGID   a group is at work
//	-PGID   it has ended
//
// At the pipe's end, however it came about, the guard kills the groups that are left and exits. The number of a group
// is taken back before its leader is reaped, so that it cannot name another group meanwhile.
//
// A nil Guard guards nothing. A Guard may be used by several goroutines.
type Guard struct {
	argv []string

	mu     sync.Mutex
	pipe   io.WriteCloser // guarded by mu; nil after Close
	cmd    *exec.Cmd      // guarded by mu
	groups map[int]bool   // guarded by mu
}

// StartGuard starts the guard's process: a command that calls ServeGuard on its standard input.
func StartGuard(argv ...string) (*Guard, error) {
	g := &Guard{argv: argv, groups: map[int]bool{}}
	if err := g.start(); err != nil {
		return nil, fmt.Errorf("guard of steps: %w", err)
	}
	return g, nil
}

// start starts the process and tells it what is at work. The caller holds mu, or is alone.
func (g *Guard) start() error {
	cmd := exec.Command(g.argv[0], g.argv[1:]...)
	cmd.SysProcAttr = guardAttributes()
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	g.pipe, g.cmd = pipe, cmd
	for group := range g.groups {
		if err := g.tell('+', group); err != nil {
			return err
		}
	}
	return nil
}

func (g *Guard) tell(sign byte, group int) error {
	_, err := fmt.Fprintf(g.pipe, "%c%d\n", sign, group)
	return err
}

var errGuardClosed = errors.New("the guard is closed")

// add registers a group. A guard that has died is replaced.
func (g *Guard) add(group int) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe == nil {
		return errGuardClosed
	}
	g.groups[group] = true
	if g.tell('+', group) == nil {
		return nil
	}
	g.stop()
	return g.start()
}

// remove takes a group back. That the guard has died meanwhile is no error: then it cannot kill anything either.
func (g *Guard) remove(group int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groups, group)
	if g.pipe != nil {
		_ = g.tell('-', group)
	}
}

// stop ends the process and reaps it. The caller holds mu.
func (g *Guard) stop() {
	_ = g.pipe.Close()
	_ = g.cmd.Wait() // its exit code says nothing
}

// Close ends the guard, which kills what is still at work.
func (g *Guard) Close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe != nil {
		g.stop()
		g.pipe = nil
	}
}

// ServeGuard is the guard's process: it reads from its standard input until that ends and then kills what is left.
// It ignores the signals that a terminal or a service manager sends to all processes of a server.
func ServeGuard(input io.Reader) {
	ignoreSignals()
	groups := map[int]bool{}
	lines := bufio.NewScanner(input)
	for lines.Scan() {
		sign, number := lines.Text()[:min(1, len(lines.Text()))], strings.TrimLeft(lines.Text(), "+-")
		group, err := strconv.Atoi(number)
		if err != nil || group <= 1 {
			continue // 0 and 1 would mean our own group and everything
		}
		if sign == "+" {
			groups[group] = true
		} else {
			delete(groups, group)
		}
	}
	for group := range groups {
		killGroup(group)
	}
}
