package storetest

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// modelPolicy lets go of runs whose start named no retention, so that both indexes are used.
func modelPolicy() history.RetentionPolicy {
	tenant := "acme"
	return history.RetentionPolicy{{Tenant: &tenant, Keep: 3 * time.Minute, KeepTombstones: time.Minute}, {Keep: 5 * time.Minute}}
}

// cleanSome deletes some of the runs, those that are due and others, and purges some tombstones.
func (m *machine) cleanSome(t *rapid.T) {
	m.clock.Advance(time.Duration(rapid.IntRange(0, 240).Draw(t, "seconds")) * time.Second)
	var due []history.RunID
	m.both("expired", func(_ int, s engine.Store) (string, error) {
		page, err := s.Expired(m.ctx, engine.ExpiredQuery{Policy: modelPolicy(), Limit: 1000})
		due = page.Runs
		slices.SortFunc(due, history.RunID.Compare) // the order of those that are due is a store's own
		return fmt.Sprint(due, page.Held, len(page.Unexported), page.NextDue), err
	})
	if rapid.Bool().Draw(t, "another too") {
		due = append(due, m.anyRun(t))
	}
	var tokens [2]history.Token
	m.both("lease clean-up", func(i int, s engine.Store) (string, error) {
		var err error
		tokens[i], err = s.LeaseCleanup(m.ctx, "cleaner", time.Hour)
		return "", err
	})
	m.both("delete", func(i int, s engine.Store) (string, error) {
		d, err := s.Delete(m.ctx, tokens[i], modelPolicy(), due)
		return fmt.Sprint(d.Handled, d.Deleted, d.Refused), err
	})
	if !rapid.Bool().Draw(t, "purge") {
		return
	}
	m.both("export and purge", func(i int, s engine.Store) (string, error) {
		page, err := s.Tombstones(m.ctx, engine.TombstoneFilter{Limit: 1000})
		if err != nil {
			return "", err
		}
		var ids []history.RunID
		for n, stone := range page.Tombstones {
			ids = append(ids, stone.Run)
			if n%2 == 0 {
				r := history.Receipt{Run: stone.Run, Destination: "file", Digest: stone.Head, Bytes: 1, Events: stone.Events, Head: stone.Head}
				if err := s.PutReceipt(m.ctx, r); err != nil {
					return "", err
				}
			}
		}
		d, err := s.PurgeTombstones(m.ctx, tokens[i], modelPolicy(), ids, "op", "old")
		return fmt.Sprint(d.Handled, d.Deleted, d.Refused), err
	})
}

// graves shows the tombstones of a store, without the digests, which differ with the tokens.
func (m *machine) graves(_ int, s engine.Store) (string, error) {
	page, err := s.Tombstones(m.ctx, engine.TombstoneFilter{Limit: 1000})
	var out []string
	for _, t := range page.Tombstones {
		out = append(out, fmt.Sprint(t.Run, t.Tenant, t.Key, t.Status, t.CreatedAt, t.ClosedAt, t.DeletedAt, t.Events))
	}
	return fmt.Sprint(out), err
}
