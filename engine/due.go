package engine

import (
	"context"

	"github.com/perdure/perdure/history"
)

// due is what the engine's timers wake runs by: it implements timer.Source.
type due struct{ engine *Engine }

func (d due) Now() history.Time { return d.engine.store.Now() }

// WakeDue has the worker begin with what is woken at once, without a claim, where the worker has room for it.
func (d due) WakeDue(ctx context.Context, limit int) (woken int, next history.Time, err error) {
	e := d.engine
	if e.direct == nil {
		return e.store.WakeDue(ctx, limit)
	}
	room, ok := e.worker.ReserveWaking(limit)
	if !ok {
		return e.store.WakeDue(ctx, limit)
	}
	var claims []history.Claim
	defer func() { room.Take(claims) }()
	req := room.Request()
	claims, woken, next, err = e.direct.WakeClaimed(ctx, req.Max, req)
	return woken, next, err
}
