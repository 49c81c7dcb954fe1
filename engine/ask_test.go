package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// form is an answer with one field of each kind.
type form struct {
	Name  string  `json:"name"`
	Count int     `json:"count"`
	Rate  float64 `json:"rate,omitempty"`
	Sure  bool    `json:"sure"`
}

// asks is a workflow that asks for a form.
func asks(opts ...workflow.WaitOption) *workflow.Workflow[int, string] {
	return workflow.Define("asks", 1, func(ctx workflow.Context, _ int) (string, error) {
		f, err := workflow.Ask[form](ctx, "q", workflow.Question{Message: "Well?"}, opts...)
		switch {
		case errors.Is(err, workflow.ErrTimeout):
			return "timeout", nil
		case errors.Is(err, workflow.ErrDeclined):
			return "declined: " + err.Error(), nil
		case err != nil:
			return "", err
		}
		return fmt.Sprintf("%+v", f), nil
	})
}

func TestAskDerivesItsFormFromTheAnswersType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := asks()
		env := newEnv(t, w)
		h := start(env, w, 0)
		q := env.question(h.ID())
		var body workflow.Question
		if err := json.Unmarshal(q.Body, &body); err != nil {
			t.Fatal(err)
		}
		var schema struct {
			Type       string
			Properties map[string]struct{ Type string }
			Required   []string
		}
		if err := json.Unmarshal(body.Schema, &schema); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(schema.Type, schema.Properties["name"], schema.Properties["count"], schema.Properties["rate"], schema.Properties["sure"], schema.Required)
		if want := "object{string} {integer} {number} {boolean} [name count sure]"; got != want || q.Method != history.MethodQuestion {
			t.Errorf("form %s, want %s", got, want)
		}
		for _, bad := range []string{`{}`, `{"name":"n","count":"two","sure":true}`, `[]`, `null`, `{"name":"n","count":1.5,"sure":true}`, ``} {
			err := env.Answer(t.Context(), h.ID(), q.Key, workflow.Answer{Action: workflow.Accept, Content: []byte(bad)}, "me")
			var ae *workflow.AnswerError
			if !errors.As(err, &ae) || ae.Reason == "" {
				t.Errorf("answer %s: %v, want an *AnswerError", bad, err)
			}
		}
		env.accept(h.ID(), `{"name":"n","count":2,"sure":true}`)
		if got := result(env, h); got != "{Name:n Count:2 Rate:0 Sure:true}" {
			t.Errorf("result %s", got)
		}
	})
}

func TestAskRefusesFormsThatNoClientCanShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type nested struct {
			In struct {
				X int `json:"x"`
			} `json:"in"`
		}
		w := workflow.Define("nested", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, e1 := workflow.Ask[nested](ctx, "q", workflow.Question{Message: "?"})
			_, e2 := workflow.Ask[string](ctx, "q", workflow.Question{Message: "?"})
			_, e3 := workflow.Ask[form](ctx, "q", workflow.Question{})
			for _, err := range []error{e1, e2, e3} {
				if !errors.Is(err, workflow.ErrMisuse) {
					return "", fmt.Errorf("not refused: %w", err)
				}
			}
			return fmt.Sprint(e1, e2, e3), nil
		})
		env := newEnv(t, w)
		got := result(env, start(env, w, 0))
		for _, s := range []string{`field "in"`, "use a struct", "no message"} {
			if !strings.Contains(got, s) {
				t.Errorf("the errors do not say %q: %s", s, got)
			}
		}
	})
}

func TestFirstAnswerWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := asks()
		env := newEnv(t, w)
		h := start(env, w, 0)
		q := env.question(h.ID())
		env.stopWorker() // the answers come faster than the run sees them
		good := workflow.Answer{Action: workflow.Accept, Content: []byte(`{"name":"first","count":1,"sure":true}`)}
		if err := env.Answer(t.Context(), h.ID(), q.Key, good, "me"); err != nil {
			t.Fatal(err)
		}
		if err := env.Answer(t.Context(), h.ID(), q.Key, good, "you"); !errors.Is(err, history.ErrAnswered) {
			t.Errorf("second answer: %v, want ErrAnswered", err)
		}
		if err := env.Answer(t.Context(), h.ID(), "no such", good, "you"); !errors.Is(err, history.ErrNotFound) {
			t.Errorf("unknown key: %v, want ErrNotFound", err)
		}
		if r := env.run(h.ID()); r.Questions != 0 {
			t.Errorf("%d questions are open after the answer", r.Questions)
		}
		env.startWorker()
		if got := result(env, h); !strings.Contains(got, "first") {
			t.Errorf("result %s", got)
		}
		if es := of(env.events(h.ID()), history.InterruptAnswered); len(es) != 1 || es[0].By != "me" {
			t.Errorf("recorded answers: %+v", es)
		}
	})
}

