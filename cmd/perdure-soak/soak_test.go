package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestServerUnderLoadAndKillsLosesNothing is a short soak of the real server, with the race detector where this test has
// it. Longer ones: the command.
func TestServerUnderLoadAndKillsLosesNothing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM")
	}
	binary := build(t)
	var out, progress bytes.Buffer
	// Nothing is asked about how late a timer is, which the machine decides: --late only bounds the wait for a run that never ends.
	args := []string{
		"--perdure", binary, "--json", "--for", "20s", "--kill-every", "3s", "--ends", "3", "--retention", "5s", "--late", "5m",
		"--starts", "8", "--polls", "40",
	}
	code := run(t.Context(), args, &out, &progress)
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s\n%s", code, err, out.String(), progress.String())
	}
	c := r.Counts
	t.Logf("%+v", c)
	if c.Kills < 2 || c.Deploys < 1 || c.Verifications < c.Kills-c.KillsAtStart+c.Deploys {
		t.Errorf("%d kills, %d deploys, %d verifications: the server was hardly disturbed", c.Kills, c.Deploys, c.Verifications)
	}
	if c.Started != c.Ended || c.Started < 100 {
		t.Errorf("%d runs were started, %d ended", c.Started, c.Ended)
	}
	for name, n := range map[string]int{
		"timers": r.Timers.N, "signals": c.Signals, "signals sent twice": c.SignalsTwice, "answers": c.Answers, "rival answers": c.Rivals,
		"cancels": c.Cancels, "calls repeated": c.StartedTwice, "polls": c.Polls, "states by subscription": c.Notified,
		"refused steps": c.Refused, "ends read again": c.Reread, "deleted runs looked for": c.Gone,
	} {
		if n == 0 {
			t.Errorf("no %s: the soak did not do what it should", name)
		}
	}
}

// build makes the binary of the server.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "perdure")
	args := []string{"build", "-o", path}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				args = append(args, "-race")
			}
		}
	}
	if out, err := exec.CommandContext(t.Context(), "go", append(args, "../perdure")...).CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	return path
}

func TestUsage(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args string
		want string // in the error
	}{
		{"--perdure /does/not/exist", "build it with"},
		{"--starts 0", "--starts 0"},
		{"--starts NaN", "--starts NaN"},
		{"--polls 1 --starts 2", "at least as many as starts"},
		{"--for 1ms", "--for 1ms"},
		{"--kill-every 1ms", "--kill-every 1ms"},
		{"--mix nap=1,sleep=1", `"sleep=1"`},
		{"--mix nap=-1", `"nap=-1"`},
		{"--mix nap=1,nap=1", "twice"},
		{"--mix nap=0", "no kind has a weight"},
		{"--subscriptions -1", "--subscriptions -1"},
		{"--unknown", "unknown"},
		{"more", `"more"`},
	} {
		var stdout, stderr bytes.Buffer
		args := strings.Fields(test.args)
		if !strings.Contains(test.args, "--perdure") {
			args = append([]string{"--perdure", self}, args...)
		}
		if code := run(t.Context(), args, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), test.want) {
			t.Errorf("%s: exit code %d, %q; want %d and %q", test.args, code, stderr.String(), exitUsage, test.want)
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, &stdout, &stderr); code != 0 || !strings.Contains(stderr.String(), "-kill-every") {
		t.Errorf("--help: exit code %d, %q", code, stderr.String())
	}
}

// TestServerThatDoesNotStart: the soak says why, and does not wait for it.
func TestServerThatDoesNotStart(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no shell")
	}
	broken := filepath.Join(t.TempDir(), "perdure")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho 'no store today' >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--perdure", broken, "--dir", t.TempDir()}, &stdout, &stderr)
	if code != exitViolation || !strings.Contains(stderr.String(), "no store today") {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
}
