package mcptasks

import (
	"context"
	"log/slog"
)

// warnings is a handler that drops what is below a warning: the SDK has several lines for each request, because
// every stateless request is a session to it.
type warnings struct{ slog.Handler }

func (h warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.Handler.Enabled(ctx, l)
}

func (h warnings) WithAttrs(a []slog.Attr) slog.Handler { return warnings{h.Handler.WithAttrs(a)} }

func (h warnings) WithGroup(name string) slog.Handler { return warnings{h.Handler.WithGroup(name)} }

// sdkLogger is the logger that the SDK gets.
func (o *Options) sdkLogger() *slog.Logger { return slog.New(warnings{o.Logger.Handler()}) }
