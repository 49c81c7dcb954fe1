package engine

import (
	"context"

	"github.com/perdure/perdure/history"
)

// RunsOf returns up to limit runs that a front end started for the tenant and principal, newest first, and the
// cursor of the next page ("" where this is the last).
func (e *Engine) RunsOf(ctx context.Context, tenant, principal, cursor string, limit int) (runs []history.Run, next string, err error) {
	f := Filter{Tenant: &tenant, Principal: &principal, HasTask: true, Limit: limit, After: cursor}
	page, err := e.store.List(ctx, f)
	return page.Runs, page.Next, err
}
