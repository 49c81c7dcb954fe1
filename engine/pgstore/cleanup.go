package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// LeaseCleanup implements engine.Store.
func (s *Store) LeaseCleanup(ctx context.Context, owner string, ttl time.Duration) (token history.Token, err error) {
	if owner == "" || ttl <= 0 {
		return token, fmt.Errorf("pgstore: lease clean-up: owner %q, ttl %s: %w", owner, ttl, history.ErrInvalid)
	}
	err = s.write(ctx, "lease clean-up", nil, func(w *write) error {
		c, err := w.cleaner(ctx)
		if err != nil {
			return err
		}
		running := c.until > w.at
		if running && c.owner != owner {
			return fmt.Errorf("%q cleans up: %w", c.owner, history.ErrFenced)
		}
		if !running {
			if err := w.conn.QueryRow(ctx, "select value, nextval('perdure_tokens') from perdure_meta where name = 'promotion'").Scan(&c.token.Epoch, &c.token.Counter); err != nil {
				return err
			}
		}
		token = c.token
		w.batch.Queue("update perdure_cleanup set owner = $1, opening = $2, token_epoch = $3, token = $4, lease_until = $5",
			owner, w.opening, int64(token.Epoch), int64(token.Counter), w.at.Add(ttl))
		return nil
	})
	return token, err
}

// cleaner is who may delete.
type cleaner struct {
	owner string
	token history.Token
	until history.Time
}

// cleaner locks the row of the clean-up lease.
func (w *write) cleaner(ctx context.Context) (c cleaner, err error) {
	err = w.conn.QueryRow(ctx, "select owner, token_epoch, token, lease_until from perdure_cleanup for update").Scan(&c.owner, &c.token.Epoch, &c.token.Counter, &c.until)
	return c, err
}

// clean runs fn for the one who may delete. Holds are placed under the same lock.
func (s *Store) clean(ctx context.Context, op string, token history.Token, policy history.RetentionPolicy, fn func(w *write) error) error {
	if err := policy.Check(); err != nil {
		return err
	}
	return s.write(ctx, op, nil, func(w *write) error {
		c, err := w.cleaner(ctx)
		if err != nil {
			return err
		}
		if token.IsZero() || token != c.token || c.until <= w.at {
			return fmt.Errorf("token %s: %w", token, history.ErrFenced)
		}
		return fn(w)
	})
}

// cursor is where a finished run stands among those that are due.
type cursor struct {
	closedAt history.Time
	id       history.RunID
}

func (c cursor) String() string { return fmt.Sprintf("%d %s", c.closedAt, c.id) }

func parseCursor(text string) (c cursor, err error) {
	at, id, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(at, 10, 64)
	if err == nil {
		c.closedAt = history.Time(n)
		c.id, err = ulid.ParseStrict(id)
	}
	if err != nil {
		return c, fmt.Errorf("cursor %q: %w", text, history.ErrInvalid)
	}
	return c, nil
}

// expiry is an expression for the instant from which a finished run may be deleted, 0 for never: by its start, or by the
// policy where that decides. See history.RetentionPolicy.Expires.
func expiry(policy history.RetentionPolicy, c *condition) string {
	if len(policy) == 0 {
		return "expires_at"
	}
	var b strings.Builder
	b.WriteString("case when not left_to_policy then expires_at")
	for _, r := range policy {
		when := condition{args: c.args}
		if r.Tenant != nil {
			when.add("tenant = $%d", []byte(*r.Tenant))
		}
		if r.Workflow != "" {
			when.add("workflow = $%d", r.Workflow)
		}
		c.args = when.args
		then := "0"
		if r.Keep > 0 {
			c.args = append(c.args, int64(r.Keep))
			then = fmt.Sprintf("closed_at + $%d::bigint", len(c.args))
		}
		fmt.Fprintf(&b, " when %s then %s", when.sql(), then)
	}
	b.WriteString(" else expires_at end")
	return b.String()
}

func limitOf(n int) int {
	if n <= 0 {
		return 100
	}
	return min(n, 1000)
}

