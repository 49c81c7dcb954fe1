package crashtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure/history"
)

// witnessLog is what the children of one store said: the external witness. It lives in the parent, which is never killed.
//
// Several children may speak at once, under mu; it is read while none does.
type witnessLog struct {
	mu sync.Mutex
	// tried are the calls that were begun, acked those that were acknowledged, with their outcomes.
	tried map[string]bool
	acked map[string]string
	// outcomes are those of the acknowledged calls, by verb and run, and then by argument.
	outcomes map[verbRun]map[string]string
	// executions are those of each run's steps, in the order in which they were heard of.
	executions map[history.RunID]map[history.Position][]execution
	// schedule is the run of the schedule.
	schedule history.RunID
	// ended says that a child has seen all runs end.
	ended bool
}

type verbRun struct {
	verb verb
	run  string
}

// execution is one execution of a step's function.
type execution struct {
	line string
	seq  uint64    // the newest event of the run that was durable when it began
	at   time.Time // by the machine's clock
	// process executed it, under a claim with that token.
	process int
	token   history.Token
}

// executor is who executes a step: the process, and the token's epoch and counter.
const executor = "process-%d-%x-%x"

func newWitnessLog() *witnessLog {
	return &witnessLog{
		tried: map[string]bool{}, acked: map[string]string{}, outcomes: map[verbRun]map[string]string{},
		executions: map[history.RunID]map[history.Position][]execution{},
	}
}

func (l *witnessLog) ackedCalls() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]bool{}
	for id := range l.acked {
		out[id] = true
	}
	return out
}

// take takes down a line.
func (l *witnessLog) take(line string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	what, rest, _ := strings.Cut(line, " ")
	switch what {
	case "open", "upkeep":
		return nil
	case "end":
		l.ended = true
		return nil
	case "try":
		l.tried[rest] = true
		return nil
	case "ack":
		return l.acknowledged(rest)
	case "schedule":
		before := l.schedule
		if err := l.schedule.UnmarshalText([]byte(rest)); err != nil {
			return err
		}
		if before != (history.RunID{}) && before != l.schedule {
			return fmt.Errorf("the schedule was made again, it was %s", before)
		}
		return nil
	case "step":
		return l.execution(rest)
	}
	return fmt.Errorf("no such line")
}

func (l *witnessLog) acknowledged(line string) error {
	id, err := strconv.QuotedPrefix(line)
	if err != nil {
		return err
	}
	if _, twice := l.acked[id]; twice {
		return fmt.Errorf("acknowledged before")
	}
	outcome := strings.TrimSpace(line[len(id):])
	l.acked[id] = outcome
	c, err := parseCall(id)
	if err != nil {
		return err
	}
	key := verbRun{c.Verb, c.Run}
	if l.outcomes[key] == nil {
		l.outcomes[key] = map[string]string{}
	}
	l.outcomes[key][c.Arg] = outcome
	return nil
}

func (l *witnessLog) execution(line string) error {
	var run, pos, who string
	var seq uint64
	var at int64
	if _, err := fmt.Sscan(line, &run, &pos, &seq, &at, &who); err != nil {
		return err
	}
	var process int
	var token history.Token
	if _, err := fmt.Sscanf(who, executor, &process, &token.Epoch, &token.Counter); err != nil {
		return err
	}
	var id history.RunID
	if err := id.UnmarshalText([]byte(run)); err != nil {
		return err
	}
	if l.executions[id] == nil {
		l.executions[id] = map[history.Position][]execution{}
	}
	steps := l.executions[id]
	steps[history.Position(pos)] = append(steps[history.Position(pos)], execution{line, seq, time.Unix(0, at), process, token})
	return nil
}

// started returns the runs whose starts were acknowledged, by key, in order.
func (l *witnessLog) started(life int) (calls []call) {
	for n := range life {
		for _, s := range family(n) {
			for _, c := range s {
				if _, ok := l.acked[c.id()]; ok && c.Verb == start {
					calls = append(calls, c)
				}
			}
		}
	}
	return calls
}

// of returns the outcomes of a run's acknowledged calls of a verb, by their argument.
func (l *witnessLog) of(v verb, run string) map[string]string { return l.outcomes[verbRun{v, run}] }

// earliest returns the time of the first of executions that are beside each other in several processes.
func earliest(xs []execution) time.Time {
	return slices.MinFunc(xs, func(a, b execution) int { return a.at.Compare(b.at) }).at
}