func TestDeclinedQuestionIsATypedError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := asks()
		env := newEnv(t, w)
		h := start(env, w, 0)
		if err := env.Answer(t.Context(), h.ID(), env.question(h.ID()).Key, workflow.Answer{Action: workflow.Decline, Reason: "not today"}, "me"); err != nil {
			t.Fatal(err)
		}
		if got := result(env, h); !strings.Contains(got, "declined") || !strings.Contains(got, "not today") {
			t.Errorf("result %q", got)
		}
	})
}

func TestDismissedQuestionIsAskedAgainAndFinallyLeftForAnOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := asks()
		env := newEnv(t, w)
		h := start(env, w, 0)
		seen := map[string]bool{}
		dismissed := 0
		for {
			q := env.question(h.ID())
			if seen[q.Key] {
				t.Fatalf("key %q was used before", q.Key)
			}
			seen[q.Key] = true
			if q.OperatorOnly {
				break
			}
			if dismissed++; dismissed > 10 {
				t.Fatal("it is asked for ever")
			}
			if err := env.Answer(t.Context(), h.ID(), q.Key, workflow.Answer{Action: workflow.Dismiss}, "me"); err != nil {
				t.Fatal(err)
			}
			env.await(h.ID(), waiting)
			if dismissed == 2 {
				env.restart(w)
			}
		}
		if dismissed != 3 {
			t.Errorf("it was left for an operator after %d dismissals, want 3", dismissed)
		}
		env.accept(h.ID(), `{"name":"operator","count":1,"sure":true}`)
		if got := result(env, h); !strings.Contains(got, "operator") {
			t.Errorf("result %q", got)
		}
	})
}

func TestQuestionHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := asks(workflow.Within(time.Hour))
		env := newEnv(t, w)
		late, inTime := start(env, w, 0), start(env, w, 0)
		ql, qi := env.question(late.ID()), env.question(inTime.ID())
		env.stopWorker()
		good := workflow.Answer{Action: workflow.Accept, Content: []byte(`{"name":"n","count":1,"sure":true}`)}
		pass(qi.Deadline.Sub(env.Now()) - time.Nanosecond)
		if err := env.Answer(t.Context(), inTime.ID(), qi.Key, good, "me"); err != nil {
			t.Errorf("answer just before the deadline: %v", err)
		}
		pass(time.Nanosecond)
		if err := env.Answer(t.Context(), late.ID(), ql.Key, good, "me"); !errors.Is(err, history.ErrAnswered) {
			t.Errorf("answer at the deadline: %v, want ErrAnswered", err)
		}
		pass(time.Hour)
		env.startWorker()
		if got := result(env, late); got != "timeout" {
			t.Errorf("late: %q", got)
		}
		if got := result(env, inTime); !strings.Contains(got, "Name:n") {
			t.Errorf("in time: %q", got)
		}
		if r := env.run(late.ID()); r.Questions != 0 {
			t.Errorf("%d questions are left", r.Questions)
		}
	})
}

func TestDismissalDoesNotMoveTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := asks(workflow.Within(time.Hour))
		env := newEnv(t, w)
		h := start(env, w, 0)
		q := env.question(h.ID())
		pass(30 * time.Minute)
		if err := env.Answer(t.Context(), h.ID(), q.Key, workflow.Answer{Action: workflow.Dismiss}, "me"); err != nil {
			t.Fatal(err)
		}
		env.await(h.ID(), waiting)
		if again := env.question(h.ID()); again.Deadline != q.Deadline {
			t.Errorf("deadline moved from %s to %s", q.Deadline, again.Deadline)
		}
		if got := result(env, h); got != "timeout" {
			t.Errorf("result %q", got)
		}
		if d := env.run(h.ID()).ClosedAt.Sub(q.Deadline); d != 0 {
			t.Errorf("it timed out %s after the deadline", d)
		}
	})
}

