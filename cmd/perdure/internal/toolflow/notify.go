package toolflow

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/template"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
)

// OpenQuestion is what a hook learns of a question: question in its templates, and as JSON its stdin or body where
// the file gives none.
type OpenQuestion struct {
	Key      string          `json:"key"`
	RunID    string          `json:"run_id"`
	Tool     string          `json:"tool"`
	Message  string          `json:"message"`
	Approval bool            `json:"approval"`
	Proposal json.RawMessage `json:"proposal,omitempty"`
	Schema   json.RawMessage `json:"schema,omitempty"`
}

// Notify executes the hook for a question, with the timeout and the retries that the file gives it. A retry helps only
// against what passes by; the error is that of the last attempt.
func Notify(ctx context.Context, hook *toolfile.Notify, q OpenQuestion, deps Deps) error {
	data, err := encode(q)
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	value, err := template.Decode(data)
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	scope := template.Scope{
		template.Question: value,
		template.Run:      map[string]any{"id": q.RunID, "tool": q.Tool},
	}
	x := executor{texts: hook, secrets: hook.Secrets, private: hook.AllowPrivate, input: string(data), deps: deps}
	retry := toolfile.Retry{Max: 1}
	if hook.Retry != nil {
		retry = *hook.Retry
	}
	delay := time.Duration(retry.First)
	for attempt := 1; ; attempt++ {
		failed := x.attempt(ctx, &hook.Step, scope, identity{run: q.RunID, key: q.RunID + "/" + q.Key, attempt: attempt})
		if failed == nil {
			return nil
		}
		if failed.final || attempt >= retry.Max || !pause(ctx, delay) {
			return fmt.Errorf("notify: %w", failed)
		}
		delay = min(time.Duration(float64(delay)*retry.Factor), time.Duration(retry.Longest))
	}
}

// pause waits; false means that the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (x executor) attempt(ctx context.Context, s *toolfile.Step, scope template.Scope, id identity) *failure {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.Timeout))
	defer cancel()
	_, failed := x.execute(ctx, s, scope, id)
	return failed
}
