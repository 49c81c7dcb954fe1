package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/demo"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
)

func TestDemo(t *testing.T) {
	p := newPlace(t, "")
	folder := filepath.Join(p.folder, "real")
	for name, text := range map[string]string{"a/one.txt": "1\n2\n", "a/two.txt": "3\n", "b/c/three.txt": "4\n5\n", "top": "6\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tmp := filepath.Join(p.folder, "tmp")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := p.command("demo", folder, "--json")
	cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
	var story output
	cmd.Stderr = &story
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, story.String())
	}
	var r demo.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var counts struct{ Files, Lines int }
	if err := json.Unmarshal(r.Result, &counts); err != nil {
		t.Fatal(err)
	}
	if !r.OK() || len(r.Servers) != 3 || counts.Files != 4 || counts.Lines != 6 {
		t.Errorf("the report is %s", out)
	}
	for _, want := range []string{"kill -9", "between two steps", "inside the step write", "is answered: approve"} {
		if !story.contains(want) {
			t.Errorf("the story does not say %q:\n%s", want, story.String())
		}
	}
	left, err := os.ReadDir(tmp)
	for _, e := range left {
		if strings.HasPrefix(e.Name(), "perdure-demo") {
			t.Errorf("left behind: %s", e.Name())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A demo that is killed does not leave its server behind.
func TestKilledDemoLeavesNoServer(t *testing.T) {
	p := newPlace(t, "")
	tmp := filepath.Join(p.folder, "tmp")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := p.command("demo", p.folder)
	cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // where the test has not
	var client *admin.Client
	var server admin.Server
	p.until(func(ctx context.Context) (bool, string) {
		found, _ := filepath.Glob(filepath.Join(tmp, "perdure-demo-*", "state")) // the pattern is good
		if len(found) != 1 {
			return false, "the demo has no state folder"
		}
		dir, err := state.At(found[0])
		if err != nil {
			return false, err.Error()
		}
		client = admin.NewClient(dir)
		server, err = client.Server(ctx)
		return err == nil, fmt.Sprint(err)
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	p.until(func(ctx context.Context) (bool, string) {
		_, err := client.Server(ctx)
		return err != nil, fmt.Sprintf("server %d is still there", server.PID)
	})
}
