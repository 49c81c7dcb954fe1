package crashtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A script is what one client does, call after call. Each call is made until it was acknowledged, in one life of the child or
// in a later one, so it may be made more often than once.
type script []call

// call is one call of a client.
type call struct {
	Verb verb
	// Run is the key of the run that it is about.
	Run string
	// Arg is what the verb says: an input, a signal's id, the key of another run.
	Arg string
	// Keep is the retention of a run that is started.
	Keep time.Duration
}

type verb string

const (
	start      verb = "start"      // Arg is the workflow
	startLate  verb = "start late" // a start again, once the run is deleted
	signal     verb = "signal"     // Arg is the id, which is the payload
	answer     verb = "answer"     // two answers at the same time
	cancel     verb = "cancel"
	terminate  verb = "terminate"
	pause      verb = "pause"
	resume     verb = "resume"
	redeliver  verb = "redeliver" // the only dead letter of Run, to the run Arg
	hold       verb = "hold"
	endHeld    verb = "end under hold"
	awaitPrune verb = "await prune" // until the closed generations of Run are pruned
	unhold     verb = "unhold"
	forget     verb = "forget" // erases the payloads of a run that is over
	define     verb = "define"
	secret     verb = "secret"
	renewLease verb = "renew lease" // these three act on runs that no worker has code for
	giveLease  verb = "give lease back"
	loseLease  verb = "lose lease"
)

// id names a call in the witness's log.
func (c call) id() string {
	return strconv.Quote(strings.Join([]string{string(c.Verb), c.Run, c.Arg}, "/"))
}

// parseCall is the inverse of id.
func parseCall(id string) (c call, err error) {
	text, err := strconv.Unquote(id)
	parts := strings.Split(text, "/")
	if err != nil || len(parts) != 3 {
		return c, fmt.Errorf("%s names no call: %w", id, err)
	}
	return call{Verb: verb(parts[0]), Run: parts[1], Arg: parts[2]}, nil
}

// family returns the scripts that begin in a life: between them they make every kind of write.
func family(life int) []script {
	key := func(name string) string { return fmt.Sprintf("%s-%d", name, life) }
	one := func(workflow string) script { return script{{Verb: start, Run: key(workflow), Arg: workflow}} }
	signals := func(run string, ids ...string) (calls []call) {
		for _, id := range ids {
			calls = append(calls, call{Verb: signal, Run: key(run), Arg: id})
		}
		return calls
	}
	scripts := []script{
		one("steps"), one("sleep"), one("parent"),
		append(one("signals"), signals("signals", "a", "b", "c")...),
		append(one("roll"), signals("roll", "1", "2", "3", "4", "5", "6")...),
		slices.Concat(one("trimmed"), signals("trimmed", "1", "2"), script{{Verb: awaitPrune, Run: key("trimmed")}}, signals("trimmed", "3", "4", "5", "6")),
		append(one("ask"), call{Verb: answer, Run: key("ask")}),
		append(one("cancel"), call{Verb: cancel, Run: key("cancel")}),
		append(one("long"), call{Verb: pause, Run: key("long")}, call{Verb: resume, Run: key("long")}),
		{
			{Verb: start, Run: key("wait"), Arg: "cancel"},
			{Verb: terminate, Run: key("wait")},
			{Verb: signal, Run: key("wait"), Arg: "late"},
			{Verb: start, Run: key("mailbox"), Arg: "mailbox"},
			{Verb: redeliver, Run: key("wait"), Arg: key("mailbox")},
			{Verb: forget, Run: key("wait")},
		},
		{
			{Verb: start, Run: key("kept"), Arg: "signals", Keep: time.Millisecond},
			{Verb: hold, Run: key("kept")},
			{Verb: signal, Run: key("kept"), Arg: "a"},
			{Verb: signal, Run: key("kept"), Arg: "b"},
			{Verb: signal, Run: key("kept"), Arg: "c"},
			{Verb: endHeld, Run: key("kept")},
			{Verb: unhold, Run: key("kept")},
			{Verb: startLate, Run: key("kept"), Arg: "signals", Keep: time.Millisecond},
		},
		one("exported"),
		{{Verb: define, Arg: key("definition")}, {Verb: secret, Arg: key("secret")}},
	}
	for _, v := range []verb{renewLease, giveLease, loseLease} {
		run := key("ghost-" + string(v[:4]))
		scripts = append(scripts, script{
			{Verb: start, Run: run, Arg: "ghost " + string(v)},
			{Verb: v, Run: run},
			{Verb: terminate, Run: run},
		})
	}
	return scripts
}
