// Package crashtest kills a process that runs workflows, again and again, and looks for what got lost.
package crashtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(envDir); dir != "" {
		if err := runChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// number reads a variable that makes the test longer or repeats it: PERDURE_CRASH_RUNS, _KILLS and _SEED.
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

// TestProcessKilledAtRandomMomentsLosesNothing kills the owner of a store 20 times while it runs 200 workflows of 10 steps.
func TestProcessKilledAtRandomMomentsLosesNothing(t *testing.T) {
	runs, kills := number(t, "PERDURE_CRASH_RUNS", 200), number(t, "PERDURE_CRASH_KILLS", 20)
	seed := number(t, "PERDURE_CRASH_SEED", 1)
	t.Logf("%d runs, %d kills, seed %d", runs, kills, seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	p := &parent{t: t, dir: t.TempDir(), acked: make(map[int]bool)}
	for life := range kills {
		p.live(life, runs*(life+1)/kills, random)
	}
	p.finish(kills, runs)
	p.judge(runs)
}

// parent starts children and keeps what they acknowledged.
type parent struct {
	t   *testing.T
	dir string
	// acked has the acknowledged starts.
	acked map[int]bool
	// inStarts counts the children that were killed before they had started all their runs.
	inStarts int
}

func (p *parent) command(life, upTo int, until string) (*exec.Cmd, *bufio.Scanner) {
	p.t.Helper()
	var starts strings.Builder
	for n := range upTo {
		if !p.acked[n] {
			fmt.Fprintf(&starts, "%d ", n)
		}
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envDir+"="+p.dir, envLife+"="+strconv.Itoa(life), envStart+"="+starts.String(),
		envUpTo+"="+strconv.Itoa(upTo), envUntil+"="+until)
	cmd.Stderr = &childLog{t: p.t, life: life}
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// live runs one child and kills it: at a random moment after it has opened the store or, half of the times, shortly after
// a random number of acknowledgements.
func (p *parent) live(life, upTo int, random *rand.Rand) {
	p.t.Helper()
	cmd, out := p.command(life, upTo, "killed")
	moment := time.Duration(random.IntN(300_000)) * time.Microsecond
	afterAcks := 0
	if random.IntN(2) == 0 {
		afterAcks = random.IntN(max(upTo-len(p.acked), 1))
		moment /= 50
	}
	kill := func() {
		if err := cmd.Process.Kill(); err != nil {
			p.t.Errorf("kill: %v", err)
		}
	}
	var timer *time.Timer
	acks := 0
	for out.Scan() {
		if !p.heard(out.Text()) {
			acks++
		}
		if timer == nil && acks >= afterAcks {
			timer = time.AfterFunc(moment, kill)
			defer timer.Stop()
		}
	}
	if len(p.acked) < upTo {
		p.inStarts++
	}
	err := cmd.Wait()
	if state := cmd.ProcessState; state.Success() || state.Exited() {
		p.t.Fatalf("child %d ended by itself: %v", life, err)
	}
}

// heard takes a line of the child and reports whether it says that the store is open.
func (p *parent) heard(line string) (open bool) {
	p.t.Helper()
	if line == "open" {
		return true
	}
	var n int
	if _, err := fmt.Sscanf(line, "ack %d", &n); err != nil || p.acked[n] {
		p.t.Fatalf("the child says %q: %v", line, err)
	}
	p.acked[n] = true
	return false
}

// finish lets the last child end in peace.
func (p *parent) finish(life, runs int) {
	p.t.Helper()
	cmd, out := p.command(life, runs, "end")
	limit := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer limit.Stop()
	for out.Scan() {
		p.heard(out.Text())
	}
	if err := cmd.Wait(); err != nil {
		p.t.Fatalf("the last child: %v", err)
	}
}

// judge holds the store against what was acknowledged and what the steps did.
func (p *parent) judge(runs int) {
	t := p.t
	t.Helper()
	ctx := context.Background()
	store, err := boltstore.Open(storePath(p.dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Verify(ctx, func(v engine.Violation) { t.Errorf("checker: %+v", v) }); err != nil {
		t.Error(err)
	}
	executions := p.executions()
	total, again := 0, 0
	for n := range runs {
		run, err := store.RunByKey(ctx, "", runKey(n))
		if err != nil {
			t.Errorf("acknowledged run %d is missing: %v", n, err)
			continue
		}
		if run.Status != history.StatusCompleted {
			t.Errorf("run %d is %s: %v", n, run.Status, run.Failure)
		}
		recorded := p.recorded(store, run)
		if len(recorded) != stepsPerRun {
			t.Errorf("run %d has results of %d steps, want %d", n, len(recorded), stepsPerRun)
		}
		for pos, r := range recorded {
			lines := executions[stepKey{run.ID, pos}]
			p.compare(n, pos, r, lines)
			total += len(lines)
			again += max(0, len(lines)-1)
		}
	}
	if len(p.acked) != runs {
		t.Errorf("%d starts of %d were acknowledged", len(p.acked), runs)
	}
	t.Logf("%d executions of %d steps: %d were cut off and repeated; %d kills in the middle of starts", total, runs*stepsPerRun, again, p.inStarts)
	page, err := store.List(ctx, engine.Filter{Limit: 1000})
	if err != nil || len(page.Runs) != min(runs, 1000) {
		t.Errorf("%d runs are listed, %d were started: %v", len(page.Runs), runs, err)
	}
}

type stepKey struct {
	run history.RunID
	pos history.Position
}

// execution is a line of the witness file.
type execution struct {
	line string
	seq  uint64 // the newest event of the run that was durable when the step's function began
}

// executions reads the witness file.
func (p *parent) executions() map[stepKey][]execution {
	p.t.Helper()
	f, err := os.Open(witnessPath(p.dir))
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	out := make(map[stepKey][]execution)
	for s := bufio.NewScanner(f); s.Scan(); {
		var run, pos, who string
		var seq uint64
		if _, err := fmt.Sscan(s.Text(), &run, &pos, &seq, &who); err != nil {
			p.t.Fatalf("witness %q: %v", s.Text(), err)
		}
		var key stepKey
		if err := key.run.UnmarshalText([]byte(run)); err != nil {
			p.t.Fatal(err)
		}
		key.pos = history.Position(pos)
		out[key] = append(out[key], execution{s.Text(), seq})
	}
	return out
}

// result is a recorded result of a step.
type result struct {
	seq  uint64
	line string
}

// recorded returns the result of each step, of which there must be one.
func (p *parent) recorded(store engine.Store, run history.Run) map[history.Position]result {
	p.t.Helper()
	es, err := store.History(context.Background(), run.ID, 1, 1000)
	if err != nil {
		p.t.Fatal(err)
	}
	out := make(map[history.Position]result)
	for _, e := range es {
		if e.Kind != history.StepCompleted && e.Kind != history.StepFailed {
			continue
		}
		if old, twice := out[e.Position]; twice {
			p.t.Errorf("run %s: step %s has results in events %d and %d", run.Key, e.Position, old.seq, e.Seq)
		}
		r := result{seq: e.Seq}
		if err := json.Unmarshal(e.Payload, &r.line); err != nil {
			p.t.Errorf("run %s: event %d: %v", run.Key, e.Seq, err)
		}
		out[e.Position] = r
	}
	return out
}

// compare checks that the recorded result is that of an execution, and that none began after it was recorded.
func (p *parent) compare(n int, pos history.Position, r result, lines []execution) {
	p.t.Helper()
	witnessed := false
	for _, e := range lines {
		witnessed = witnessed || e.line == r.line
		if e.seq >= r.seq {
			p.t.Errorf("run %d: step %s ran again after event %d had recorded its result: %s", n, pos, r.seq, e.line)
		}
	}
	if !witnessed {
		p.t.Errorf("run %d: the recorded result of step %s is of no execution that was seen: %q", n, pos, r.line)
	}
}

// childLog puts a child's log lines into the test's.
type childLog struct {
	t    *testing.T
	life int
}

var _ io.Writer = (*childLog)(nil)

func (l *childLog) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		l.t.Logf("child %d: %s", l.life, strings.TrimSpace(line))
	}
	return len(b), nil
}
