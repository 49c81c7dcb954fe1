package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// A claim looks at the heads of all lines that the caller wants: a line is the runs of one workflow, version, queue,
// tenant and concurrency key that nobody holds, and the index perdure_runs_line has them in order. It chooses by the
// rules of engine.Leases, takes the rows that no other transaction has locked, and looks again where others were faster.

// withLines walks the lines of the workflows $1 and versions $2 by the index, from one to the next.
const withLines = `
with recursive wanted as (
	select distinct w.name collate "C" as workflow, w.version from unnest($1::text[], $2::int[]) as w (name, version)
), line as (
	select f.* from wanted w, lateral (
		select workflow, version, queue, tenant, limit_key, limit_n from perdure_runs
		where status in (1, 2, 5) and lease_until is null and not_before is null and workflow = w.workflow and version = w.version
		order by queue, tenant, limit_key, limit_n limit 1) f
	union all
	select n.* from line l, lateral (
		select workflow, version, queue, tenant, limit_key, limit_n from perdure_runs
		where status in (1, 2, 5) and lease_until is null and not_before is null and workflow = l.workflow and version = l.version
			and (queue, tenant, limit_key, limit_n) > (l.queue, l.tenant, l.limit_key, l.limit_n)
		order by queue, tenant, limit_key, limit_n limit 1) n
)`

// selectLines takes up to $3 runs of each line that opening $4 may claim.
const selectLines = withLines + `
select l.queue, l.tenant, l.limit_key, l.limit_n, c.id, c.priority, c.ready_at, c.n = $3 from line l, lateral (
	select id, priority, ready_at, row_number() over (order by priority desc, ready_at, id) as n from perdure_runs r
	where status in (1, 2, 5) and lease_until is null and not_before is null and r.workflow = l.workflow and r.version = l.version
		and r.queue = l.queue and r.tenant = l.tenant and r.limit_key = l.limit_key and r.limit_n = l.limit_n and blocked_by < $4
	order by priority desc, ready_at, id limit $3) c`

type candidate struct {
	queue, tenant, key string
	limit              int
	id                 history.RunID
	priority           int
	readyAt            history.Time
	last               bool // of those that were read of its line, as many as were asked for: there may be more
}

// tenantKey names a concurrency key, which belongs to a tenant.
type tenantKey struct{ tenant, key string }

// holders counts the leases.
type holders struct {
	tenants map[string]int
	keys    map[tenantKey]int
}

// Claim implements engine.Store.
func (s *Store) Claim(ctx context.Context, req engine.ClaimRequest) (claims []history.Claim, err error) {
	if err := checkClaim(&req); err != nil {
		return nil, err
	}
	err = s.attempt(ctx, "claim", func() (err error) {
		claims, err = s.claim(ctx, &req)
		return err
	})
	if err != nil {
		return nil, err
	}
	return claims, nil
}

func checkClaim(req *engine.ClaimRequest) error {
	if req.Owner == "" || req.Max <= 0 || req.TTL <= 0 {
		return fmt.Errorf("claim without owner, max or ttl: %w", history.ErrInvalid)
	}
	return nil
}

func (s *Store) claim(ctx context.Context, req *engine.ClaimRequest) (claims []history.Claim, err error) {
	for range 3 { // others may be faster at what it chose
		claims, done, more, err := s.claimFirst(ctx, req)
		if err != nil || len(claims) > 0 || done && !more {
			return claims, err
		}
		if done {
			continue
		}
		l, err := s.look(ctx, req, s.depth(req.Max))
		if err != nil || len(l.all) == 0 {
			return nil, err
		}
		chosen, short := s.choose(l.all, l.held, req)
		if short {
			if l, err = s.look(ctx, req, req.Max); err != nil {
				return nil, err
			}
			chosen, _ = s.choose(l.all, l.held, req)
		}
		if claims, err = s.take(ctx, chosen, req, l.at); err != nil || len(claims) > 0 || len(chosen) == 0 {
			return claims, err
		}
	}
	return nil, nil
}

