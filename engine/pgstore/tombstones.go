package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Tombstone implements engine.Store.
func (s *Store) Tombstone(ctx context.Context, id history.RunID) (t history.Tombstone, err error) {
	err = s.read(ctx, "tombstone", func() error {
		if t, err = s.tombstone(ctx, s.pool, id); errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("run %s: %w", id, history.ErrNotFound)
		}
		return err
	})
	return t, err
}

// Tombstones implements engine.Store. The cursor is the id of the last.
func (s *Store) Tombstones(ctx context.Context, f engine.TombstoneFilter) (p engine.TombstonePage, err error) {
	err = s.read(ctx, "tombstones", func() error {
		var c condition
		if f.After != "" {
			id, err := ulid.ParseStrict(f.After)
			if err != nil {
				return fmt.Errorf("cursor %q: %w", f.After, history.ErrInvalid)
			}
			var n int64
			if err := s.pool.QueryRow(ctx, "select n from perdure_tombstones where run = $1", id[:]).Scan(&n); errors.Is(err, pgx.ErrNoRows) {
				return fmt.Errorf("cursor %q: %w", f.After, history.ErrInvalid)
			} else if err != nil {
				return err
			}
			c.add("n > $%d", n)
		}
		if f.DeletedBefore != 0 {
			c.add("deleted_at < $%d", f.DeletedBefore)
		}
		if f.Tenant != nil {
			c.add("tenant = $%d", []byte(*f.Tenant))
		}
		if f.Workflow != "" {
			c.add("workflow = $%d", f.Workflow)
		}
		limit := limitOf(f.Limit)
		rows, err := s.pool.Query(ctx, fmt.Sprintf("select rec from perdure_tombstones where %s order by n limit %d", c.sql(), limit+1), c.args...)
		if p.Tombstones, err = records[history.Tombstone](s.codec, rows, err); err != nil {
			return err
		}
		if len(p.Tombstones) > limit {
			p.Tombstones = p.Tombstones[:limit]
			p.Next = p.Tombstones[limit-1].Run.String()
		}
		return nil
	})
	return p, err
}
