//go:build unix

package toolflow

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/workflowtest"
)

// load makes the flow of the one tool in a file.
func load(t testing.TB, dir, text string, deps Deps) *Flow {
	t.Helper()
	file, err := toolfile.Parse("tools.yaml", []byte(text), dir)
	if err != nil {
		t.Fatal(err)
	}
	return New(file.Tools[0], 1, deps)
}

// steps makes a tool file with the steps and the result given.
func steps(body string) string {
	return "tools:\n- name: tool\n  description: d\n  input: {path: string?, n: {type: integer, default: 3}, list: {type: array, default: [a, b]}}\n" + body
}

func start(env *workflowtest.Env, f *Flow, input string) *workflowtest.TestRun[json.RawMessage] {
	return workflowtest.Start(env, f.Workflow, json.RawMessage(input))
}

func mustEqual(t testing.TB, got json.RawMessage, err error, want string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Tools that need nothing from outside: what each gives.
func TestResults(t *testing.T) {
	cases := []struct{ name, body, input, want, wantErr string }{
		{name: "the last step's value is the result", body: `
  steps:
  - {name: a, run: [printf, "one\n"]}`, want: `"one"`},
		{name: "a skipped step gives nothing", body: `
  steps:
  - {name: a, run: [printf, one]}
  - {name: b, when: input.n > 5, run: [printf, two]}`, want: `"one"`},
		{
			name: "types are kept", body: `
  steps:
  - {name: a, run: [printf, '{"x": 12345678901234567, "y": [true, null]}'], parse: json}
  result: {x: "${steps.a.value.x}", y: "${steps.a.value.y}", code: "${steps.a.exit_code}", text: "n is ${input.n}", whole: "${input}"}`,
			want: `{"x":12345678901234567,"y":[true,null],"code":0,"text":"n is 3","whole":{"n":3,"list":["a","b"]}}`,
		},
		{name: "lines", body: `
  steps:
  - {name: a, run: [printf, 'b\na\n'], parse: lines}
  result: ${steps.a.value.sort()}`, want: `["a","b"]`},
		{name: "foreach over a list, in order", body: `
  steps:
  - {name: a, foreach: "${input.list}", parallel: 2, run: [printf, "%s-%s", "${item}", "${index}"]}
  result: {values: "${steps.a.value}", first: "${steps.a.items[0].stdout}"}`, want: `{"values":["a-0","b-1"],"first":"a-0"}`},
		{name: "foreach over nothing", body: `
  steps:
  - {name: a, foreach: [], run: [printf, x]}`, want: `[]`},
		{name: "a list fills several arguments", body: `
  steps:
  - {name: a, run: [printf, "%s,", "${input.list}", "${['c', 'd']}"]}`, want: `"a,b,c,d,"`},
		{name: "no shell", body: `
  steps:
  - {name: a, run: [printf, "%s", "${input.path}"]}`, input: `{"path":"; rm -rf $HOME 'x'"}`, want: `"; rm -rf $HOME 'x'"`},
		{name: "a failing step ends the run", body: `
  steps:
  - {name: a, run: [sh, -c, "echo oops >&2; exit 3"]}
  - {name: b, run: [printf, x]}`, wantErr: `step "a": sh: exit code 3: oops`},
		{name: "on_error continue", body: `
  steps:
  - {name: a, run: [sh, -c, "exit 3"], on_error: continue}
  result: {failed: "${steps.a.failed}", error: "${steps.a.error}", value: "${steps.a.value}"}`, want: `{"failed":true,"error":"sh: exit code 3","value":null}`},
		{name: "exit codes that are ok", body: `
  steps:
  - {name: a, run: [sh, -c, "exit 1"], exit: {ok: [0, 1]}}
  result: ${steps.a.exit_code}`, want: `1`},
		{name: "output that is not what was promised", body: `
  steps:
  - {name: a, run: [printf, "{"], parse: json, retry: 5}`, wantErr: `step "a": printf: the output is not JSON`},
		{name: "JSON that was cut", body: `
  steps:
  - {name: a, run: [printf, "[1,2,3]"], parse: json, max_output: 3}`, wantErr: `its JSON is cut`},
		{name: "a value that looks like an option", body: `
  steps:
  - {name: a, run: [printf, "${input.path}"]}`, input: `{"path":"-v"}`, wantErr: `begins with - and could be taken for an option; to allow that, give the step allow_dash: true`},
		{name: "one in a list", body: `
  steps:
  - {name: a, run: [printf, "${['x', '-v']}"]}`, wantErr: `begins with -`},
		{name: "a dash that is allowed", body: `
  steps:
  - {name: a, allow_dash: true, run: [printf, "%s", "${input.path}"]}`, input: `{"path":"-v"}`, want: `"-v"`},
		{name: "a dash that the file wrote", body: `
  steps:
  - {name: a, run: [printf, --, x]}`, want: `"x"`},
		{name: "an expression without a value", body: `
  steps:
  - {name: a, run: [printf, "${input.path}"]}`, wantErr: `no such key: path`},
		{name: "when is not a condition", body: `
  steps:
  - {name: a, when: parse_json("3"), run: [printf, x]}`, wantErr: `step a: when: ${parse_json("3")}: is a number, not true or false`},
		{name: "foreach over no list", body: `
  steps:
  - {name: a, foreach: "${parse_json('3')}", run: [printf, x]}`, wantErr: `gives no list`},
		{name: "an unknown program", body: `
  steps:
  - {name: a, run: [no-such-program-here], retry: 5}`, wantErr: `is not on the server's PATH`},
		{name: "a sleep of a template", body: `
  steps:
  - {name: a, sleep: "${string(input.n) + 'd'}"}
  result: slept`, want: `"slept"`},
		{name: "a sleep of nonsense", body: `
  steps:
  - {name: a, sleep: "${string(input.n)}"}`, wantErr: `"3" is not a duration`},
		{name: "a wait that times out", body: `
  steps:
  - {name: a, wait: {signal: go, deadline: 30d}}`, wantErr: `step a: receive "go": no signal came in time`},
		{name: "and goes on", body: `
  steps:
  - {name: a, wait: {signal: go, deadline: 30d, on_timeout: continue}}
  result: {late: "${steps.a.timed_out}", value: "${steps.a.value}"}`, want: `{"late":true,"value":null}`},
		{name: "a question that nobody answers", body: `
  steps:
  - {name: a, ask: {message: "Go on?", fields: {go: boolean}, deadline: 1h, on_timeout: continue}}
  result: ${steps.a.decision}`, want: `"timeout"`},
		{name: "stdin and environment", body: `
  steps:
  - {name: a, run: [sh, -c, 'cat; printf "%s %s" "$A" "$PERDURE_ATTEMPT"'], env: {A: "x${input.n}"}, stdin: "in ${input.n} "}`, want: `"in 3 x3 1"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			f := load(t, dir, steps(strings.TrimPrefix(c.body, "\n")), Deps{})
			workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
				if c.input == "" {
					c.input = "{}"
				}
				got, err := start(env, f, c.input).Result()
				if c.wantErr != "" {
					if err == nil || !strings.Contains(err.Error(), c.wantErr) {
						t.Errorf("got %s, %v; want an error with %q", got, err, c.wantErr)
					}
					return
				}
				mustEqual(t, got, err, c.want)
			}, f)
		})
	}
}

// Recorded steps are not run again: not after a crash, and not where each wait unloads the run.
func TestRecordedStepsRunOnce(t *testing.T) {
	for _, unload := range []bool{false, true} {
		t.Run(fmt.Sprintf("unload %v", unload), func(t *testing.T) {
			dir := t.TempDir()
			f := load(t, dir, steps(`
  steps:
  - {name: first, run: [sh, -c, "echo first >> log; cat log"], parse: lines}
  - {name: each, foreach: [1, 2], run: [sh, -c, "echo each >> log"]}
  - {name: nap, sleep: 30d}
  - {name: go, wait: go}
  - {name: review, ask: {message: "Write ${steps.go.value.what}?", approve: {text: "${steps.go.value.what}", n: "${input.n}"}}}
  - {name: last, run: [sh, -c, "echo last >> log"]}
  result: {lines: "${steps.first.value}", text: "${steps.review.value}", decision: "${steps.review.decision}"}
`), Deps{})
			workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
				if unload {
					env.UnloadAtEveryWait()
				}
				run := start(env, f, `{}`)
				run.Until(workflowtest.Waiting)
				env.Crash()
				run.Signal("go", map[string]any{"what": "it"})
				run.Until(workflowtest.Question("review"))
				env.Crash()
				run.Answer("review", map[string]any{"decision": "edit", "value": `{"text":"that","n":9}`})
				got, err := run.Result()
				mustEqual(t, got, err, `{"lines":["first"],"text":{"text":"that","n":9},"decision":"edit"}`)
			}, f)
			log, err := os.ReadFile(filepath.Join(dir, "log"))
			if err != nil || string(log) != "first\neach\neach\nlast\n" {
				t.Errorf("the steps ran as %q, %v", log, err)
			}
		})
	}
}

func TestQuestions(t *testing.T) {
	const form = `
  steps:
  - {name: a, ask: {message: "Go on?", fields: {go: boolean, note: string?}%s}}
  result: {decision: "${steps.a.decision}", value: "${steps.a.value}", reason: "${steps.a.reason}"}`
	const approval = `
  steps:
  - {name: a, ask: {message: "This?", approve: {n: "${input.n}"}%s}}
  result: {decision: "${steps.a.decision}", value: "${steps.a.value}", reason: "${steps.a.reason}"}`
	type testRun = *workflowtest.TestRun[json.RawMessage]
	cases := []struct {
		name, body, option string
		act                func(testRun)
		want, wantErr      string
	}{
		{"a form", form, "", func(r testRun) { r.Answer("a", map[string]any{"go": true}) }, `{"decision":"answer","value":{"go":true},"reason":""}`, ""},
		{"a form is declined", form, "", func(r testRun) { r.Decline("a", "no time") }, "", "step a: declined: no time"},
		{"a form is declined, and on", form, ", on_decline: continue", func(r testRun) { r.Decline("a", "no time") }, `{"decision":"decline","value":null,"reason":"no time"}`, ""},
		{"approve", approval, "", func(r testRun) { r.Answer("a", workflow.Decision{Decision: workflow.Approve}) }, `{"decision":"approve","value":{"n":3},"reason":""}`, ""},
		{"edit", approval, "", func(r testRun) { r.Answer("a", workflow.Decision{Decision: workflow.Edit, Value: `{"n":4}`}) }, `{"decision":"edit","value":{"n":4},"reason":""}`, ""},
		{"reject", approval, "", func(r testRun) { r.Answer("a", workflow.Decision{Decision: workflow.Reject, Reason: "bad"}) }, "", "step a: declined: bad"},
		{"reject, and on", approval, ", on_decline: continue", func(r testRun) { r.Answer("a", workflow.Decision{Decision: workflow.Reject, Reason: "bad"}) }, `{"decision":"reject","value":null,"reason":"bad"}`, ""},
		{"decline an approval", approval, ", on_decline: continue", func(r testRun) { r.Decline("a", "never") }, `{"decision":"reject","value":null,"reason":"never"}`, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := load(t, t.TempDir(), steps(fmt.Sprintf(strings.TrimPrefix(c.body, "\n"), c.option)), Deps{})
			workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
				run := start(env, f, `{}`)
				run.Until(workflowtest.Question("a"))
				c.act(run)
				got, err := run.Result()
				if c.wantErr != "" {
					if err == nil || !strings.Contains(err.Error(), c.wantErr) {
						t.Errorf("got %s, %v; want %q", got, err, c.wantErr)
					}
					return
				}
				mustEqual(t, got, err, c.want)
			}, f)
		})
	}
}

// A program sees the same key in each attempt, and another one in another step.
func TestRetriesAndIdempotencyKeys(t *testing.T) {
	dir := t.TempDir()
	f := load(t, dir, steps(`
  steps:
  - name: a
    run: [sh, -c, 'echo "$PERDURE_ATTEMPT $PERDURE_IDEMPOTENCY_KEY" >> keys; test "$PERDURE_ATTEMPT" = 3']
    retry: {max: 5, first: 1h, longest: 2d}
  - name: final
    run: [sh, -c, 'echo "$PERDURE_ATTEMPT $PERDURE_IDEMPOTENCY_KEY" >> keys; exit 7']
    exit: {final: [7]}
    retry: 5
    on_error: continue
  result: ok
`), Deps{})
	workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
		got, err := start(env, f, `{}`).Result()
		mustEqual(t, got, err, `"ok"`)
	}, f)
	data, err := os.ReadFile(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(data))
	if len(words) != 8 || words[0] != "1" || words[2] != "2" || words[4] != "3" || words[6] != "1" {
		t.Fatalf("attempts: %q", words)
	}
	if words[1] == "" || words[1] != words[3] || words[3] != words[5] || words[7] == words[1] {
		t.Errorf("keys: %q", words)
	}
}

// A secret reaches the program and nothing else: neither history nor result nor error.
func TestSecretsAreNotRecorded(t *testing.T) {
	const value = "hunter2+hunter2/hunter2"
	dir := t.TempDir()
	text := "secrets: {T: {env: MY_T}}\n" + steps(`
  steps:
  - {name: a, run: [sh, -c, 'printf %s "$T" > seen; echo "$T"; echo "$T" >&2; printf %s "$T" | base64; cat'], env: {T: "${secret:T}"}, stdin: "${secret:T}"}
  - {name: j, parse: json, run: [printf, "%s", '{"k": "\u0068unter2+hunter2\/hunter2"}'], env: {T: "${secret:T}"}}
  - {name: b, run: [sh, -c, 'echo "$1"; exit 1', sh, "${secret:T}"], on_error: continue}
  - {name: c, run: [sh, -c, 'echo "$T" >&2; exit 1'], env: {T: "${secret:T}"}}
`)
	f := load(t, dir, text, Deps{Env: func(name string) (string, bool) {
		if name == "MY_T" {
			return value, true
		}
		return os.LookupEnv(name)
	}})
	workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
		run := start(env, f, `{}`)
		_, err := run.Result()
		if err == nil || !strings.Contains(err.Error(), "[secret:T]") {
			t.Errorf("got %v", err)
		}
		events, jsonErr := json.Marshal(run.History())
		if jsonErr != nil {
			t.Fatal(jsonErr)
		}
		for _, e := range run.History() {
			events = append(events, fmt.Sprintf("%s\n", e.Payload)...)
		}
		if all := string(events) + err.Error(); strings.Contains(all, "hunter2") {
			t.Errorf("the secret is on record: %s", all)
		}
		if !strings.Contains(string(events), "[secret:T]") {
			t.Errorf("nothing was scrubbed: %s", events)
		}
	}, f)
	if seen, err := os.ReadFile(filepath.Join(dir, "seen")); err != nil || string(seen) != value {
		t.Errorf("the program saw %q, %v", seen, err)
	}
}

func TestAMissingSecretIsNamed(t *testing.T) {
	f := load(t, t.TempDir(), "secrets: {T: {env: MY_T}}\n"+steps(`
  steps:
  - {name: a, run: [printf, x], env: {T: "${secret:T}"}}
`), Deps{Env: func(string) (string, bool) { return "", false }})
	workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
		_, err := start(env, f, `{}`).Result()
		if err == nil || !strings.Contains(err.Error(), "secret T: the server's environment has no variable MY_T") {
			t.Errorf("got %v", err)
		}
	}, f)
}

func TestCancelIsNotSwallowed(t *testing.T) {
	dir := t.TempDir()
	begun := filepath.Join(dir, "begun")
	if err := syscall.Mkfifo(begun, 0o600); err != nil {
		t.Fatal(err)
	}
	f := load(t, dir, steps(`
  steps:
  - {name: a, run: [sh, -c, "echo > begun; sleep 600"], on_error: continue, retry: 3}
  - {name: b, run: [touch, ran]}
`), Deps{})
	workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
		run := start(env, f, `{}`)
		if _, err := os.ReadFile(begun); err != nil { // returns when the step has written
			t.Fatal(err)
		}
		run.Cancel()
		if _, err := run.Result(); err == nil {
			t.Error("the run ended well")
		}
	}, f)
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a step ran after the cancel")
	}
}

func TestArgumentsAreCheckedAtStart(t *testing.T) {
	f := load(t, t.TempDir(), steps("  steps: [{name: a, sleep: 1s}]"), Deps{})
	for input, ok := range map[string]bool{`{}`: true, ``: true, `{"n":"x"}`: false, `{"zz":1}`: false, `[]`: false} {
		if err := f.CheckInput([]byte(input)); (err == nil) != ok {
			t.Errorf("%s: %v", input, err)
		}
	}
}

// The file that `perdure init` writes works on this machine.
func TestExampleRuns(t *testing.T) {
	file, err := toolfile.Parse("example.yaml", toolfile.Example(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	report, gate := New(file.Tool("folder_report"), 1, Deps{}), New(file.Tool("gate"), 1, Deps{})
	folder := t.TempDir()
	for name, text := range map[string]string{"b.md": "1\n2\n", "a.md": "1\n", "c.txt": "x\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
		input := fmt.Sprintf(`{"path":%q,"pattern":"*.md"}`, folder)
		run := start(env, report, input)
		run.Until(workflowtest.Question("review"))
		env.Crash()
		run.Answer("review", workflow.Decision{Decision: workflow.Approve})
		got, err := run.Result()
		written := filepath.Join(folder, "perdure-report.txt")
		mustEqual(t, got, err, fmt.Sprintf("%q", "written to "+written))
		text, err := os.ReadFile(written)
		want := fmt.Sprintf("1 %s\n2 %s\n", filepath.Join(folder, "a.md"), filepath.Join(folder, "b.md"))
		if err != nil || strings.ReplaceAll(string(text), "  ", " ") != want {
			t.Errorf("the report is %q, %v; want %q", text, err, want)
		}

		run = start(env, report, fmt.Sprintf(`{"path":%q,"pattern":"*.txt"}`, folder))
		run.Until(workflowtest.Question("review"))
		run.Decline("review", "not now")
		got, err = run.Result()
		mustEqual(t, got, err, `"not written: not now"`)

		run = start(env, report, fmt.Sprintf(`{"path":%q,"pattern":"*.go"}`, folder))
		got, err = run.Result()
		mustEqual(t, got, err, `"no such files"`)

		run = start(env, gate, `{"reason":"test"}`)
		run.Until(workflowtest.Waiting)
		run.Signal("go", map[string]any{"by": "me"})
		got, err = run.Result()
		mustEqual(t, got, err, `{"reason":"test","open":true,"signal":{"by":"me"}}`)
	}, report, gate)
}
