package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// standstill is how long a transaction may be left alone by its process before the server ends it. A process that is stopped in
// the middle of a write, or whose machine is gone without a word, has rows locked until then, and nobody can take its runs over.
// It is less than what is left of a default lease (30 s) when its holder stops, so that it delays no takeover.
const standstill = "5s"

// limitStandstill is called for each new connection. What the connection string, the role or the database sets stays.
func limitStandstill(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, `select set_config('idle_in_transaction_session_timeout', $1, false)
		where current_setting('idle_in_transaction_session_timeout') = '0'`, standstill)
	return err
}
