package pgstore_test

import (
	"encoding/json"
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
	return p.any(func(n *plan) bool { return strings.Contains(n.Type, "Seq Scan") && n.Table == "perdure_runs" })
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
	var out []struct{ Plan plan }
	if err := json.Unmarshal(b, &out); err != nil || len(out) != 1 {
		t.Fatalf("%v in %s", err, b)
	}
	return out[0].Plan
}
