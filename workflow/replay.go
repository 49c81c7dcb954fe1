package workflow

import (
	"fmt"
	"log/slog"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// Replay holds code against an exported history, whatever version the history is of: it returns an error with a readable
// difference where a run with that history would be blocked by the code. No step is run. An export of another format, or
// of another workflow, matches history.ErrInvalid.
func Replay(def Definition, x *history.Export) error {
	switch {
	case x.Format != history.ExportFormat:
		return fmt.Errorf("history has format %d, want %d: %w", x.Format, history.ExportFormat, history.ErrInvalid)
	case len(x.Events) == 0:
		return fmt.Errorf("history has no events: %w", history.ErrInvalid)
	case def.Key().Name != x.Run.Workflow:
		return fmt.Errorf("history is of %s, the code is %s: %w", x.Run.Workflow, def.Key().Name, history.ErrInvalid)
	}
	return kernel.Replay(x, def.Func(), kernel.Options{Log: slog.New(slog.DiscardHandler)})
}
