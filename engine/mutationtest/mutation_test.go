// Package mutationtest plants bugs, one at a time, and demands that the tests find each: a suite that nothing can fail proves
// nothing. The list is in mutations_test.go. It is the documentation of which part of the suite guards what.
//
// A bug is planted by an overlay: the tree does not change. Where its old text is no longer in the code exactly once the
// mutation is stale, and the test fails: move it to where the code went, or take it off the list with its reason.
//
//	go test -run 'TestPlantedBugsAreFound/a_second_answer_wins' -v ./engine/mutationtest      one bug, with what its test says
package mutationtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/engine/internal/overlay"
)

const (
	// parallel is how many test binaries are built and run at once.
	parallel = 2
	// limit bounds one run of the tests: a bug may make them hang.
	limit = time.Minute
)

// TestPlantedBugsAreFound builds the tests of each bug with and without it, without the race detector, and runs them: they must
// pass without it and fail with it.
func TestPlantedBugsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds some thirty test binaries")
	}
	root, err := overlay.Root()
	if err != nil {
		t.Fatal(err)
	}
	list := mutations()
	sound := buildSound(t, root, list)
	slots := make(chan struct{}, parallel)
	for _, m := range list {
		t.Run(m.bug, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			dir := t.TempDir()
			o, err := overlay.Write(dir, root, m.edits...)
			if err != nil {
				t.Fatal(err)
			}
			mutant := filepath.Join(dir, "mutant.test")
			build(t, root, m.pkg, mutant, o.Flags...)
			out, err := run(t, root, m, sound[m.pkg], limit)
			switch {
			case err == nil && strings.Contains(out, "--- SKIP"):
				t.Skipf("%s -run %s is skipped here:\n%s", m.pkg, m.run, out)
			case err != nil || !passed(out, m.run):
				t.Fatalf("%s -run %s does not pass without the bug: %v\n%s", m.pkg, m.run, err, out)
			}
			out, err = run(t, root, m, mutant, limit)
			switch {
			case err == nil:
				t.Fatalf("%s -run %s does not find the bug", m.pkg, m.run)
			case !strings.Contains(out, "--- FAIL") && !strings.Contains(out, "panic:"):
				t.Fatalf("%s -run %s ended without a verdict: %v\n%s", m.pkg, m.run, err, out)
			}
			t.Logf("%s finds it (%s, -run %s)%s", m.part, m.pkg, m.run, others(m.also))
			t.Logf("%.2000s", out)
		})
	}
}

// TestCrashMatrixFindsPlantedBugs kills children that have the bugs of which the list says that the matrix finds them too. It
// takes minutes: PERDURE_MUTATIONS=all runs it.
func TestCrashMatrixFindsPlantedBugs(t *testing.T) {
	if os.Getenv("PERDURE_MUTATIONS") != "all" {
		t.Skip("PERDURE_MUTATIONS=all runs it")
	}
	root, err := overlay.Root()
	if err != nil {
		t.Fatal(err)
	}
	const pkg = "engine/crashtest"
	binary := filepath.Join(t.TempDir(), "crash.test")
	build(t, root, pkg, binary)
	for _, m := range mutations() {
		if !strings.Contains(m.also, crash) {
			continue
		}
		t.Run(m.bug, func(t *testing.T) {
			edits, err := json.Marshal(m.edits)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "edits.json")
			if err := os.WriteFile(file, edits, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := run(t, root, mutation{pkg: pkg, run: "TestCrashMatrix/stores/[0-2]$"}, binary, 10*limit, "PERDURE_CRASH_EDITS="+file)
			if err == nil || !strings.Contains(out, "judge_test.go:") && !strings.Contains(out, "ended by itself") {
				t.Errorf("the crash matrix does not find the bug: %v\n%s", err, out)
			}
			t.Logf("%.1500s", verdicts(out))
		})
	}
}