func TestApproval(t *testing.T) {
	type plan struct {
		Steps int `json:"steps"`
	}
	w := workflow.Define("approval", 1, func(ctx workflow.Context, _ int) (workflow.Decision, error) {
		return workflow.Ask[workflow.Decision](ctx, "q", workflow.Question{Message: "Do it?", Proposal: plan{3}})
	})
	for _, tc := range []struct {
		name   string
		answer workflow.Answer
		bad    string // the field that is refused
		want   workflow.Decision
	}{
		{"approve", workflow.Answer{Action: workflow.Accept, Content: []byte(`{"decision":"approve"}`)}, "", workflow.Decision{Decision: workflow.Approve}},
		{"edit", workflow.Answer{Action: workflow.Accept, Content: []byte(`{"decision":"edit","value":"{\"steps\":2}"}`)}, "", workflow.Decision{Decision: workflow.Edit, Value: `{"steps":2}`}},
		{"reject", workflow.Answer{Action: workflow.Accept, Content: []byte(`{"decision":"reject","reason":"no"}`)}, "", workflow.Decision{Decision: workflow.Reject, Reason: "no"}},
		{"decline", workflow.Answer{Action: workflow.Decline, Reason: "never"}, "", workflow.Decision{Decision: workflow.Reject, Reason: "never"}},
		{"edit without a value", workflow.Answer{Action: workflow.Accept, Content: []byte(`{"decision":"edit"}`)}, "value", workflow.Decision{}},
		{"edit of another shape", workflow.Answer{Action: workflow.Accept, Content: []byte(`{"decision":"edit","value":"{\"steps\":\"two\"}"}`)}, "value.steps", workflow.Decision{}},
		{"edit that is not JSON", workflow.Answer{Action: workflow.Accept, Content: []byte(`{"decision":"edit","value":"{"}`)}, "value", workflow.Decision{}},
		{"reject without a reason", workflow.Answer{Action: workflow.Accept, Content: []byte(`{"decision":"reject"}`)}, "reason", workflow.Decision{}},
		{"neither", workflow.Answer{Action: workflow.Accept, Content: []byte(`{"decision":"maybe"}`)}, "decision", workflow.Decision{}},
		{"no action", workflow.Answer{Content: []byte(`{"decision":"approve"}`)}, "action", workflow.Decision{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				env := newEnv(t, w)
				h := start(env, w, 0)
				err := env.Answer(t.Context(), h.ID(), env.question(h.ID()).Key, tc.answer, "me")
				if tc.bad != "" {
					var ae *workflow.AnswerError
					if !errors.As(err, &ae) || ae.Field != tc.bad {
						t.Errorf("%v, want an *AnswerError of %q", err, tc.bad)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := result(env, h); got != tc.want {
					t.Errorf("decision %+v, want %+v", got, tc.want)
				}
			})
		})
	}
}

func TestQuestionsOfOneRunHaveDifferentKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("two", 1, func(ctx workflow.Context, _ int) (int, error) {
			rs, err := workflow.Each(ctx, "e", []string{"a", "b"}, itself, func(ctx workflow.Context, _ string) (form, error) {
				return workflow.Ask[form](ctx, "q", workflow.Question{Message: "?"})
			})
			return len(rs), err
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.await(h.ID(), func(r history.Run) bool { return r.Questions == 2 })
		open, err := env.Interrupts(context.Background(), h.ID())
		if err != nil || len(open) != 2 || open[0].Key == open[1].Key {
			t.Fatalf("open: %+v, %v", open, err)
		}
		for _, q := range open {
			a := workflow.Answer{Action: workflow.Accept, Content: []byte(`{"name":"n","count":1,"sure":true}`)}
			if err := env.Answer(t.Context(), h.ID(), q.Key, a, "me"); err != nil {
				t.Error(err)
			}
		}
		if got := result(env, h); got != 2 {
			t.Errorf("%d answers", got)
		}
	})
}

