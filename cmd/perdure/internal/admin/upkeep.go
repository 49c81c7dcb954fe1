package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/exportfile"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

// Retention is what the handler needs of the engine's retention.
type Retention interface {
	RetentionPolicy() history.RetentionPolicy
	Sweep(ctx context.Context, by string) (engine.Swept, error)
	Tombstones(ctx context.Context, f engine.TombstoneFilter) (engine.TombstonePage, error)
	PlaceHold(ctx context.Context, h history.Hold) (history.Hold, error)
	ReleaseHold(ctx context.Context, id history.RunID, by, reason string) (history.Hold, error)
	Holds(ctx context.Context, all bool) ([]history.Hold, error)
	ExportFinished(ctx context.Context, f engine.Filter, to engine.Exporter) (int, error)
	RetentionJournal(ctx context.Context, from uint64, limit int) ([]history.Entry, error)
}

// Store is what the handler needs of the store.
type Store interface {
	Stats(ctx context.Context) (boltstore.Stats, error)
	Backup(ctx context.Context, w io.Writer, size func(int64)) (int64, error)
}

// RetentionState is the policy of a server and what stands in its way.
type RetentionState struct {
	Policy history.RetentionPolicy `json:"policy"`
	// File is where the policy comes from, Exports the file that runs are exported to before they leave.
	File    string `json:"file,omitempty"`
	Exports string `json:"exports,omitempty"`

	Holds []history.Hold `json:"holds"`
}

// HoldRequest places a hold on a run, a workflow or a tenant.
type HoldRequest struct {
	Run      string  `json:"run,omitempty"`
	Workflow string  `json:"workflow,omitempty"`
	Tenant   *string `json:"tenant,omitempty"`
	Reason   string  `json:"reason"`
}

func (h *Handler) upkeep(handle func(pattern string, fn func(r *http.Request) (any, error))) {
	handle("GET /v1/stats", func(r *http.Request) (any, error) { return h.Store.Stats(r.Context()) })
	handle("GET /v1/retention", h.retention)
	handle("POST /v1/retention/sweep", func(r *http.Request) (any, error) { return h.Retention.Sweep(r.Context(), by(r)) })
	handle("POST /v1/retention/export", h.exportFinished)
	handle("POST /v1/retention/holds", h.placeHold)
	handle("POST /v1/retention/holds/{id}/release", h.releaseHold)
	handle("GET /v1/retention/tombstones", h.tombstones)
	handle("GET /v1/retention/journal", h.journal)
}

func (h *Handler) retention(r *http.Request) (any, error) {
	holds, err := h.Retention.Holds(r.Context(), r.URL.Query().Get("all") == "true")
	if err != nil {
		return nil, err
	}
	out := RetentionState{Policy: h.Retention.RetentionPolicy(), File: h.PolicyFile, Exports: h.Exports, Holds: holds}
	if out.Policy == nil {
		out.Policy = history.RetentionPolicy{}
	}
	if out.Holds == nil {
		out.Holds = []history.Hold{}
	}
	return out, nil
}

// ExportRequest exports finished runs, of one workflow or all, to a file that the server appends to.
type ExportRequest struct {
	File     string `json:"file"` // absolute
	Workflow string `json:"workflow,omitempty"`
}

// Exported says how many runs were exported.
type Exported struct {
	File string `json:"file"`
	Runs int    `json:"runs"`
}

func (h *Handler) exportFinished(r *http.Request) (out any, err error) {
	var req ExportRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(req.File) {
		return nil, exit.New(exit.Usage, "", "file %q: want an absolute path", req.File)
	}
	to, err := exportfile.Open(req.File)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	n, err := h.Retention.ExportFinished(r.Context(), engine.Filter{Workflow: req.Workflow}, to)
	return Exported{File: req.File, Runs: n}, err
}

func (h *Handler) placeHold(r *http.Request) (any, error) {
	var req HoldRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	hold := history.Hold{Workflow: req.Workflow, Tenant: req.Tenant, By: by(r), Reason: req.Reason, Scope: history.HoldTenant}
	switch {
	case req.Run != "":
		id, err := ulid.ParseStrict(req.Run)
		if err != nil {
			return nil, exit.New(exit.Usage, "list them with: perdure runs", "a hold names a run by its id, %q is none", req.Run)
		}
		hold.Scope, hold.Run = history.HoldRun, id
	case req.Workflow != "":
		hold.Scope = history.HoldWorkflow
	}
	return h.Retention.PlaceHold(r.Context(), hold)
}

