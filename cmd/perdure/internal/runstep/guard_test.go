package runstep

import (
	"errors"
	"os/exec"
	"runtime"
	"testing"
)

// A server that is killed takes its programs with it; with a guard, also what they have started.
func TestProgramsDieWithTheirParent(t *testing.T) {
	for mode, count := range map[string]int{"server": 1, "guarded-server": 3} {
		t.Run(mode, func(t *testing.T) {
			if mode == "server" && runtime.GOOS != "linux" && runtime.GOOS != "windows" {
				t.Skip("there is no parent-death signal on " + runtime.GOOS)
			}
			w := newWitness(t)
			spec := self(mode, w.address())
			server := exec.Command(spec.Program, spec.Args...)
			server.Env = spec.Env
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			conns := w.alive(count)
			if err := server.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = server.Wait() // killed
			w.dead(conns)
		})
	}
}

func TestGuardOverTime(t *testing.T) {
	t.Setenv(helperEnv, "1")
	spec := self("print", "out", "")
	guard, err := StartGuard(spec.Program, "guard")
	if err != nil {
		t.Fatal(err)
	}
	spec.Guard = guard
	for range 3 {
		if got, err := Run(t.Context(), spec, nil); err != nil || got.Stdout != "out" {
			t.Fatalf("got %+v, %v", got, err)
		}
		if len(guard.groups) != 0 {
			t.Errorf("ended groups stay: %v", guard.groups)
		}
		// A guard that has died is replaced.
		if err := guard.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := guard.cmd.Process.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	// Close kills what is at work.
	w := newWitness(t)
	spec = self("hold", w.address())
	spec.Guard = guard
	done := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), spec, nil)
		done <- err
	}()
	conns := w.alive(1)
	guard.Close()
	w.dead(conns)
	if err := <-done; err == nil {
		t.Error("a killed program is a success")
	}
	guard.Close()
	if _, err := Run(t.Context(), spec, nil); !errors.Is(err, errGuardClosed) {
		t.Errorf("a closed guard guards: %v", err)
	}
	if _, err := StartGuard("/no/such/program"); err == nil {
		t.Error("a guard that does not exist was started")
	}
}
