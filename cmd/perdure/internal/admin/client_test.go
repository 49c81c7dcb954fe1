package admin

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
)

// A server that is stopped takes connections and says nothing. The commands say so, and do not wait for ever.
func TestServerThatDoesNotAnswer(t *testing.T) {
	dir, err := state.At(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", dir.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := NewClient(dir)
	c.prompt = c.over(20 * time.Millisecond)
	_, err = c.Server(t.Context())
	if code, hint := exit.Of(err); code != exit.Unreachable || !strings.Contains(hint, "stopped") {
		t.Errorf("%v, exit code %d, hint %q", err, code, hint)
	}
}

// An id that would make another path of the request is no run's.
func TestIDsThatWouldChangeThePath(t *testing.T) {
	dir, err := state.At(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(dir)
	for _, id := range []string{"", ".", ".."} {
		for name, try := range map[string]func() error{
			"show":   func() error { _, err := c.Run(t.Context(), id); return err },
			"cancel": func() error { _, err := c.Cancel(t.Context(), id, ""); return err },
			"answer": func() error { _, err := c.Answer(t.Context(), "x", id, AnswerRequest{}); return err },
		} {
			if code, _ := exit.Of(try()); code != exit.NotFound {
				t.Errorf("%s %q: exit code %d, want %d", name, id, code, exit.NotFound)
			}
		}
	}
}
