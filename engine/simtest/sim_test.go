package simtest

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/perdure/perdure/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// number reads a variable that makes a test longer or repeats a part of it.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a number from 1 on", name, s)
	}
	return n
}

// TestSimulation simulates seeds: PERDURE_SIM_SEEDS says how many, PERDURE_SIM_SEED runs one and shows its trace with -v.
func TestSimulation(t *testing.T) {
	if one := number(t, "PERDURE_SIM_SEED", 0); one > 0 {
		sc := newScenario(uint64(one))
		violations, tr := simulate(sc, true)
		t.Logf("%s\n%s", sc, strings.Join(tr.line, "\n"))
		if len(violations) > 0 {
			report(t, sc)
		}
		return
	}
	seeds := number(t, "PERDURE_SIM_SEEDS", defaultSeeds)
	var next atomic.Int64
	var failed atomic.Pointer[scenario]
	var all sync.WaitGroup
	var mu sync.Mutex // guards seen
	seen := map[string]int{}
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for n := next.Add(1); n <= int64(seeds) && failed.Load() == nil; n = next.Add(1) {
				sc := newScenario(uint64(n))
				violations, tr := simulate(sc, false)
				if len(violations) > 0 {
					failed.CompareAndSwap(nil, sc)
				}
				mu.Lock()
				for what, n := range tr.seen {
					seen[what] += n
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if sc := failed.Load(); sc != nil {
		report(t, sc)
	} else if seeds >= 1000 {
		reached(t, seen)
	}
	t.Logf("%d seeds: %v", seeds, seen)
}

// reached fails where some kind of event, fault, refusal or check never came about: what is not reached proves nothing.
func reached(t *testing.T, seen map[string]int) {
	t.Helper()
	want := []string{"deleted", "step entered again", "result compared"}
	for _, f := range slices.Concat(messageFaults, machineFaults) {
		want = append(want, "fault: "+f)
	}
	for _, e := range refusals {
		want = append(want, "refused: "+e.Error())
	}
	for kind := history.Kind(1); kind < 128; kind++ {
		switch kind {
		case history.ValueRecorded, history.StepProgressed, history.StatusReported, history.Replied, history.CompensationRegistered:
			// no program has them
		default:
			if kind.Known() {
				want = append(want, "event: "+kind.String())
			}
		}
	}
	for _, what := range want {
		if seen[what] == 0 {
			t.Errorf("%s: in no seed", what)
		}
	}
}

// report fails with a scenario, how to repeat it, and the least of it that still fails.
func report(t *testing.T, sc *scenario) {
	t.Helper()
	violations, _ := simulate(sc, false)
	least := shrink(sc)
	_, tr := simulate(least, true)
	lines := slices.DeleteFunc(tr.line, idle)
	if n := len(lines); n > 120 {
		lines = lines[n-120:]
	}
	t.Errorf("%s\n\nrepeat it with: PERDURE_SIM_SEED=%d go test -v -run 'TestSimulation$' ./engine/simtest\n\nthe least that fails: %s\n%s",
		strings.Join(violations, "\n"), sc.Seed, least, strings.Join(lines, "\n"))
}

// idle reports whether a line of a trace says only that somebody looked for work.
func idle(line string) bool {
	return strings.HasSuffix(line, " claims: ok") || strings.HasSuffix(line, " expires leases: ok") || strings.HasSuffix(line, " wakes: ok")
}

// TestSimulationRepeats executes seeds twice: the traces are the same.
func TestSimulationRepeats(t *testing.T) {
	for seed := uint64(1); seed <= 200; seed++ {
		violations, a := simulate(newScenario(seed), true)
		if len(violations) > 0 {
			report(t, newScenario(seed))
			return
		}
		_, b := simulate(newScenario(seed), true)
		if a.sum == b.sum {
			continue
		}
		for i := range min(len(a.line), len(b.line)) {
			if a.line[i] != b.line[i] {
				t.Fatalf("seed %d differs from line %d on:\n%s\n%s", seed, i, a.line[i], b.line[i])
			}
		}
		t.Fatalf("seed %d: %d lines and %d lines", seed, len(a.line), len(b.line))
	}
}