func (h *Handler) releaseHold(r *http.Request) (any, error) {
	var req EndRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	id, err := ulid.ParseStrict(r.PathValue("id"))
	if err != nil {
		return nil, exit.New(exit.Usage, "list them with: perdure retention", "%q is no id of a hold", r.PathValue("id"))
	}
	return h.Retention.ReleaseHold(r.Context(), id, by(r), req.Reason)
}

func number(r *http.Request, name string, def uint64) (uint64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, exit.New(exit.Usage, "", "%s %q: want a number", name, text)
	}
	return n, nil
}

func (h *Handler) tombstones(r *http.Request) (any, error) {
	limit, err := number(r, "limit", 50)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	page, err := h.Retention.Tombstones(r.Context(), engine.TombstoneFilter{Workflow: q.Get("workflow"), After: q.Get("after"), Limit: int(limit)})
	if page.Tombstones == nil {
		page.Tombstones = []history.Tombstone{}
	}
	return page, err
}

func (h *Handler) journal(r *http.Request) (any, error) {
	from, err := number(r, "from", 1)
	if err != nil {
		return nil, err
	}
	entries, err := h.Retention.RetentionJournal(r.Context(), from, 1000)
	if entries == nil {
		entries = []history.Entry{}
	}
	return entries, err
}

// backup streams the store's file. Its length is announced, so that a client knows a part from the whole.
func (h *Handler) backup(w http.ResponseWriter, r *http.Request) {
	begun := false
	_, err := h.Store.Backup(r.Context(), w, func(size int64) {
		begun = true
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	})
	switch {
	case err == nil:
	case !begun:
		h.refuse(w, r, err)
	case !errors.Is(err, context.Canceled):
		h.Log.ErrorContext(r.Context(), "a backup broke off", "error", err)
	}
}

// Stats returns how the store stands.
func (c *Client) Stats(ctx context.Context) (boltstore.Stats, error) {
	return get[boltstore.Stats](ctx, c, "/v1/stats")
}

// Retention returns the policy and the holds, the released ones too where all is set.
func (c *Client) Retention(ctx context.Context, all bool) (RetentionState, error) {
	return get[RetentionState](ctx, c, "/v1/retention?all="+strconv.FormatBool(all))
}

// Sweep deletes what is due.
func (c *Client) Sweep(ctx context.Context) (engine.Swept, error) {
	return post[engine.Swept](ctx, c, "/v1/retention/sweep", struct{}{})
}

// ExportFinished exports finished runs to a file.
func (c *Client) ExportFinished(ctx context.Context, req ExportRequest) (Exported, error) {
	return post[Exported](ctx, c, "/v1/retention/export", req)
}

// PlaceHold places a legal hold, another one with each call: who got no answer looks at the holds before it calls again.
func (c *Client) PlaceHold(ctx context.Context, req HoldRequest) (history.Hold, error) {
	return post[history.Hold](ctx, c, "/v1/retention/holds", req)
}

// ReleaseHold releases a legal hold.
func (c *Client) ReleaseHold(ctx context.Context, id, reason string) (history.Hold, error) {
	return post[history.Hold](ctx, c, "/v1/retention/holds/"+id+"/release", EndRequest{Reason: reason})
}

// Tombstones returns what is left of deleted runs; query has the parameters of the request: workflow, limit, after.
func (c *Client) Tombstones(ctx context.Context, query string) (engine.TombstonePage, error) {
	return get[engine.TombstonePage](ctx, c, "/v1/retention/tombstones?"+query)
}

// Erase erases the payloads of a run that is over.
func (c *Client) Erase(ctx context.Context, run, reason string) (Erased, error) {
	return post[Erased](ctx, c, "/v1/runs/"+url.PathEscape(run)+"/erase", EndRequest{Reason: reason})
}

// Journal returns what was done that no run's history tells, from entry from on.
func (c *Client) Journal(ctx context.Context, from uint64) ([]history.Entry, error) {
	return get[[]history.Entry](ctx, c, "/v1/retention/journal?from="+strconv.FormatUint(from, 10))
}

// Backup writes the store's file to f and syncs it.
func (c *Client) Backup(ctx context.Context, f *os.File) (int64, error) {
	res, err := c.request(ctx, http.MethodGet, "/v1/backup", nil)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	n, err := io.Copy(f, res.Body)
	if err != nil {
		return n, exit.New(exit.Failed, "", "the backup broke off after %d bytes: %w", n, err)
	}
	return n, f.Sync()
}
