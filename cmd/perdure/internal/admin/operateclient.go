package admin

import (
	"context"
	"encoding/json"
	"net/url"
)

// Pause stops a run until Resume.
func (c *Client) Pause(ctx context.Context, id, reason string) (Run, error) {
	return post[Run](ctx, c, runPath(id, "/pause"), EndRequest{Reason: reason})
}

// Resume lets a paused run go on.
func (c *Client) Resume(ctx context.Context, id, reason string) (Run, error) {
	return post[Run](ctx, c, runPath(id, "/resume"), EndRequest{Reason: reason})
}

// Retry retries a run.
func (c *Client) Retry(ctx context.Context, id string, req RetryRequest) (Successor, error) {
	return post[Successor](ctx, c, runPath(id, "/retry"), req)
}

// Fork forks a run.
func (c *Client) Fork(ctx context.Context, id string, req ForkRequest) (Successor, error) {
	return post[Successor](ctx, c, runPath(id, "/fork"), req)
}

// Redeliver sends a dead letter on.
func (c *Client) Redeliver(ctx context.Context, id string, req RedeliverRequest) (SignalResult, error) {
	return post[SignalResult](ctx, c, runPath(id, "/redeliver"), req)
}

// Decide settles an at-most-once step.
func (c *Client) Decide(ctx context.Context, id string, req DecideRequest) (Run, error) {
	return post[Run](ctx, c, runPath(id, "/decide"), req)
}

// Export returns a run with its history, as history.Export.
func (c *Client) Export(ctx context.Context, id string) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, runPath(id, "/export"))
}

// Bulk acts on a page of the runs that q selects; see Runs.
func (c *Client) Bulk(ctx context.Context, q url.Values, req BulkRequest) (BulkPage, error) {
	return post[BulkPage](ctx, c, "/v1/bulk?"+q.Encode(), req)
}

// Schedules lists the schedules.
func (c *Client) Schedules(ctx context.Context) ([]Schedule, error) {
	return get[[]Schedule](ctx, c, "/v1/schedules")
}

// Schedule returns a schedule.
func (c *Client) Schedule(ctx context.Context, name string) (Schedule, error) {
	return get[Schedule](ctx, c, "/v1/schedules/"+url.PathEscape(name))
}

// CreateSchedule makes a schedule.
func (c *Client) CreateSchedule(ctx context.Context, name string, req ScheduleRequest) (Schedule, error) {
	return post[Schedule](ctx, c, "/v1/schedules/"+url.PathEscape(name), req)
}

// ChangeSchedule does verb (pause, resume, trigger or delete) to a schedule.
func (c *Client) ChangeSchedule(ctx context.Context, name, verb string) (Schedule, error) {
	return post[Schedule](ctx, c, "/v1/schedules/"+url.PathEscape(name)+"/"+verb, struct{}{})
}