// lookout is what a claim chooses from.
type lookout struct {
	all  []candidate
	held holders
	at   history.Time // before the reading
}

// depth is how many runs of each line a claim looks at first: with many lines, few of each will be wanted.
func (s *Store) depth(most int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tenants < 2 {
		return most
	}
	return min(most, 2*most/s.tenants+2)
}

// look reads the heads of the lines, up to depth runs of each, and counts the leases, in one round trip.
func (s *Store) look(ctx context.Context, req *engine.ClaimRequest, depth int) (l lookout, err error) {
	names, versions := wanted(req)
	var b pgx.Batch
	b.Queue(byIndex)
	b.Queue(selectNow).QueryRow(func(row pgx.Row) error {
		var now history.Time
		err := row.Scan(&now)
		l.at = s.clock.observe(now)
		return err
	})
	b.Queue(selectLines, names, versions, depth, s.opening).Query(func(rows pgx.Rows) (err error) {
		l.all, err = candidates(rows, req)
		return err
	})
	b.Queue("select tenant, limit_key, count(*) from perdure_runs where lease_until is not null group by tenant, limit_key").Query(func(rows pgx.Rows) (err error) {
		l.held, err = countHolders(rows)
		return err
	})
	return l, s.pool.SendBatch(ctx, &b).Close()
}

// wanted returns the names and the versions of the workflows.
func wanted(req *engine.ClaimRequest) (names []string, versions []int32) {
	for _, k := range req.Workflows {
		names, versions = append(names, k.Name), append(versions, int32(k.Version))
	}
	return names, versions
}

func candidates(rows pgx.Rows, req *engine.ClaimRequest) (all []candidate, err error) {
	var queue, tenant, key, id []byte
	var c candidate
	_, err = pgx.ForEachRow(rows, []any{&queue, &tenant, &key, &c.limit, &id, &c.priority, &c.readyAt, &c.last}, func() error {
		c.queue, c.tenant, c.key, c.id = string(queue), string(tenant), string(key), history.RunID(id)
		if req.Queues == nil || slices.Contains(req.Queues, c.queue) {
			all = append(all, c)
		}
		return nil
	})
	return all, err
}

func countHolders(rows pgx.Rows) (h holders, err error) {
	h = holders{map[string]int{}, map[tenantKey]int{}}
	var tenant, key []byte
	var n int
	_, err = pgx.ForEachRow(rows, []any{&tenant, &key, &n}, func() error {
		h.tenants[string(tenant)] += n
		h.keys[tenantKey{string(tenant), string(key)}] += n
		return nil
	})
	return h, err
}

// choose puts the candidates in the order of their turns, and counts them as held. short says that it ran out of a line that
// may have more: then nobody has had a turn.
func (s *Store) choose(all []candidate, held holders, req *engine.ClaimRequest) (chosen []candidate, short bool) {
	left := maps.Clone(req.Limits)
	s.mu.Lock()
	defer s.mu.Unlock()
	turns, served := s.turns, maps.Clone(s.served)
	before := func(a, b *candidate) int {
		return cmp.Or(
			cmp.Compare(held.tenants[a.tenant], held.tenants[b.tenant]), cmp.Compare(served[a.tenant], served[b.tenant]),
			cmp.Compare(b.priority, a.priority), cmp.Compare(a.readyAt, b.readyAt), a.id.Compare(b.id),
		)
	}
	lines := byTenant(all)
	s.tenants, s.limited = len(lines), slices.ContainsFunc(all, func(c candidate) bool { return c.limit > 0 })
	for len(chosen) < req.Max {
		var best *candidate
		for _, line := range lines {
			for i := range line.rest {
				c := &line.rest[i]
				n, limited := left[c.queue]
				if limited && n <= 0 || c.limit > 0 && held.keys[tenantKey{c.tenant, c.key}] >= c.limit {
					continue
				}
				if best == nil || before(c, best) < 0 {
					best = c
				}
				break // the others of the tenant come later
			}
		}
		if best == nil {
			break
		}
		c := *best
		lines[c.tenant].remove(c.id)
		if _, limited := left[c.queue]; limited {
			left[c.queue]--
		}
		held.tenants[c.tenant]++
		held.keys[tenantKey{c.tenant, c.key}]++
		turns++
		served[c.tenant] = turns
		chosen = append(chosen, c)
		if c.last && len(chosen) < req.Max {
			return nil, true
		}
	}
	s.turns, s.served = turns, served
	return chosen, false
}

