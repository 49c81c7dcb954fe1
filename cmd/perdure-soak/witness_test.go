package main

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/mcptasks"
)

// scene is a witness, and a server that is made up: each method is something that clients or the sink saw.
type scene struct {
	*testing.T
	*witness
	now  time.Time
	life int
}

func newScene(t *testing.T) *scene {
	w, err := newWitness(filepath.Join(t.TempDir(), "witness.jsonl"), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	return &scene{T: t, witness: w, now: time.Now(), life: 1}
}

func (s *scene) run(k kind) *record {
	r := s.begin(plan{n: len(s.runs) + 1, kind: k, nap: time.Second, answer: 7})
	s.started(r, "task-"+strconv.Itoa(r.n))
	return r
}

func (s *scene) step(r *record, name string) {
	s.as(r, arrival{N: r.n, Run: "run-" + strconv.Itoa(r.n), Step: name, Deploy: 1, key: name + strconv.Itoa(r.n)})
}

func (s *scene) as(_ *record, a arrival) { s.executed(a, s.life, s.now) }

func (s *scene) whole(r *record) {
	for _, name := range steps[r.kind] {
		if r.kind == nap && name == "end" {
			s.now = s.now.Add(r.nap)
		}
		s.step(r, name)
	}
}

func (s *scene) ends(r *record, status mcptasks.TaskStatus, value string) {
	ttl := int64(60_000)
	d := &mcptasks.DetailedTask{
		Task:   mcptasks.Task{TaskID: r.task, Status: status, CreatedAt: "2030-01-02T03:04:05Z", TTLMs: &ttl},
		Result: json.RawMessage(`{"structuredContent":` + value + `}`),
	}
	if r.kind == failing {
		d.Result = json.RawMessage(value)
	}
	s.end(r, d)
}

// TestWitnessFinds: every kind of fault that a server could have is told from what is right.
func TestWitnessFinds(t *testing.T) {
	for _, test := range []struct {
		name string
		want string // kind and a part of the detail; "" for nothing
		do   func(s *scene)
	}{
		{"nothing in runs as planned", "", func(s *scene) {
			for _, k := range kinds {
				r := s.run(k)
				s.whole(r)
				switch k {
				case endless:
					s.ends(r, mcptasks.Cancelled, "null")
				case failing:
					s.ends(r, mcptasks.Completed, `{"isError":true,"content":"answered 400"}`)
				default:
					s.ends(r, mcptasks.Completed, r.result())
				}
			}
			s.unfinished()
		}},
		{"nothing in a step that is repeated by the next server", "", func(s *scene) {
			r := s.run(chain)
			s.step(r, "begin")
			s.life++
			s.step(r, "begin")
			s.step(r, "flaky")
			s.step(r, "flaky")
		}},
		{"two tasks of one call", "duplicated: has the tasks", func(s *scene) { s.started(s.run(chain), "other") }},
		{"two runs of one call", "duplicated: has the runs", func(s *scene) {
			r := s.run(chain)
			s.step(r, "begin")
			s.life++
			s.as(r, arrival{N: r.n, Run: "other", Step: "begin", Deploy: 1, key: "begin1"})
		}},
		{"a step twice in one life", "duplicated: twice by one server process", func(s *scene) {
			r := s.run(chain)
			s.step(r, "begin")
			s.step(r, "begin")
		}},
		{"a step again after its record", "duplicated: after step flaky", func(s *scene) {
			r := s.run(chain)
			s.step(r, "begin")
			s.step(r, "flaky")
			s.life++
			s.step(r, "begin")
		}},
		{"a step after the end", "duplicated: after the run's end", func(s *scene) {
			r := s.run(nap)
			s.whole(r)
			s.ends(r, mcptasks.Completed, r.result())
			s.life++
			s.step(r, "end")
		}},
		{"a step of a run that is deleted", "duplicated: long over", func(s *scene) {
			r := s.run(nap)
			s.whole(r)
			s.forget(r)
			s.step(r, "end")
		}},
		{"another idempotency key", "wrong: idempotency keys", func(s *scene) {
			r := s.run(chain)
			s.step(r, "begin")
			s.life++
			s.as(r, arrival{N: r.n, Run: "run-1", Step: "begin", Deploy: 1, key: "another"})
		}},
		{"one idempotency key for two steps", "wrong: belongs to step begin", func(s *scene) {
			r := s.run(chain)
			s.step(r, "begin")
			s.as(r, arrival{N: r.n, Run: "run-1", Step: "flaky", Deploy: 1, key: "begin1"})
		}},
		{"another definition", "wrong: deploy 2", func(s *scene) {
			r := s.run(chain)
			s.step(r, "begin")
			s.as(r, arrival{N: r.n, Run: "run-1", Step: "flaky", Deploy: 2, key: "flaky1"})
		}},
		{"a step after a cancel", "wrong: executes step end", func(s *scene) {
			r := s.run(endless)
			s.step(r, "begin")
			s.step(r, "end")
		}},
		{"an early timer", "early: fired", func(s *scene) {
			r := s.run(nap)
			s.step(r, "begin")
			s.now = s.now.Add(r.nap - 2*slack)
			s.step(r, "end")
		}},
		{"a late timer", "late: fired", func(s *scene) {
			r := s.run(nap)
			s.step(r, "begin")
			s.now = s.now.Add(r.nap + 2*s.limit)
			s.step(r, "end")
		}},
		{"nothing in a timer that fell due without a server", "", func(s *scene) {
			r := s.run(nap)
			s.step(r, "begin")
			due := s.now.Add(r.nap)
			s.absences = append(s.absences, absence{due, due.Add(time.Hour)})
			s.now = due.Add(time.Hour + s.limit/2)
			s.step(r, "end")
		}},
		{"a run that never ends", "lost: has not ended", func(s *scene) {
			s.run(mail)
			s.unfinished()
		}},
		{"a call that is never acknowledged", "broken: never acknowledged", func(s *scene) {
			s.begin(plan{n: 1, kind: chain})
			s.unfinished()
		}},
		{"a run that takes too long", "late: beyond its plan", func(s *scene) {
			s.run(chain).acked = s.now.Add(-time.Minute)
			s.overdue()
			s.overdue() // named once
		}},
		{"an end without its steps", "lost: step end was never executed", func(s *scene) {
			r := s.run(mail)
			s.step(r, "begin")
			s.ends(r, mcptasks.Completed, r.result())
		}},
		{"a signal received twice", "wrong: [1,1,2]", func(s *scene) {
			r := s.run(mail)
			s.whole(r)
			s.ends(r, mcptasks.Completed, `{"n":1,"said":[1,1,2]}`)
		}},
		{"the second answer", "wrong: 8", func(s *scene) {
			r := s.run(question)
			s.whole(r)
			s.ends(r, mcptasks.Completed, `{"n":1,"said":8}`)
		}},
		{"a failure that completes", "wrong: want an error", func(s *scene) {
			r := s.run(failing)
			s.whole(r)
			s.ends(r, mcptasks.Completed, `{"structuredContent":{"n":1}}`)
		}},
		{"a cancel that completes", "wrong: want cancelled", func(s *scene) {
			r := s.run(endless)
			s.ends(r, mcptasks.Completed, `{"n":1}`)
		}},
		{"an end that changes", "wrong: was completed", func(s *scene) {
			r := s.run(question)
			s.whole(r)
			s.ends(r, mcptasks.Completed, r.result())
			s.ends(r, mcptasks.Failed, r.result())
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t)
			test.do(s)
			var got []string
			for _, v := range s.violations {
				got = append(got, v.Kind+": "+v.Detail)
			}
			kind, part, found := strings.Cut(test.want, ": ")
			switch {
			case !found && len(got) > 0:
				t.Errorf("found %q, want nothing", got)
			case found && (len(got) != 1 || !strings.HasPrefix(got[0], kind+": ") || !strings.Contains(got[0], part)):
				t.Errorf("found %q, want one that is %q", got, test.want)
			}
		})
	}
}