// TestSoakFindsPlantedBugs runs cmd/perdure-soak for half a minute against servers that have the bugs of which the list says that
// it finds them, and against one that has none. It takes minutes: PERDURE_MUTATIONS=all runs it.
func TestSoakFindsPlantedBugs(t *testing.T) {
	if os.Getenv("PERDURE_MUTATIONS") != "all" {
		t.Skip("PERDURE_MUTATIONS=all runs it")
	}
	root, err := overlay.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	command := func(to, pkg string, flags ...string) string {
		t.Helper()
		path := filepath.Join(dir, to)
		cmd := exec.CommandContext(t.Context(), "go", slices.Concat([]string{"build", "-o", path}, flags, []string{"./cmd/" + pkg})...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", pkg, err, out)
		}
		return path
	}
	watcher := command("soak", "perdure-soak")
	soaked := func(server string) (out []byte, code int) {
		t.Helper()
		ctx, stop := context.WithTimeout(t.Context(), 5*limit)
		defer stop()
		cmd := exec.CommandContext(ctx, watcher, "--perdure", server, "--for", "25s", "--kill-every", "8s", "--ends", "2", "--retention", "5s", "--late", "60s",
			"--starts", "8", "--polls", "40")
		cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if code = cmd.ProcessState.ExitCode(); code < 0 || code > 1 {
			t.Fatalf("exit code %d, %v\n%s", code, err, out)
		}
		return out, code
	}
	if out, code := soaked(command("sound", "perdure")); code != 0 {
		t.Fatalf("it finds something where no bug is planted:\n%s", out)
	}
	for _, m := range mutations() {
		if !strings.Contains(m.also, soak) {
			continue
		}
		t.Run(m.bug, func(t *testing.T) {
			o, err := overlay.Write(t.TempDir(), root, m.edits...)
			if err != nil {
				t.Fatal(err)
			}
			out, code := soaked(command("mutant", "perdure", o.Flags...))
			if code == 0 {
				t.Errorf("the soak does not find the bug:\n%s", out)
			}
			t.Logf("%.2500s", out)
		})
	}
}

// verdicts are the lines of the output that say what is wrong.
func verdicts(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if strings.Contains(line, "_test.go:") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func others(also string) string {
	if also == "" {
		return ""
	}
	return "; so does " + also
}

// buildSound builds the tests of each package as they are.
func buildSound(t *testing.T, root string, list []mutation) map[string]string {
	t.Helper()
	dir, sound := t.TempDir(), map[string]string{}
	for _, m := range list {
		if sound[m.pkg] == "" {
			sound[m.pkg] = filepath.Join(dir, fmt.Sprintf("sound-%d.test", len(sound)))
			build(t, root, m.pkg, sound[m.pkg])
		}
	}
	return sound
}

// build builds the tests of a package. It must succeed: code that does not compile is no mutation.
func build(t *testing.T, root, pkg, to string, flags ...string) {
	t.Helper()
	args := slices.Concat([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", to}, flags, []string{"./" + pkg})
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// run runs the tests of a mutation in a binary, and returns what they say. The error is nil where they pass.
func run(t *testing.T, root string, m mutation, binary string, limit time.Duration, env ...string) (string, error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 2*limit)
	defer stop()
	cmd := exec.CommandContext(ctx, binary, "-test.run", pattern(m.run), "-test.v", "-test.timeout", limit.String())
	cmd.Dir, cmd.Env = filepath.Join(root, filepath.FromSlash(m.pkg)), append(append(os.Environ(), "TMPDIR="+scratch(t)), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var failed *exec.ExitError
	if err != nil && (!errors.As(err, &failed) || ctx.Err() != nil) {
		t.Fatalf("%s: %v\n%s", m.pkg, err, out.String())
	}
	return out.String(), err
}

// passed reports whether something that the pattern names has passed: a test whose parts it does not name passes too.
func passed(out, pattern string) bool {
	if strings.Contains(pattern, "/") {
		return strings.Contains(out, "    --- PASS")
	}
	return strings.Contains(out, "--- PASS")
}

// scratch is a folder for what a test leaves behind that a bug ends. PostgreSQL, which does not run as root, must be able to enter
// it, and a path to a socket is short: neither holds for a folder of t.TempDir.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mutation-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// pattern is the names with their spaces as go test has them.
func pattern(run string) string { return strings.ReplaceAll(run, " ", "_") }

// TestMutationsSayWhatTheyAre checks the list itself: it is documentation. None may be stale.
func TestMutationsSayWhatTheyAre(t *testing.T) {
	root, err := overlay.Root()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range mutations() {
		if _, err := overlay.Write(t.TempDir(), root, m.edits...); err != nil {
			t.Errorf("%s: %v", m.bug, err)
		}
		if m.bug == "" || m.part == "" || m.pkg == "" || m.run == "" || len(m.edits) == 0 || seen[m.bug] {
			t.Errorf("incomplete, or twice: %+v", m)
		}
		seen[m.bug] = true
	}
	if len(seen) <= 25 { // docs/guarantees.md says so
		t.Errorf("%d mutations, want more than 25", len(seen))
	}
}