// Expired implements engine.Store.
func (s *Store) Expired(ctx context.Context, q engine.ExpiredQuery) (p engine.ExpiredPage, err error) {
	var after cursor
	if q.After != "" {
		if after, err = parseCursor(q.After); err != nil {
			return p, err
		}
	}
	if err := q.Policy.Check(); err != nil {
		return p, err
	}
	err = s.write(ctx, "expired", nil, func(w *write) error {
		p = engine.ExpiredPage{}
		c := condition{args: []any{w.at, after.closedAt, after.id[:], limitOf(q.Limit) + 1}}
		due := expiry(q.Policy, &c)
		rows, err := w.conn.Query(ctx, "select "+rowColumns+" from perdure_runs where closed_at > 0 and "+due+" between 1 and $1 and (closed_at, id) > ($2, $3) order by closed_at, id limit $4", c.args...)
		if err != nil {
			return err
		}
		found, err := w.rows(rows)
		if err != nil {
			return err
		}
		if n := limitOf(q.Limit); len(found) > n {
			found = found[:n]
			p.Next = cursor{found[n-1].state.ClosedAt, found[n-1].spec.ID}.String()
		}
		for _, r := range found {
			why, err := w.kept(ctx, r, q.Policy)
			switch {
			case err != nil:
				return err
			case why == "":
				p.Runs = append(p.Runs, r.spec.ID)
			case why == engine.KeptUnread:
				p.Unexported = append(p.Unexported, r.spec.ID)
			default:
				p.Held++
			}
		}
		c = condition{args: []any{w.at}}
		due = expiry(q.Policy, &c)
		return w.conn.QueryRow(ctx, "select coalesce(min("+due+"), 0) from perdure_runs where closed_at > 0 and "+due+" > $1", c.args...).Scan(&p.NextDue)
	})
	return p, err
}

