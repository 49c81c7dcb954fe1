package perdure

import (
	"context"
	"fmt"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/adapter/pgserver"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/history"
)

// databaseName is the engine's database on PostgreSQL. It is dropped and made anew.
const databaseName = "perdure_bench_perdure"

// database keeps the runs in PostgreSQL, over as many connections as the peers' pools have.
type database struct{ server string }

func (d *database) open(ctx context.Context, cfg peer.Config) (engine.Store, error) {
	d.server = cfg.Postgres
	dsn, err := pgserver.Address(d.server, databaseName)
	if err != nil {
		return nil, err
	}
	if cfg.Fresh {
		if err := pgserver.Create(ctx, d.server, databaseName); err != nil {
			return nil, err
		}
		if _, err := pgstore.Migrate(ctx, dsn); err != nil {
			return nil, err
		}
	}
	s, err := pgstore.Open(context.WithoutCancel(ctx), dsn, nil)
	if err != nil { // not a nil *Store in an interface
		return nil, err
	}
	return s, nil
}

func (d *database) completed(ctx context.Context, _ bool) (int, error) {
	return pgserver.Count(ctx, d.server, databaseName, fmt.Sprintf("select count(*) from perdure_runs where status = %d", history.StatusCompleted))
}

func (d *database) durability(ctx context.Context) (peer.Durability, error) {
	pool, err := pgserver.Pool(ctx, d.server, databaseName)
	if err != nil {
		return peer.Durability{}, err
	}
	defer pool.Close()
	return pgserver.Durability(ctx, pool)
}
