package mcptasks

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Options configures a [Server]. The zero value is useful.
type Options struct {
	// MCP is the server to extend. It may hold ordinary tools, prompts and resources, before and after.
	// Default: a new one, under Implementation.
	MCP *mcp.Server
	// Implementation names a new server. Default: perdure.
	Implementation *mcp.Implementation
	// Identify tells who sends a request. Default: [ByToken].
	Identify Identify
	// Retention is how long a task can be read after its end, where its route does not say. Unlimited leaves it to the engine's
	// policy, and is for ever where that says nothing. Default: 7 days.
	Retention time.Duration
	// SyncWait bounds how long a call waits for its result on behalf of a client that does not declare tasks, where
	// the route does not say. Default: 45 s; many clients give up after 60 s.
	SyncWait time.Duration
	// MinPoll and MaxPoll bound the polling interval that clients are advised. Default: 500 ms and 30 s.
	MinPoll, MaxPoll time.Duration
	// NoHelperTools leaves out the tools task_status, task_respond and task_cancel, by which clients that do not
	// declare tasks reach work that took longer than SyncWait.
	NoHelperTools bool
	// AnswerHint tells a person where to answer what a model may not. Default: a reference to `perdure questions`.
	AnswerHint string
	// MaxListenTasks bounds the tasks of one subscription, MaxListens the open subscriptions of one caller.
	// Default: 256 and 1,000.
	MaxListenTasks, MaxListens int
	// MaxDepth bounds the nesting of a message's JSON. Default: 128.
	MaxDepth int
	// MaxMessageBytes bounds one message. Default: 4 MiB.
	MaxMessageBytes int64
	// Logger gets what clients are not told. Default: nothing is logged.
	Logger *slog.Logger
}

// check refuses values that mean nothing.
func (o *Options) check() error {
	if o.Retention < 0 && o.Retention != Unlimited {
		return fmt.Errorf("option Retention is %s, want 0 or more, or Unlimited", o.Retention)
	}
	for name, v := range map[string]int64{
		"SyncWait": int64(o.SyncWait), "MinPoll": int64(o.MinPoll), "MaxPoll": int64(o.MaxPoll), "MaxListenTasks": int64(o.MaxListenTasks),
		"MaxListens": int64(o.MaxListens), "MaxDepth": int64(o.MaxDepth), "MaxMessageBytes": o.MaxMessageBytes,
	} {
		if v < 0 {
			return fmt.Errorf("%s must not be negative", name)
		}
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Implementation == nil {
		o.Implementation = &mcp.Implementation{Name: "perdure", Title: "Perdure", Version: "0.1.0"}
	}
	if o.Identify == nil {
		o.Identify = ByToken
	}
	o.Retention = cmp.Or(o.Retention, 7*24*time.Hour)
	o.SyncWait = cmp.Or(o.SyncWait, 45*time.Second)
	o.MinPoll = cmp.Or(o.MinPoll, 500*time.Millisecond)
	o.MaxPoll = max(cmp.Or(o.MaxPoll, 30*time.Second), o.MinPoll)
	o.AnswerHint = cmp.Or(o.AnswerHint, "A person can see and answer it with `perdure questions` and `perdure answer`.")
	o.MaxListenTasks = cmp.Or(o.MaxListenTasks, 256)
	o.MaxListens = cmp.Or(o.MaxListens, 1000)
	o.MaxDepth = cmp.Or(o.MaxDepth, 128)
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, 4<<20)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
