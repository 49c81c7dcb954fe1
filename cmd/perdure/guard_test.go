//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const guardTools = `
tools:
  - name: nest
    description: Starts a program that starts another.
    input: {pipe: string}
    steps: [{name: hold, run: [sh, -c, 'read go; sleep 300 >"$0" & wait', "${input.pipe}"], stdin: "go\n"}]
`

// A server that is killed takes with it what its steps' programs have started: otherwise it would go on beside the step's
// next attempt.
func TestKilledServerTakesTheGrandchildrenOfStepsAlong(t *testing.T) {
	p := newPlace(t, guardTools)
	pipe := filepath.Join(p.folder, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	p.start("serve", "--socket")
	s := p.server(0)
	if out, err := p.command("call", "nest", "pipe="+pipe, "--detach").CombinedOutput(); err != nil {
		t.Fatalf("call: %v\n%s", err, out)
	}
	held, err := os.Open(pipe) // returns when the grandchild has it open too
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	p.kill(s.PID)
	if err := held.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(held); err != nil { // ends when no process of the step is left
		t.Error(err)
	}
}
