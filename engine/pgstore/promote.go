package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Promotion says what Promote did.
type Promotion struct {
	// From and To are the promotion before and after: the first half of all tokens from now on.
	From, To int64
	// Leases is how many were ended.
	Leases int
}

// Promote is called after a replica became the primary that may lack the last commits of the one before: of those nobody knows
// which tokens they gave out. It raises the promotion, which is the first half of every fencing token, and ends all leases, in
// one transaction. So no worker from before can write, and its runs go on from what is there. dsn is a connection string as
// for Open. It cannot keep workers from a primary that still runs: that is to be shut off first.
func Promote(ctx context.Context, dsn string) (p Promotion, err error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return p, fmt.Errorf("pgstore: promote: %w", safe(err))
	}
	defer pool.Close()
	if err := checkSchema(ctx, pool); err != nil {
		return p, err
	}
	for try := range tries {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
			p, err = promote(ctx, tx)
			return err
		})
		if !repeatable(err) || wait(ctx, try) != nil {
			break
		}
	}
	if err != nil {
		return Promotion{}, fmt.Errorf("pgstore: promote: %w", typed(err))
	}
	return p, nil
}

func promote(ctx context.Context, tx pgx.Tx) (p Promotion, err error) {
	var standby bool
	if err := tx.QueryRow(ctx, "select pg_is_in_recovery()").Scan(&standby); err != nil {
		return p, err
	}
	if standby {
		return p, errors.New("the database is a standby still: promote it first (pg_ctl promote)")
	}
	err = tx.QueryRow(ctx, "update perdure_meta set value = value + 1 where name = 'promotion' returning value - 1, value").Scan(&p.From, &p.To)
	if err != nil {
		return p, err
	}
	ended, err := tx.Exec(ctx, "update perdure_runs set lease_until = null, claimed = true where lease_until is not null")
	if err != nil {
		return p, err
	}
	p.Leases = int(ended.RowsAffected())
	_, err = tx.Exec(ctx, "update perdure_cleanup set lease_until = 0")
	return p, err
}
