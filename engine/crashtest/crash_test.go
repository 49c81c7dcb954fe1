// Package crashtest kills a process that runs workflows, again and again, at every moment of every kind of write and at random,
// and looks for what got lost.
//
// The parent, which is the test, builds a child with failpoints in it (points_test.go) and starts it on a store. The child runs
// workflows of several kinds (workflows_test.go) and their clients (script_test.go), says on a pipe all that was acknowledged
// and every execution of a step, and is killed. After each kill the parent holds the file against the checker and against
// what it was told (judge_test.go). When a store has seen enough lives, a last one ends in peace.
//
//	PERDURE_CRASH_KILLS=5000 go test -run Crash -timeout 0 ./engine/crashtest     more kills
//	PERDURE_CRASH_SEED=7 go test -run Crash ./engine/crashtest                    the same points in the same order
package crashtest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/perdure/perdure/engine/crashtest/failpoint"
	"github.com/perdure/perdure/history"
)

func TestMain(m *testing.M) {
	if env := os.Getenv(envLife); env != "" {
		if err := runChild(env); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// number reads a variable that makes the test longer or repeats it.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

const (
	// stores is how many stores the kills are spread over: each is judged whole after each kill, so they stay small.
	stores = 16
	// parallel is how many of them are worked on at once.
	parallel = 2
	// sealed is which share of them has its payloads compressed and encrypted, under a new key every few lives.
	sealed = 4
	// tries bounds how often a point is armed that a life did not reach.
	tries = 6
	// patience is how long the first life with an armed point may take to reach it; each further try has as much more, for
	// machines that are slow.
	patience = 2 * time.Second
)

// TestCrashMatrix kills the owner of a store at each moment of each kind of write, at random, and in what is not one write.
func TestCrashMatrix(t *testing.T) {
	kills, seed := number(t, "PERDURE_CRASH_KILLS", 320), number(t, "PERDURE_CRASH_SEED", 1)
	t.Logf("%d kills, seed %d", kills, seed)
	child := buildChild(t)
	work, upkeep := points()
	tally := &tally{died: map[string]int{}}
	t.Run("upkeep", func(t *testing.T) {
		crashInUpkeep(t, child, tally)
		tally.end()
	})
	t.Run("stores", func(t *testing.T) {
		slots := make(chan struct{}, parallel)
		for n := range stores {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				// Seeds of stores are apart, so that one store repeats without the others.
				p := &parent{
					t: t, child: child, place: place{Dir: t.TempDir()}, tally: tally, log: newWitnessLog(), seen: map[history.RunID]settled{},
					random: rand.New(rand.NewPCG(uint64(seed), uint64(n))), sealed: n%sealed == 0,
				}
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("repeat it: PERDURE_CRASH_SEED=%d PERDURE_CRASH_KILLS=%d go test -run 'TestCrashMatrix/stores/%d$' ./engine/crashtest", seed, kills, n)
					}
				})
				p.lives(share(work, n), (kills+stores-1-n)/stores)
				tally.end()
			})
		}
	})
	if !t.Failed() && tally.ended == stores+1 { // else -run chose some of them
		tally.table(t, append(work, upkeep...))
	}
}

// share returns the points that store n is killed at.
func share(all []string, n int) (mine []string) {
	for i := n; i < len(all); i += stores {
		mine = append(mine, all[i])
	}
	return mine
}

// tally counts the kills by point.
type tally struct {
	mu     sync.Mutex
	died   map[string]int // guarded by mu
	random int            // guarded by mu
	// ended counts the parts of the test that came to their end. guarded by mu
	ended int
}

func (t *tally) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended++
}

func (t *tally) add(point string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if point == "" {
		t.random++
	} else {
		t.died[point]++
	}
}

// table prints the matrix, paths down and moments across, and fails where a point was never died at.
func (t *tally) table(test *testing.T, points []string) {
	test.Helper()
	var b bytes.Buffer
	total, last := t.random, ""
	for _, p := range points {
		path, moment, _ := strings.Cut(p, "/")
		if path != last {
			fmt.Fprintf(&b, "\n%-15s", path)
			last = path
		}
		fmt.Fprintf(&b, "  %s %d", moment, t.died[p])
		total += t.died[p]
		if t.died[p] == 0 {
			test.Errorf("no life ended at %s", p)
		}
	}
	test.Logf("%d kills, %d of them at random moments, the others at:%s", total, t.random, b.String())
}

// parent starts children on one store and judges what they leave.
type parent struct {
	t      *testing.T
	child  string
	place  place
	random *rand.Rand
	tally  *tally
	log    *witnessLog
	// seen is how runs were that had ended when they were last judged.
	seen map[history.RunID]settled
	life int
	// sealed says that payloads are encrypted.
	sealed bool
}

