package simtest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// scenario is everything about one seed that a shrinker can leave out.
type scenario struct {
	Seed     uint64
	Speeds   []float64 // of the workers' clocks
	HintLoss float64
	Tasks    []task // run i is started under the key "k<i>"
	Acts     []act
	Faults   []fault
}

// act is something that a client or an operator does.
type act struct {
	At   time.Duration
	Kind string
	Run  int
	N    int
}

func (a act) String() string { return fmt.Sprintf("%s %s run %d (%d)", a.At, a.Kind, a.Run, a.N) }

// fault is something that goes wrong: with message number Message, or at an instant.
type fault struct {
	Kind    string
	Message int
	At      time.Duration
	Worker  int
	D       time.Duration
}

func (f fault) String() string {
	if f.Message > 0 {
		return fmt.Sprintf("message #%d: %s (%s)", f.Message, f.Kind, f.D)
	}
	return fmt.Sprintf("%s %s (worker %d, %s)", f.At, f.Kind, f.Worker, f.D)
}

// healAt is when the faults end and the operators clear up.
const healAt = 4 * time.Minute

var (
	actKinds = []string{
		"signal", "signal", "signal", "signal", "answer", "answer", "rivals", "cancel", "pause", "resume", "terminate", "restart", "clash", "sweep",
		"decide", "reject",
	}
	messageFaults = []string{"before", "after", "lost request", "lost reply", "late", "slow", "slow reply", "twice"}
	machineFaults = []string{"crash", "crash", "freeze", "freeze", "store restarts", "all restart", "clock jumps", "wall clock steps"}
)

// newScenario makes the scenario of a seed.
func newScenario(seed uint64) *scenario {
	r := rand.New(rand.NewPCG(seed, 1))
	sc := &scenario{Seed: seed}
	for range 1 + r.IntN(3) {
		sc.Speeds = append(sc.Speeds, []float64{1, 1, 0.7, 1.5}[r.IntN(4)])
	}
	sc.HintLoss = []float64{0, 0.1, 0.6}[r.IntN(3)]
	g := &generator{r: r}
	for i := range 1 + r.IntN(3) {
		sc.Tasks = append(sc.Tasks, g.task())
		sc.Acts = append(sc.Acts, act{At: time.Duration(r.IntN(20)) * time.Second, Kind: "start", Run: i, N: r.IntN(1000)})
	}
	for range r.IntN(10) {
		a := act{
			At: time.Duration(r.IntN(int(healAt/time.Millisecond))) * time.Millisecond, Kind: actKinds[r.IntN(len(actKinds))],
			Run: r.IntN(len(sc.Tasks)), N: r.IntN(1000),
		}
		sc.Acts = append(sc.Acts, a)
		if a.Kind == "pause" {
			sc.Acts = append(sc.Acts, act{At: a.At + time.Duration(r.IntN(60))*time.Second, Kind: "resume", Run: a.Run})
		}
	}
	if r.IntN(8) == 0 {
		return sc // a quiet one
	}
	for range r.IntN(10) {
		sc.Faults = append(sc.Faults, fault{
			Kind: messageFaults[r.IntN(len(messageFaults))], Message: 1 + r.IntN(300), D: time.Duration(r.IntN(90_000)) * time.Millisecond,
		})
	}
	for range r.IntN(5) {
		f := fault{
			Kind: machineFaults[r.IntN(len(machineFaults))], At: time.Duration(r.IntN(int(healAt/time.Millisecond))) * time.Millisecond,
			Worker: r.IntN(len(sc.Speeds)), D: time.Duration(r.IntN(100_000)) * time.Millisecond,
		}
		switch f.Kind {
		case "wall clock steps":
			f.D = (f.D - 50*time.Second) * 60
		case "store restarts", "all restart":
			f.D /= 10
		}
		sc.Faults = append(sc.Faults, f)
	}
	return sc
}

// simulate runs a scenario and returns what must not be, and the trace.
func simulate(sc *scenario, keepTrace bool) ([]string, *trace) {
	w := newWorld(sc, keepTrace)
	w.open()
	for i, speed := range sc.Speeds {
		k := &worker{w: w, name: fmt.Sprintf("w%d", i), speed: speed}
		w.workers = append(w.workers, k)
		k.start()
	}
	for _, a := range sc.Acts {
		w.after(a.At, func() { w.act(a) })
	}
	for _, f := range sc.Faults {
		if f.Message > 0 {
			w.faults[f.Message] = f
		} else {
			w.after(f.At, func() { w.happen(f) })
		}
	}
	failed := func() bool { return len(w.oracle.violations) > 0 }
	w.runUntil(healAt, failed)
	if !failed() {
		w.heal()
		const patience = 3 * time.Hour
		for end := w.now + patience; w.now < end && !failed() && !w.oracle.settled(); {
			w.clearUp()
			w.runUntil(w.now+time.Minute, failed)
		}
		if !failed() {
			w.oracle.finish()
		}
	}
	for _, k := range w.workers {
		k.crash()
	}
	return w.oracle.violations, &w.trace
}