// ranges is a form with fields whose Go types hold less than JSON does.
type ranges struct {
	I   int           `json:"i,omitempty"`
	I8  int8          `json:"i8,omitempty"`
	U   uint          `json:"u,omitempty"`
	U64 uint64        `json:"u64,omitempty"`
	D   time.Duration `json:"d,omitempty"`
	F   float32       `json:"f,omitempty"`
	P   *int64        `json:"p,omitempty"`
}

// TestAnswersThatTheCodeCannotReadAreRefused: what is acknowledged decodes into the answer's Go type, also where a person
// edits a proposal.
func TestAnswersThatTheCodeCannotReadAreRefused(t *testing.T) {
	form := workflow.Define("form", 1, func(ctx workflow.Context, _ int) (string, error) {
		r, err := workflow.Ask[ranges](ctx, "q", workflow.Question{Message: "Well?"})
		if r.P != nil {
			return fmt.Sprint(*r.P), err
		}
		return fmt.Sprint(r.I, r.I8, r.U, r.U64, int64(r.D), r.F), err
	})
	edit := workflow.Define("edit", 1, func(ctx workflow.Context, _ int) (string, error) {
		d, err := workflow.Ask[workflow.Decision](ctx, "q", workflow.Question{Message: "Well?", Proposal: ranges{}})
		return d.Value, err
	})
	for content, want := range map[string]string{
		`{"i":3.0,"i8":1e2,"u":-0.0,"f":2.0}`:                                           "3 100 0 0 0 2",
		`{"i":9223372036854775807,"u64":18446744073709551615,"d":-9223372036854775808}`: "9223372036854775807 0 0 18446744073709551615 -9223372036854775808 0",
		`{"p":5e0,"u":-0}`: "5",
	} {
		synctest.Test(t, func(t *testing.T) {
			env := newEnv(t, form)
			h := start(env, form, 0)
			env.accept(h.ID(), content)
			if got := result(env, h); got != want {
				t.Errorf("%s is read as %q, want %q", content, got, want)
			}
		})
	}
	const notLess, tooLong = "is not less than 9223372036854775808", "cannot be read: the number %s is out of range, or has too many digits"
	synctest.Test(t, func(t *testing.T) {
		env := newEnv(t, form, edit)
		h, eh := start(env, form, 0), start(env, edit, 0)
		key, ekey := env.question(h.ID()).Key, env.question(eh.ID()).Key
		for content, want := range map[string]string{
			`{"i":9223372036854775808}`:    "i: 9223372036854775808 " + notLess,
			`{"i":-9223372036854775809}`:   "content: " + fmt.Sprintf(tooLong, "-9223372036854775809"),
			`{"i":1e30}`:                   "i: 1000000000000000019884624838656 " + notLess,
			`{"p":1e30}`:                   "p: 1000000000000000019884624838656 " + notLess,
			`{"d":1e19}`:                   "d: 10000000000000000000 " + notLess,
			`{"i8":300}`:                   "i8: 300 is more than 127",
			`{"u":-1}`:                     "u: -1 is less than 0",
			`{"u64":18446744073709551616}`: "u64: 18446744073709551616 is not less than 18446744073709551616",
			`{"f":1e39}`:                   "f: 999999999999999939709166371603178586112 is more than 340282346638528859811704183484516925440",
			`{"i":1.5}`:                    "i: 1.5 is a number, want an integer",
			`{"i":1e-400000000}`:           "content: " + fmt.Sprintf(tooLong, "1e-400000000"),
			`{"i":9007199254740993.5}`:     "content: " + fmt.Sprintf(tooLong, "9007199254740993.5"),
		} {
			var unfit *workflow.AnswerError
			err := env.Answer(t.Context(), h.ID(), key, workflow.Answer{Action: workflow.Accept, Content: []byte(content)}, "me")
			if !errors.As(err, &unfit) || unfit.Field+": "+unfit.Reason != want {
				t.Errorf("%s:\n got %v\nwant %s", content, err, want)
			}
			decision, err := json.Marshal(workflow.Decision{Decision: workflow.Edit, Value: content})
			if err != nil {
				t.Fatal(err)
			}
			err = env.Answer(t.Context(), eh.ID(), ekey, workflow.Answer{Action: workflow.Accept, Content: decision}, "me")
			if !errors.As(err, &unfit) || !strings.HasPrefix(unfit.Field, "value") {
				t.Errorf("an edit to %s: %v", content, err)
			}
		}
	})
}