// tenantLine is the candidates of one tenant, in order.
type tenantLine struct{ rest []candidate }

func byTenant(all []candidate) map[string]*tenantLine {
	lines := map[string]*tenantLine{}
	for _, c := range all {
		if lines[c.tenant] == nil {
			lines[c.tenant] = &tenantLine{}
		}
		lines[c.tenant].rest = append(lines[c.tenant].rest, c)
	}
	for _, l := range lines {
		slices.SortFunc(l.rest, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.readyAt, b.readyAt), a.id.Compare(b.id))
		})
	}
	return lines
}

func (l *tenantLine) remove(id history.RunID) {
	i := slices.IndexFunc(l.rest, func(c candidate) bool { return c.id == id })
	l.rest = slices.Delete(l.rest, i, i+1)
}

// limited returns the concurrency keys that have a limit.
func limited(chosen []candidate) (keys []tenantKey) {
	for _, c := range chosen {
		if k := (tenantKey{c.tenant, c.key}); c.limit > 0 && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// admit makes claims of one concurrency key one after another, and counts its leases again under the lock.
func (w *write) admit(ctx context.Context, chosen []candidate) ([]candidate, error) {
	keys := limited(chosen)
	slices.SortFunc(keys, func(a, b tenantKey) int { return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.key, b.key)) })
	free := map[tenantKey]int{}
	for _, k := range keys { // in one order, or two claims could wait for each other
		if _, err := w.conn.Exec(ctx, "insert into perdure_limits (tenant, key) values ($1, $2) on conflict (tenant, key) do update set claims = perdure_limits.claims + 1", []byte(k.tenant), []byte(k.key)); err != nil {
			return nil, err
		}
		var n int
		if err := w.conn.QueryRow(ctx, "select count(*) from perdure_runs where lease_until is not null and tenant = $1 and limit_key = $2", []byte(k.tenant), []byte(k.key)).Scan(&n); err != nil {
			return nil, err
		}
		free[k] = n
	}
	return slices.DeleteFunc(chosen, func(c candidate) bool {
		k := tenantKey{c.tenant, c.key}
		if c.limit == 0 {
			return false
		}
		free[k]++
		return free[k] > c.limit
	}), nil
}

