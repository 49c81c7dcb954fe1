package present

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/history"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Every kind of event has its line; the golden file shows how a run reads.
func TestTimeline(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	fail := &history.Failure{Kind: history.FailureApplication, Message: "exit code 3\n\x1b[31mred"}
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	events := []admin.Event{
		{Kind: admin.Kind(history.RunStarted), Payload: raw(`{"folder": "/srv"}`)},
		{Kind: admin.Kind(history.StatusReported), Message: "listing", Epoch: 1, At: at(1)},
		{Kind: admin.Kind(history.StepCompleted), Position: "list#0", Attempt: 1, Epoch: 1, At: at(12), Payload: raw(`{"run":{"exit_code":0,"stdout":"a\nb\n","stderr":""}}`)},
		{Kind: admin.Kind(history.OperatorActed), Name: history.VerbRetry, Key: "01KBD3X0V9N6T0Q8M7S2R4W5YZ", By: "operator me", Message: "mended", At: at(12)},
		{Kind: admin.Kind(history.BranchesOpened), Position: "each#0", Names: []string{"0", "1"}, Epoch: 1, At: at(12)},
		{Kind: admin.Kind(history.StepRetried), Position: "each#0[0]/each#0", Attempt: 1, Failure: fail, Due: at(1012), Epoch: 1, At: at(13)},
		{Kind: admin.Kind(history.StepCompleted), Position: "each#0[0]/each#0", Attempt: 2, Epoch: 2, At: at(1020), Payload: raw(`{"http":{"status":201,"body":"ok"}}`)},
		{Kind: admin.Kind(history.StepFailed), Position: "each#0[1]/each#1", Attempt: 1, Failure: fail, Epoch: 2, At: at(1021)},
		{Kind: admin.Kind(history.BranchesDecided), Position: "each#0", Name: "1", Epoch: 2, At: at(1021)},
		{Kind: admin.Kind(history.BranchesClosed), Position: "each#0", Epoch: 2, At: at(1021)},
		{Kind: admin.Kind(history.StepStarted), Position: "pay#0", Epoch: 2, At: at(1021)},
		{Kind: admin.Kind(history.StepCompleted), Position: "pay#0", Epoch: 2, At: at(1022), Payload: raw(`{"error":"no money"}`)},
		{Kind: admin.Kind(history.TimerSet), Position: "sleep#0", Due: at(90_000), Epoch: 2, At: at(1022)},
		{Kind: admin.Kind(history.TimerFired), Position: "sleep#0", Epoch: 3, At: at(90_001)},
		{Kind: admin.Kind(history.ReceiveOpened), Position: "paid#0", Names: []string{"paid"}, Due: at(95_000), Epoch: 3, At: at(90_001)},
		{Kind: admin.Kind(history.SignalReceived), Position: "paid#0", Name: "paid", Epoch: 3, At: at(91_000), Payload: raw(`{"amount":3}`)},
		{Kind: admin.Kind(history.ReceiveTimedOut), Position: "paid#1", Epoch: 3, At: at(96_000)},
		{Kind: admin.Kind(history.InterruptOpened), Position: "ok#0", Key: "ok#0", Epoch: 3, At: at(96_000), Payload: raw(`{"message":"Go on?","approval":true}`)},
		{Kind: admin.Kind(history.InterruptAnswered), Position: "ok#0", Key: "ok#0", By: "operator me", Epoch: 3, At: at(97_000), Payload: raw(`{"action":"decline","reason":"not now"}`)},
		{Kind: admin.Kind(history.InterruptTimedOut), Position: "ok#1", Epoch: 3, At: at(98_000)},
		{Kind: admin.Kind(history.ValueRecorded), Position: "now#0", Epoch: 3, At: at(98_000), Payload: raw(`"2026-03-01T12:00:00Z"`)},
		{Kind: admin.Kind(history.ChildStarted), Position: "sub#0", Name: "sub", Key: "k", Epoch: 3, At: at(98_000)},
		{Kind: admin.Kind(history.CancelRequested), By: "operator me", Message: "enough", Epoch: 3, At: at(98_500)},
		{Kind: admin.Kind(history.OperationCanceled), Position: "nap#0", Epoch: 3, At: at(98_500)},
		{Kind: admin.Kind(history.RunCanceled), Message: "enough", Epoch: 3, At: at(99_000)},
		{Kind: admin.Kind(history.RunFailed), Failure: fail, At: at(99_001)},
		{Kind: admin.Kind(history.RunCompleted), At: at(99_002), Erased: true},
	}
	for i := range events {
		events[i].Seq = uint64(i + 1)
		if events[i].At.IsZero() {
			events[i].At = began
		}
	}
	var short, full bytes.Buffer
	Timeline(&short, events, false)
	Timeline(&full, events, true)
	golden(t, "timeline.txt", short.String())
	golden(t, "timeline-full.txt", full.String())
	if strings.Contains(short.String()+full.String(), "\x1b") {
		t.Error("an escape sequence reaches the terminal")
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s", name, got)
	}
}

func TestTextsAreHarmless(t *testing.T) {
	for in, want := range map[string]string{
		"plain":           "plain",
		"two\nlines\ttab": "two lines tab",
		"\x1b]0;title\a":  "�]0;title�",
		"\u202egnp.exe":   "�gnp.exe",
		"\u009b31mred":    "�31mred",
		"ünï©ode 語":       "ünï©ode 語",
	} {
		if got := Clip(in, 0); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	if got := Clip("0123456789ä", 10); got != "012345678…" {
		t.Errorf("a long text becomes %q", got)
	}
	if got := Safe("a\nb\x1b[2J"); got != "a\nb�[2J" {
		t.Errorf("several lines become %q", got)
	}
}

// What is shown of a run is the same each time, also where it comes from a map.
func TestTagsAreSorted(t *testing.T) {
	var b strings.Builder
	d := &admin.Detail{Run: admin.Run{Tags: map[string]string{"d": "4", "b": "2", "a": "1", "c": "3", "e": "5"}}}
	Header(&b, d, time.Unix(0, 0), false)
	var tags []string
	for _, row := range strings.Split(b.String(), "\n") {
		if fields := strings.Fields(row); len(fields) == 2 && fields[0] == "tag" {
			tags = append(tags, fields[1])
		}
	}
	if got := strings.Join(tags, " "); got != "a=1 b=2 c=3 d=4 e=5" {
		t.Errorf("the tags are %q", got)
	}
}

func TestFieldsNameWhatListsHold(t *testing.T) {
	got := Fields(json.RawMessage(`{"properties":{"l":{"type":"array","items":{"type":"string"}},"any":{"type":"array"}},"required":["l"]}`))
	if want := []string{"l: list of string", "any: array (optional)"}; !slices.Equal(got, want) {
		t.Errorf("the fields are %q, want %q", got, want)
	}
}

func TestSpans(t *testing.T) {
	for d, want := range map[time.Duration]string{
		3 * time.Millisecond: "3ms", 1500 * time.Millisecond: "1.5s", 61 * time.Second: "1m01s", 25 * time.Hour: "25h00m", 72 * time.Hour: "3d",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