// lives kills as many children as there are to be kills, each point once at least, and lets a last one end.
func (p *parent) lives(points []string, kills int) {
	tried := map[string]int{}
	queue := slices.Clone(points)
	p.random.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
	for n := 0; (n < kills || len(queue) > 0) && !p.t.Failed(); n++ {
		point := ""
		if len(queue) > 0 {
			point, queue = queue[0], queue[1:]
		} else if n%2 == 0 {
			point = points[p.random.IntN(len(points))]
		}
		if point == "" {
			p.live("", time.Duration(p.random.IntN(150_000))*time.Microsecond)
			continue
		}
		if strings.HasPrefix(point, "replay/") { // an idle life has brought its file up to its log before it is killed
			p.live("", time.Duration(p.random.IntN(150_000))*time.Microsecond)
		}
		if tried[point]++; !p.live(p.arm(point, tried[point]), time.Duration(tried[point])*patience) && tried[point] < tries {
			queue = append(queue, point)
		}
	}
	if p.t.Failed() {
		return
	}
	p.last()
}

// arm says at which time the point ends the life: a later one where it is passed often, and the first after a vain try.
func (p *parent) arm(point string, try int) string {
	nth := 1
	path, moment, _ := strings.Cut(point, "/")
	if try == 1 {
		switch {
		case path == "commit" || path == "start" || path == "deliver":
			nth += p.random.IntN(10)
		case moment == "page":
			nth += p.random.IntN(6)
		}
	}
	return point + ":" + strconv.Itoa(nth)
}

// command is a child, which is not yet started.
func (p *parent) command(l life, armed string) *exec.Cmd {
	p.t.Helper()
	if l.place == (place{}) {
		l.place = p.place
	}
	l.Acked = p.log.ackedCalls()
	env, err := json.Marshal(l)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(p.child)
	cmd.Env = append(os.Environ(), envLife+"="+string(env), failpoint.Env+"="+armed)
	return cmd
}

// live runs one child until it dies, at the armed point or, where none is or it is not reached, at a moment after it has
// opened the store. It reports whether it was the point.
func (p *parent) live(armed string, moment time.Duration) (atPoint bool) {
	p.t.Helper()
	if p.sealed {
		p.place.Keys = 1 + p.life/8
	}
	p.life++
	cmd := p.command(life{Number: p.life - 1, Process: p.life - 1, Seed: p.random.Uint64()}, armed)
	point, err := p.hear(cmd, moment)
	if cmd.ProcessState.Exited() {
		p.t.Fatalf("life %d (%s) ended by itself: %v", p.life-1, cmp.Or(armed, "random"), err)
	}
	p.tally.add(point)
	p.judge(false)
	return point != ""
}

// last lets a child end in peace.
func (p *parent) last() {
	p.t.Helper()
	cmd := p.command(life{Number: p.life, Process: p.life, Last: true}, "")
	if _, err := p.hear(cmd, 2*time.Minute); err != nil {
		p.t.Fatalf("the last life: %v", err)
	}
	if !p.log.ended {
		p.t.Fatal("the last life ended without saying so")
	}
	p.judge(true)
}

// hear starts the child, takes down all that it says, and kills it when the time after its opening of the store is over.
func (p *parent) hear(cmd *exec.Cmd, limit time.Duration) (point string, err error) {
	p.t.Helper()
	const opening = time.Minute // within which it must have opened the store, and not hang
	c := p.begin(cmd)
	timer := time.NewTimer(opening)
	defer timer.Stop()
	select {
	case <-c.opened:
		timer.Reset(limit)
	case <-c.ended:
	case <-timer.C:
		timer.Reset(0)
	}
	select {
	case <-timer.C:
		_ = cmd.Process.Kill() // it may have ended by itself
	case <-c.ended:
	}
	<-c.ended
	return c.point, c.err
}

// process is a child that was started.
type process struct {
	cmd *exec.Cmd
	// opened is closed when it says that it has opened the store, ended when it has ended and all that it said is taken down.
	opened, ended chan struct{}
	// point is where it died, err what became of it. They are there when it has ended.
	point string
	err   error
}

// begin starts the child, and takes down all that it says.
func (p *parent) begin(cmd *exec.Cmd) *process {
	p.t.Helper()
	c := &process{cmd: cmd, opened: make(chan struct{}), ended: make(chan struct{})}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		p.listen(c, out)
		c.err = cmd.Wait()
		for line := range strings.Lines(said.String()) {
			p.t.Logf("process %d: %s", cmd.Process.Pid, strings.TrimSpace(line))
		}
	}()
	return c
}

// listen takes down what a child says, until it is silent.
func (p *parent) listen(c *process, out io.Reader) {
	opened := false
	for s := bufio.NewScanner(out); s.Scan(); {
		line := s.Text()
		if name, ok := strings.CutPrefix(line, "failpoint "); ok {
			c.point = name
			continue
		}
		if err := p.log.take(line); err != nil {
			p.t.Errorf("the child says %q: %v", line, err)
		}
		if !opened && strings.HasPrefix(line, "open ") {
			opened = true
			close(c.opened)
		}
	}
}