func (s *Store) rows(rows pgx.Rows) (all []*row, err error) {
	defer rows.Close()
	for rows.Next() {
		r, err := s.scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

// kept says what keeps a run from being deleted; "" where nothing does.
func (w *write) kept(ctx context.Context, r *row, policy history.RetentionPolicy) (engine.Reason, error) {
	run := r.seen()
	if !run.Status.Terminal() {
		return engine.KeptLive, nil
	}
	if at := policy.Expires(&run); at == 0 || at > w.at {
		return engine.KeptYoung, nil
	}
	if held, err := w.onHold(ctx, r.spec.ID, r.spec.Tenant, r.spec.Workflow); held || err != nil {
		return engine.KeptHeld, err
	}
	if awaited, err := w.awaited(ctx, &r.spec); awaited || err != nil {
		return engine.KeptForParent, err
	}
	if policy.For(r.spec.Tenant, r.spec.Workflow).ExportFirst {
		receipt, err := w.receipt(ctx, w.conn, r.spec.ID)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return "", err
		}
		if err != nil || !receipt.Covers(r.state.Head) {
			return engine.KeptUnread, nil
		}
	}
	return "", nil
}

// awaited reports whether the outcome of a child waits in the inbox of its parent.
func (w *write) awaited(ctx context.Context, spec *history.Spec) (bool, error) {
	if spec.Parent == (history.RunID{}) {
		return false, nil
	}
	rows, err := w.conn.Query(ctx, "select seq, accepted_at, rec from perdure_inbox where run = $1 and not dead", spec.Parent[:])
	items, err := w.items(rows, err)
	for _, i := range items {
		if i.Kind == history.InboxChild && i.Key == spec.ID.String() {
			return true, err
		}
	}
	return false, err
}

// Delete implements engine.Store. It leaves nothing for Erase.
func (s *Store) Delete(ctx context.Context, token history.Token, policy history.RetentionPolicy, runs []history.RunID) (out engine.Deletion, err error) {
	defer s.recent.forgetAll()
	err = s.clean(ctx, "delete", token, policy, func(w *write) error {
		out = engine.Deletion{}
		seen := map[history.RunID]bool{}
		for rows := 0; rows < engine.EraseLimit && out.Handled < len(runs); out.Handled++ {
			id := runs[out.Handled]
			if seen[id] {
				continue
			}
			seen[id] = true
			r, err := w.scan(w.conn.QueryRow(ctx, "select "+rowColumns+" from perdure_runs where id = $1 for update", id[:]))
			if errors.Is(err, pgx.ErrNoRows) {
				continue
			}
			if err != nil {
				return err
			}
			why, err := w.kept(ctx, r, policy)
			if err != nil {
				return err
			}
			if why != "" {
				out.Refused = append(out.Refused, engine.Refusal{Run: id, Reason: why})
				continue
			}
			rows += int(r.state.Seq)
			if err := w.bury(r); err != nil {
				return err
			}
			out.Deleted = append(out.Deleted, id)
		}
		return nil
	})
	return out, err
}

// bury replaces a run by its tombstone.
func (w *write) bury(r *row) error {
	run := history.Run{Spec: r.spec, State: r.state}
	t := run.Bury(w.at)
	rec, err := history.Encode(w.codec, &t)
	if err != nil {
		return err
	}
	id := r.spec.ID[:]
	w.batch.Queue("insert into perdure_tombstones (run, tenant, workflow, deleted_at, rec) values ($1, $2, $3, $4, $5)", id, []byte(t.Tenant), t.Workflow, w.at, rec)
	for _, q := range []string{
		"delete from perdure_events where run = $1", "delete from perdure_timers where run = $1", "delete from perdure_inbox where run = $1",
		"delete from perdure_identities where run = $1", "delete from perdure_questions where run = $1", "delete from perdure_generations where run = $1",
		"delete from perdure_bases where run = $1", "delete from perdure_runs where id = $1",
	} {
		w.batch.Queue(q, id)
	}
	return nil
}

// Erase implements engine.Store. What is left is of runs that were pruned.
func (s *Store) Erase(ctx context.Context, token history.Token) (more bool, err error) {
	err = s.clean(ctx, "erase", token, nil, func(w *write) error {
		more, err = w.eraseRests(ctx)
		return err
	})
	return more && err == nil, err
}

// PurgeTombstones implements engine.Store.
func (s *Store) PurgeTombstones(ctx context.Context, token history.Token, policy history.RetentionPolicy, runs []history.RunID, by, reason string) (out engine.Deletion, err error) {
	err = s.clean(ctx, "purge", token, policy, func(w *write) error {
		out = engine.Deletion{}
		if by == "" {
			return fmt.Errorf("a purge needs who does it: %w", history.ErrInvalid)
		}
		seen := map[history.RunID]bool{}
		for ; out.Handled < len(runs) && out.Handled < engine.EraseLimit; out.Handled++ {
			id := runs[out.Handled]
			t, err := w.tombstone(ctx, w.conn, id)
			if errors.Is(err, pgx.ErrNoRows) || seen[id] {
				continue
			}
			if err != nil {
				return err
			}
			seen[id] = true
			why, err := w.keptTombstone(ctx, &t, policy)
			if err != nil {
				return err
			}
			if why != "" {
				out.Refused = append(out.Refused, engine.Refusal{Run: id, Reason: why})
				continue
			}
			w.batch.Queue("delete from perdure_tombstones where run = $1", id[:])
			w.batch.Queue("delete from perdure_receipts where run = $1", id[:])
			w.batch.Queue("delete from perdure_keys where tenant = $1 and key = $2 and run = $3", []byte(t.Tenant), []byte(t.Key), id[:])
			out.Deleted = append(out.Deleted, id)
		}
		if n := len(out.Deleted); n > 0 {
			return w.note(ctx, history.Entry{Verb: "purge tombstones", By: by, Reason: reason, From: out.Deleted[0], To: out.Deleted[n-1], Count: n})
		}
		return nil
	})
	return out, err
}

func (w *write) keptTombstone(ctx context.Context, t *history.Tombstone, policy history.RetentionPolicy) (engine.Reason, error) {
	if keep := policy.For(t.Tenant, t.Workflow).KeepTombstones; keep == 0 || t.DeletedAt.Add(keep) > w.at {
		return engine.KeptYoung, nil
	}
	if held, err := w.onHold(ctx, t.Run, t.Tenant, t.Workflow); held || err != nil {
		return engine.KeptHeld, err
	}
	r, err := w.receipt(ctx, w.conn, t.Run)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !r.Covers(t.Head) {
		return engine.KeptUnread, nil
	}
	return "", err
}
