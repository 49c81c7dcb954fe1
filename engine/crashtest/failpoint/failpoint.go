// Package failpoint ends a process in the middle of what it does. No code of the module imports it: the crash tests build
// their child with calls of it put in by an overlay, so that what ships has no seam, no state and no cost.
//
// A point is named PATH/MOMENT. PATH is what is being written ("start", "answer", "compact"): the group of a commit may hold
// several paths. MOMENT is how far the writing is ("staged", "written", "told").
//
// The variable PERDURE_FAILPOINT arms one point: PATH/MOMENT:N ends the process at the N-th time that it is reached, by SIGKILL.
package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Env is the variable that arms a point.
const Env = "PERDURE_FAILPOINT"

// Points are the points of one process. They are safe for concurrent use.
type Points struct {
	armed string // PATH/MOMENT; "" for none
	die   func(point string)

	mu    sync.Mutex
	left  int      // how often the armed point is still passed. guarded by mu
	paths []string // what is being written. guarded by mu
}

// process has the points of this process: what is put into the code by an overlay has nothing to reach them by.
var process = sync.OnceValue(func() *Points {
	p, err := New(os.Getenv(Env), kill)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return p
})

// New returns points of which spec, PATH/MOMENT:N, is armed ("" is none); die is called there.
func New(spec string, die func(point string)) (*Points, error) {
	p := &Points{die: die}
	if spec == "" {
		return p, nil
	}
	point, nth, ok := strings.Cut(spec, ":")
	n, err := strconv.Atoi(nth)
	if !ok || err != nil || n < 1 || !strings.Contains(point, "/") {
		return nil, fmt.Errorf("%s is %q, want PATH/MOMENT:N", Env, spec)
	}
	p.armed, p.left = point, n
	return p, nil
}

// kill says where the process ends, and ends it. It does not return: nothing after the point may happen.
func kill(point string) {
	_, _ = fmt.Printf("failpoint %s\n", point) // who reads it sees the process end in any case
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// Enter says that the path is being written from now on, beside those entered before.
func (p *Points) Enter(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.paths, path) {
		p.paths = append(p.paths, path)
	}
}

// Leave says that nothing is being written.
func (p *Points) Leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paths = nil
}

// Moment passes the moment of each path that is being written.
func (p *Points) Moment(moment string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, path := range p.paths {
		p.pass(path + "/" + moment)
	}
}

// Hit passes one point.
func (p *Points) Hit(point string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pass(point)
}

// pass is called with mu held, which kill keeps: no other point is passed after it.
func (p *Points) pass(point string) {
	if point != p.armed || p.left == 0 {
		return
	}
	if p.left--; p.left == 0 {
		p.die(point)
	}
}

// Op wraps the staging of one write: its path is entered when it is staged.
func Op[T any](path string, stage func(T) error) func(T) error {
	return func(v T) error {
		Enter(path)
		return stage(v)
	}
}

// Enter is [Points.Enter] for this process, and so on.
func Enter(path string)    { process().Enter(path) }
func Leave()               { process().Leave() }
func Moment(moment string) { process().Moment(moment) }
func Hit(point string)     { process().Hit(point) }
