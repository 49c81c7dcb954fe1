package pgstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine/pgstore"
)

// queue puts 100,000 runs of 50 tenants into line.
const queue = `insert into perdure_runs (id, tenant, key, workflow, version, queue, priority, limit_key, limit_n, principal, created_at, spec, state, status, questions,
	closed_at, expires_at, left_to_policy, changed_at, ready_at, blocked_by, claimed)
select decode(lpad(to_hex(n), 32, '0'), 'hex'), convert_to('t' || n % 50, 'utf8'), convert_to('k' || n, 'utf8'), 'w', 1, '', 0, '', 0, '', n, repeat('s', 200)::bytea,
	repeat('s', 100)::bytea, 1, 0, 0, 0, false, n, n, 0, false
from generate_series(1, 100000) as n`

// A claim reads the heads of the lines by their index: what it reads does not grow with what is queued, nor with what was.
func TestClaimReadsTheHeadsOfTheLines(t *testing.T) {
	dsn := database(t)
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	do := func(sql string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	do(queue)
	for _, step := range []struct {
		name, sql string
		most      int // blocks that are read
	}{
		// 50 lines, of each a few descents and four rows.
		{"before the table was analyzed", "", 1500},
		{"analyzed", "analyze perdure_runs", 1500},
		// Those that were first in line are held: no vacuum has come by, so the pages of their dead index entries are read.
		{"with 50,000 dead rows", "update perdure_runs set lease_until = 1 where ready_at <= 50000", 5000},
	} {
		if step.sql != "" {
			do(step.sql)
		}
		var p plan
		for range 2 { // the first reading marks what is dead
			p = explain(t, c)
		}
		blocks := p.Hit + p.Read
		t.Logf("%s: %d blocks", step.name, blocks)
		if p.scans() || !p.uses("perdure_runs_line") {
			t.Errorf("%s: the plan scans a table, or does not use perdure_runs_line: %+v", step.name, p)
		}
		if blocks > step.most {
			t.Errorf("%s: %d blocks are read, want at most %d", step.name, blocks, step.most)
		}
	}
}

// A claim finds the heads of the lines by their index, and it and the commits of a group each run by its id: they read no table, also by a
// plan that was made while the table was empty, and what they read does not grow with what is queued.
func TestWritesGoByIndex(t *testing.T) {
	c, err := pgx.Connect(t.Context(), database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	do := func(sql string, args ...any) {
		t.Helper()
		if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	do(pgstore.ByIndex)
	do("set local plan_cache_mode = force_generic_plan") // as a connection comes to use after a few claims
	do("prepare lines (text[], int[], bigint, bigint) as " + pgstore.SelectLines)
	do("prepare first (text[], int[], bigint, bigint, bytea[], text, bigint) as " + pgstore.TakeFirst)
	do("prepare free (bytea[], bigint, text, bigint) as " + pgstore.TakeFree)
	do("prepare plain as " + pgstore.CommitPlain)
	do("prepare rows as " + pgstore.UpdateRows)
	do("prepare fire as " + pgstore.FireTimers)
	do("prepare histories as " + pgstore.SelectHistories)
	lines := "execute lines (array['w'], array[1], 64, 1)"
	first := "execute first (array['w'], array[1], 64, 1, null, 'me', 9)"
	var last []string // in line
	for n := 100_000 - 63; n <= 100_000; n++ {
		last = append(last, fmt.Sprintf(`'\x%032x'::bytea`, n))
	}
	free := "execute free (array[" + strings.Join(last, ",") + "], 1, 'me', 9)"
	do(lines)
	do(first)
	do(free)
	empty := func(n int) string { return strings.Repeat("'{}', ", n-1) + "'{}'" }
	do("execute plain (" + empty(26) + ")")
	do("execute rows (" + empty(15) + ", 1)")
	do("execute fire (" + empty(3) + ")")
	do("execute histories (" + empty(3) + ")")
	do(strings.Replace(queue, "'t' || n % 50", "'t'", 1))
	do("insert into perdure_events (run, seq, rec) select id, 1, state from perdure_runs")
	do("insert into perdure_timers (run, at, position) select id, 1, state from perdure_runs")
	do("insert into perdure_inbox (run, seq, dead, accepted_at, rec) select id, 1, false, 1, state from perdure_runs")
	check := func(index, statement string) {
		t.Helper()
		var b []byte
		if err := tx.QueryRow(t.Context(), "explain (analyze, buffers, format json) "+statement).Scan(&b); err != nil {
			t.Fatal(err)
		}
		p := parsePlan(t, b)
		if p.scans() || !p.uses(index) || p.Hit+p.Read > 5000 {
			t.Errorf("%.20s… reads %d blocks, want at most 5,000, a scan: %t, by %s: %t", statement, p.Hit+p.Read, p.scans(), index, p.uses(index))
		}
		t.Logf("%.20s…: %d blocks", statement, p.Hit+p.Read)
	}
	check("perdure_runs_line", lines)
	check("perdure_runs_pkey", first)
	check("perdure_runs_pkey", free)
	var taken int
	if err := tx.QueryRow(t.Context(), "select count(*) from perdure_runs where lease_until = 9").Scan(&taken); err != nil || taken != 128 {
		t.Errorf("%d runs are taken (%v), want 64 by each", taken, err)
	}
	ids, none := "array["+strings.Join(last, ",")+"]", "array_fill(0, array[64])"
	var tokens string
	if err := tx.QueryRow(t.Context(), "select array_agg(token order by id)::text from perdure_runs where lease_until = 9 and id = any("+ids+")").Scan(&tokens); err != nil {
		t.Fatal(err)
	}
	state, no, one, two := "array_fill(repeat('s', 100)::bytea, array[64])", "array_fill(false, array[64])", "array_fill(1, array[64])", "array_fill(2, array[64])"
	check("perdure_timers_pkey", "execute fire ("+strings.Join([]string{ids, one, state}, ", ")+")")
	check("perdure_runs_pkey", "execute plain ("+strings.Join([]string{
		ids, state, one, "'" + tokens + "'", state, two, none, none, none, one, none, none, no, no, no,
		ids, two, state, ids, one, state, ids, two, state, ids, one,
	}, ", ")+")")
	var counts string
	if err := tx.QueryRow(t.Context(), `select format('%s %s %s %s', (select count(*) from perdure_events where seq = 2), (select count(*) from perdure_timers where at = 1),
		(select count(*) from perdure_timers where at = 2), (select count(*) from perdure_inbox))`).Scan(&counts); err != nil || counts != "64 99936 64 99936" {
		t.Errorf("events added, timers left and set, items left: %s (%v), want 64 of each run's, and one less for each", counts, err)
	}
	check("perdure_events_pkey", "execute histories ("+strings.Join([]string{ids, one, two}, ", ")+")")
	check("perdure_runs_pkey", "execute rows ("+strings.Join([]string{
		ids, state, two, none, none, none, none, none, none, no, "array_fill('me'::text, array[64])", one, one, one, none, "9",
	}, ", ")+")")
}

// plan is a node of a plan, of which the test wants little.
type plan struct {
	Type  string `json:"Node Type"`
	Index string `json:"Index Name"`
	Table string `json:"Relation Name"`
	Hit   int    `json:"Shared Hit Blocks"`
	Read  int    `json:"Shared Read Blocks"`
	Plans []plan `json:"Plans"`
}

func (p *plan) any(is func(*plan) bool) bool {
	if is(p) {
		return true
	}
	for i := range p.Plans {
		if p.Plans[i].any(is) {
			return true
		}
	}
	return false
}

func (p *plan) scans() bool {
	return p.any(func(n *plan) bool { return strings.Contains(n.Type, "Seq Scan") && n.Table != "perdure_meta" })
}

func (p *plan) uses(index string) bool { return p.any(func(n *plan) bool { return n.Index == index }) }

// explain executes the claim's query and returns its plan.
func explain(t *testing.T, c *pgx.Conn) plan {
	t.Helper()
	var b []byte
	err := c.QueryRow(t.Context(), "explain (analyze, buffers, format json) "+pgstore.SelectLines, []string{"w"}, []int32{1}, 4, int64(1)).Scan(&b)
	if err != nil {
		t.Fatal(err)
	}
	return parsePlan(t, b)
}

func parsePlan(t *testing.T, b []byte) plan {
	t.Helper()
	var out []struct{ Plan plan }
	if err := json.Unmarshal(b, &out); err != nil || len(out) != 1 {
		t.Fatalf("%v in %s", err, b)
	}
	return out[0].Plan
}