// happen makes a fault of a machine.
func (w *world) happen(f fault) {
	k := w.workers[f.Worker]
	w.note("fault: %s", f)
	w.trace.seen["fault: "+f.Kind]++
	switch f.Kind {
	case "crash":
		k.crash()
		w.after(f.D, k.start)
	case "freeze":
		k.frozen = w.now + f.D
	case "store restarts":
		w.close()
		w.after(f.D, w.open)
	case "all restart":
		for _, k := range w.workers {
			k.crash()
		}
		w.close()
		w.after(f.D, func() {
			w.open()
			for _, k := range w.workers {
				k.start()
			}
		})
	case "clock jumps":
		w.mono += f.D
	case "wall clock steps":
		w.wall += f.D
	}
}

// heal ends the faults. What is under way still is.
func (w *world) heal() {
	w.note("no more faults")
	w.healed = true
	w.open()
	for _, k := range w.workers {
		k.start()
	}
}

// shrink leaves out of a failing scenario what it fails without.
func shrink(sc *scenario) *scenario {
	fails := func(c *scenario) bool {
		v, _ := simulate(c, false)
		return len(v) > 0
	}
	best := *sc
	try := func(change func(c *scenario)) bool {
		c := best
		c.Acts, c.Faults, c.Speeds, c.Tasks = slices.Clone(c.Acts), slices.Clone(c.Faults), slices.Clone(c.Speeds), slices.Clone(c.Tasks)
		change(&c)
		if !fails(&c) {
			return false
		}
		best = c
		return true
	}
	for again := true; again; {
		again = false
		for i := len(best.Faults) - 1; i >= 0; i-- {
			again = try(func(c *scenario) { c.Faults = slices.Delete(c.Faults, i, i+1) }) || again
		}
		for i := len(best.Acts) - 1; i >= 0; i-- {
			again = try(func(c *scenario) { c.Acts = slices.Delete(c.Acts, i, i+1) }) || again
		}
		for i := range best.Tasks {
			again = shrinkNode(&best.Tasks[i].Node, func(n node) bool { return try(func(c *scenario) { c.Tasks[i].Node = n }) }) || again
			again = best.Tasks[i].Rounds > 0 && try(func(c *scenario) { c.Tasks[i].Rounds = 0 }) || again
		}
		if best.HintLoss > 0 {
			again = try(func(c *scenario) { c.HintLoss = 0 }) || again
		}
	}
	return &best
}

// shrinkNode leaves out the kids of a node, and of the nodes below.
func shrinkNode(n *node, try func(node) bool) (changed bool) {
	for i := len(n.Kids) - 1; i >= 0; i-- {
		if i >= len(n.Kids) {
			continue // try has replaced n
		}
		c := *n
		c.Kids = slices.Delete(slices.Clone(n.Kids), i, i+1)
		if try(c) {
			*n = c
			changed = true
			continue
		}
		kid := n.Kids[i]
		if shrinkNode(&kid, func(k node) bool {
			c := *n
			c.Kids = slices.Clone(n.Kids)
			c.Kids[i] = k
			return try(c)
		}) {
			c := *n
			c.Kids = slices.Clone(n.Kids)
			c.Kids[i] = kid
			*n = c
			changed = true
		}
	}
	return changed
}

// String shows the scenario for people.
func (sc *scenario) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, clocks run at %v, hints are lost at %v\n", sc.Seed, sc.Speeds, sc.HintLoss)
	for i, t := range sc.Tasks {
		fmt.Fprintf(&b, "  run %d: %s\n", i, t.encode())
	}
	acts := slices.SortedFunc(slices.Values(sc.Acts), func(a, b act) int { return cmp.Compare(a.At, b.At) })
	for _, a := range acts {
		fmt.Fprintf(&b, "  act: %s\n", a)
	}
	for _, f := range sc.Faults {
		fmt.Fprintf(&b, "  fault: %s\n", f)
	}
	return b.String()
}