// TestRetentionInTheEyesOfTheWitness: what must be there, what must be gone, and what may be either.
func TestRetentionInTheEyesOfTheWitness(t *testing.T) {
	s := newScene(t)
	for _, ago := range []time.Duration{time.Minute, 5 * time.Minute, 20 * time.Minute} {
		r := s.run(question)
		s.whole(r)
		s.ends(r, mcptasks.Completed, r.result())
		r.ended = time.Now().Add(-ago)
		r.expires = r.ended.Add(5 * time.Minute)
	}
	there, gone := s.readable(5*time.Minute, 10, time.Now())
	if len(there) != 1 || there[0].n != 1 || len(gone) != 1 || gone[0].n != 3 {
		t.Errorf("%d must be there and %d gone, want the first and the third", len(there), len(gone))
	}
	// A sweep that takes long finds nothing that fell due since it began.
	if _, gone := s.readable(5*time.Minute, 10, time.Now().Add(-17*time.Minute)); len(gone) != 0 {
		t.Errorf("%d must be gone, of which the sweep knows nothing", len(gone))
	}
}

func TestLogIsSearched(t *testing.T) {
	l, err := newLogFile(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for _, part := range []string{"level=INFO msg=ok\nWARNING: DATA", " RACE\nlevel=ERR", "OR msg=bad\nall is well\n"} {
		if _, err := l.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(l.alarmed(), "|"); got != "WARNING: DATA RACE|level=ERROR msg=bad" {
		t.Errorf("alarms %q", got)
	}
	if !strings.HasSuffix(l.tail(), "all is well") {
		t.Errorf("tail %q", l.tail())
	}
}

func TestGrowthIsJudged(t *testing.T) {
	var flat, leak []sample
	for i := range int64(120) {
		flat = append(flat, sample{Goroutines: 100 + i%7})
		leak = append(leak, sample{Goroutines: 100 + 20*max(0, i-90)}) // in the last process
	}
	f := figures[2]
	if r := f.over(flat); f.growth(r.First, r.Last) != "" {
		t.Errorf("flat: %+v", r)
	}
	if r := f.over(leak); f.growth(r.First, r.Last) == "" {
		t.Errorf("leak: %+v", r)
	}
}
