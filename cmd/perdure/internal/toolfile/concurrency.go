package toolfile

import (
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure/cmd/perdure/internal/template"
)

// Caller is who calls a tool; the zero value on a server without authentication.
type Caller struct{ Tenant, Principal string }

// ConcurrencyOf returns the concurrency key of a call and its limit; "" and 0 where the tool has no bound, or the key is
// empty. Its error is safe to show the caller, and wraps ErrInput where the arguments do not fit.
func (t *Tool) ConcurrencyOf(c Caller, args json.RawMessage) (key string, limit int, err error) {
	if t.Concurrency == nil {
		return "", 0, nil
	}
	input, err := t.DecodeInput(args)
	if err != nil {
		return "", 0, err
	}
	key, err = t.Template(t.Concurrency.Key).Text(template.Scope{
		template.Input:  input,
		template.Run:    map[string]any{"tool": t.Name},
		template.Caller: map[string]any{"tenant": c.Tenant, "principal": c.Principal},
	}, nil, nil)
	if err != nil {
		return "", 0, fmt.Errorf("concurrency: %w", err)
	}
	if key == "" {
		return "", 0, nil
	}
	return key, t.Concurrency.Limit, nil
}