// take leases the chosen rows that are still free, and returns them in the order of their turns. That is one round trip,
// but for runs with a concurrency key, whose leases are counted under a lock first.
func (s *Store) take(ctx context.Context, chosen []candidate, req *engine.ClaimRequest, at history.Time) (claims []history.Claim, err error) {
	if len(limited(chosen)) == 0 {
		claims, err = s.lease(ctx, s.pool, chosen, req, at)
	} else {
		err = s.once(ctx, scope{}, func(w *write) error {
			admitted, err := w.admit(ctx, slices.Clone(chosen))
			if err == nil {
				claims, err = s.lease(ctx, w.conn, admitted, req, w.at)
			}
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	return claims, nil
}

// byIndex keeps the statements of a transaction from reading a table from one end to the other, and has their plans made once for a
// connection, maybe while the table is small. No arguments ask for another plan, and the server would make one for each call, for a
// quarter of its time.
const byIndex = "select set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)"

// isFree holds for the rows in perdure_runs_line. It is written so that no plan looks for an id there, by reading all of the index,
// where the statistics do not know yet how long the lines are.
const isFree = "status in (1, 2, 5) and coalesce(lease_until, 0) = 0 and coalesce(not_before, 0) = 0"

// takenColumns are returned of a run that was leased: rowColumns, and the first event of a run that nobody held before. It is there
// for as long as the run, so that the statement's snapshot, which is older than the lock, will do.
const takenColumns = rowColumns + ", case when not claimed then (select rec from perdure_events where run = id and seq = 1) end as begun"

// takeFree leases the runs $1 as far as they are free, for opening $2, owner $3, until $4.
const takeFree = `
with free as (
	select id from perdure_runs where id = any($1) and ` + isFree + ` and blocked_by < $2 for update skip locked
)
update perdure_runs set owner = $3, opening = $2, lease_until = $4, token = nextval('perdure_tokens'),
	token_epoch = (select value from perdure_meta where name = 'promotion')
where id = any(array(select id from free)) returning ` + takenColumns

// selectInboxes reads the inboxes of the runs $1.
const selectInboxes = "select run, seq, accepted_at, rec from perdure_inbox where run = any($1) and not dead order by run, seq"

// sender is a pool or a connection.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

func (s *Store) lease(ctx context.Context, to sender, chosen []candidate, req *engine.ClaimRequest, at history.Time) ([]history.Claim, error) {
	if len(chosen) == 0 {
		return nil, nil
	}
	ids := make([][]byte, len(chosen))
	turn := map[history.RunID]int{}
	for i, c := range chosen {
		ids[i], turn[c.id] = c.id.Bytes(), i
	}
	l := newLeased(s)
	var b pgx.Batch
	b.Queue(byIndex)
	b.Queue(takeFree, ids, s.opening, req.Owner, at.Add(req.TTL)).Query(l.readRows)
	b.Queue(selectInboxes, ids).Query(l.readInboxes)
	if err := to.SendBatch(ctx, &b).Close(); err != nil {
		return nil, err
	}
	claims := l.claims(at)
	slices.SortFunc(claims, func(a, b history.Claim) int { return cmp.Compare(turn[a.Run.ID], turn[b.Run.ID]) })
	return claims, nil
}

// leased is what is read of the runs that were claimed, and of those that others were faster at.
type leased struct {
	store   *Store
	rows    []*row
	inboxes map[history.RunID][]history.InboxItem
	begun   map[history.RunID]*history.Event
}

func newLeased(s *Store) *leased {
	return &leased{store: s, inboxes: map[history.RunID][]history.InboxItem{}, begun: map[history.RunID]*history.Event{}}
}

// claims keeps what was read, and returns it.
func (l *leased) claims(at history.Time) []history.Claim {
	claims := make([]history.Claim, 0, len(l.rows))
	for _, r := range l.rows {
		inbox := l.inboxes[r.spec.ID]
		l.store.kept.put(r, inbox)
		claims = append(claims, history.Claim{Run: r.seen(), Token: r.token, Now: at, Inbox: slices.Clone(inbox), Fresh: l.begun[r.spec.ID]})
	}
	return claims
}

func (l *leased) readRows(rows pgx.Rows) error {
	for rows.Next() {
		if err := l.readRow(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readRow reads takenColumns, and what is selected beside them into more.
func (l *leased) readRow(from pgx.Row, more ...any) error {
	var begun []byte
	r, err := l.store.scan(from, append([]any{&begun}, more...)...)
	if err != nil {
		return err
	}
	l.rows = append(l.rows, r)
	if begun == nil || r.state.Seq > 1 {
		return nil
	}
	e, _, err := l.store.codec.DecodeEvent(begun)
	l.begun[r.spec.ID] = &e
	return err
}

func (l *leased) readInboxes(rows pgx.Rows) error {
	var run, rec []byte
	var seq uint64
	var at history.Time
	_, err := pgx.ForEachRow(rows, []any{&run, &seq, &at, &rec}, func() error {
		i, err := l.store.item(seq, at, rec)
		id := history.RunID(run)
		l.inboxes[id] = append(l.inboxes[id], i)
		return err
	})
	return err
}
