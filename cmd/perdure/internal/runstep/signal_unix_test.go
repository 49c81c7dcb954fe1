//go:build unix

package runstep

import (
	"errors"
	"os/signal"
	"syscall"
	"testing"
)

func ignoreTerm() { signal.Ignore(syscall.SIGTERM) }

func TestKilledBySignal(t *testing.T) {
	got, err := Run(t.Context(), Spec{Program: "sh", Args: []string{"-c", "kill -9 $$"}}, nil)
	var failure *Error
	if !errors.As(err, &failure) || got.ExitCode != 128+9 || failure.Final() {
		t.Errorf("got %+v, %v", got, err)
	}
}
