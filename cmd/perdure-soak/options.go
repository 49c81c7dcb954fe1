package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const help = `perdure-soak runs perdure serve under load, kills it, and looks for what got lost.

  go build -o /tmp/perdure ./cmd/perdure
  go run ./cmd/perdure-soak --perdure /tmp/perdure --for 10m

Clients call tools over MCP. Every step of a tool is a request to this process, which therefore knows what was done and
how often; and it writes down all that the server acknowledges. The server is killed with SIGKILL at random moments, one
time in four also while it starts, and every third time it is replaced with SIGTERM under a new tool file instead.
perdure verify checks its store before each start.

What is looked for:

  lost        a run, an answer, a signal or a cancel that was acknowledged and has no effect
  duplicated  two runs of one call; a step that is executed again after its record; a signal received twice
  early       a timer that fires before its time
  late        a timer or a run that takes longer than --late beyond its plan, the server's absences not counted
  wrong       another status or result than the plan of the run says; a status that changes after the end
  kept        a finished run that can be read after its retention
  unsound     what perdure verify finds
  broken      a server that ends by itself, does not start or drain, panics, has a data race, or logs an error
  unbounded   memory, goroutines, file descriptors or the store grow in the last quarter, which has no kill (judged
              where it lasts a minute or more)

Exit codes: 0 nothing was found, 1 something was, 2 the command line is wrong. Where something was found the folder with
the store, the server's log and the witness's record is kept, and named. Memory and file descriptors are read from /proc:
elsewhere than on Linux they are left out. Windows has no SIGTERM, and is not supported.

Flags:
`

// options say how long, how hard and on what.
type options struct {
	perdure       string
	duration      time.Duration
	starts        float64 // per second
	polls         float64 // per second, of all clients together
	subscriptions int
	mix           mix
	killEvery     time.Duration
	ends          int
	retention     time.Duration
	late          time.Duration
	drain         time.Duration
	seed          uint64
	dir           string
	json          bool
}

// parse reads the command line. Its error is flag.ErrHelp where help was asked for, and was printed.
func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{mix: defaultMix()}
	f := flag.NewFlagSet("perdure-soak", flag.ContinueOnError)
	f.SetOutput(io.Discard) // errors are printed once, by run
	f.StringVar(&o.perdure, "perdure", "", "the server's `BINARY` (default: perdure on the PATH)")
	f.DurationVar(&o.duration, "for", 10*time.Minute, "how long new runs are started")
	f.Float64Var(&o.starts, "starts", 5, "new runs a second")
	f.Float64Var(&o.polls, "polls", 25, "polls of tasks a second")
	f.IntVar(&o.subscriptions, "subscriptions", 20, "tasks that are subscribed to at a time; the others are polled")
	f.Var(&o.mix, "mix", "which runs, as weights: `KIND=N,…`")
	f.DurationVar(&o.killEvery, "kill-every", 20*time.Second, "the mean time from one kill to the next; 0: none")
	f.IntVar(&o.ends, "ends", 0, "how often the server is killed or replaced at least, beyond the set time where the machine is slow")
	f.DurationVar(&o.retention, "retention", time.Minute, "how long finished runs are kept")
	f.DurationVar(&o.late, "late", 10*time.Second, "how late a timer or a run may be")
	f.DurationVar(&o.drain, "drain", 5*time.Second, "how long a server that is replaced may drain")
	f.Uint64Var(&o.seed, "seed", 0, "of all that is random (default: from the clock)")
	f.StringVar(&o.dir, "dir", "", "the `FOLDER` for the store and the logs: new or empty, and kept (default: a temporary one)")
	f.BoolVar(&o.json, "json", false, "print the report as JSON")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stderr, help)
			f.SetOutput(stderr)
			f.PrintDefaults()
		}
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())
	}
	return o, o.check()
}

// maxRate bounds rates per second: what one machine can hold anyway.
const maxRate = 10_000

func (o *options) check() error {
	for name, rate := range map[string]float64{"starts": o.starts, "polls": o.polls} {
		if math.IsNaN(rate) || rate <= 0 || rate > maxRate {
			return fmt.Errorf("--%s %v: want a number above 0 and up to %d", name, rate, maxRate)
		}
	}
	if o.polls < o.starts {
		return fmt.Errorf("--polls %v: want at least as many as starts, %v, or the ends of runs are not seen in time", o.polls, o.starts)
	}
	for name, d := range map[string]time.Duration{"for": o.duration, "retention": o.retention, "late": o.late, "drain": o.drain} {
		if d < time.Second {
			return fmt.Errorf("--%s %s: want 1s or more", name, d)
		}
	}
	if o.killEvery != 0 && o.killEvery < time.Second {
		return fmt.Errorf("--kill-every %s: want 1s or more, or 0 for none", o.killEvery)
	}
	if o.subscriptions < 0 {
		return fmt.Errorf("--subscriptions %d: want 0 or more", o.subscriptions)
	}
	return o.findBinary()
}

func (o *options) findBinary() error {
	if o.perdure == "" {
		o.perdure = "perdure"
	}
	path, err := exec.LookPath(o.perdure)
	if err != nil {
		return fmt.Errorf("--perdure: %w (build it with: go build -o /tmp/perdure ./cmd/perdure)", err)
	}
	o.perdure, err = filepath.Abs(path)
	return err
}

// folder makes the folder for everything. remove says that it is nobody's but ours.
func (o *options) folder() (dir string, remove bool, err error) {
	if o.dir == "" {
		dir, err = os.MkdirTemp("", "perdure-soak-")
		return dir, true, err
	}
	if dir, err = filepath.Abs(o.dir); err != nil {
		return "", false, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", false, err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("folder %s is not empty: name a new one", dir)
	}
	return dir, false, err
}

// mix is how many of each kind of runs there are, as weights.
type mix map[kind]int

func defaultMix() mix {
	return mix{chain: 4, fanout: 1, nap: 3, mail: 2, question: 2, endless: 1, failing: 1}
}

// Set reads KIND=N,…: kinds that it does not name have no runs.
func (m *mix) Set(text string) error {
	out := mix{}
	for part := range strings.SplitSeq(text, ",") {
		name, number, _ := strings.Cut(part, "=")
		k := kind(name)
		n, err := strconv.Atoi(number)
		if _, known := defaultMix()[k]; !known || err != nil || n < 0 || n > 1000 {
			return fmt.Errorf("%q: want one of %v, = and a number from 0 to 1000", part, kinds)
		}
		if _, twice := out[k]; twice {
			return fmt.Errorf("%s is named twice", name)
		}
		out[k] = n
	}
	if out.sum() == 0 {
		return errors.New("no kind has a weight")
	}
	*m = out
	return nil
}

func (m *mix) String() string {
	if m == nil {
		return ""
	}
	var parts []string
	for _, k := range kinds {
		if n := (*m)[k]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", k, n))
		}
	}
	return strings.Join(parts, ",")
}

func (m mix) sum() int {
	sum := 0
	for _, n := range m {
		sum += n
	}
	return sum
}

// pick returns the kind at place at of the sum.
func (m mix) pick(at int) kind {
	for _, k := range kinds {
		if at -= m[k]; at < 0 {
			return k
		}
	}
	return chain
}
