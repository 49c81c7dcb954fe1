package boltstore_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

// manyRuns starts n runs of a tenant and workflow in groups.
func manyRuns(t testing.TB, s *boltstore.Store, n int, spec func(i int) history.Spec) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(512)
	for i := range n {
		g.Go(func() error {
			_, _, err := s.Start(t.Context(), &history.Start{Spec: spec(i)})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// A filter that an index serves finds its few runs among many in one page. One that no index serves gives up after a bounded
// look, with a cursor, and comes to the end all the same.
func TestListFindsFewAmongMany(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "perdure.db"), nil)
	needle := history.Spec{
		ID:  history.NewRunID(s.Now().Add(-time.Second)), // before those of the others
		Key: "needle", Workflow: "rare", Version: 1, Tenant: "acme", Principal: "alice", TaskID: "task", Tags: map[string]string{"order": "17"},
	}
	run, _, err := s.Start(t.Context(), &history.Start{Spec: needle})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cancel(t.Context(), run.ID, "", ""); err != nil {
		t.Fatal(err)
	}
	const many = 12_000
	manyRuns(t, s, many, func(i int) history.Spec {
		return history.Spec{Workflow: fmt.Sprint("common", i%3), Version: 1, Tenant: fmt.Sprint("tenant", i%40)}
	})
	acme, alice := "acme", "alice"
	for name, f := range map[string]engine.Filter{
		"tenant":              {Tenant: &acme},
		"workflow":            {Workflow: "rare"},
		"tenant and workflow": {Tenant: &acme, Workflow: "rare"},
		"tag":                 {Tags: needle.Tags},
		"principal":           {Tenant: &acme, Principal: &alice},
		"status":              {Statuses: []history.Status{history.StatusCanceled}},
		"time":                {CreatedBefore: history.Time(run.ID.Time()+1) * history.Time(time.Millisecond)},
	} {
		page, err := s.List(t.Context(), f)
		if err != nil || len(page.Runs) != 1 || page.Runs[0].ID != run.ID || page.Next != "" {
			t.Errorf("a list by %s gave %d runs, next %q, %v", name, len(page.Runs), page.Next, err)
		}
	}
	f, pages, found := engine.Filter{HasTask: true}, 0, 0
	for {
		page, err := s.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		pages, found = pages+1, found+len(page.Runs)
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	if found != 1 || pages < 3 || pages > 5 {
		t.Errorf("a list that no index serves found %d runs in %d pages, want 1 in 3 to 5: 12,000 looks, 5,000 a page", found, pages)
	}
	verify(t, s)
}

// Two filters that each select many runs and have none in common leap over each other, in bounded pages.
func TestListOfDisjointFiltersIsBounded(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "perdure.db"), nil)
	const many = 20_000
	manyRuns(t, s, many, func(i int) history.Spec {
		return history.Spec{Workflow: "w", Version: 1, Tenant: fmt.Sprint("t", i%2), Tags: map[string]string{"part": fmt.Sprint(i % 2)}}
	})
	other, pages := "t0", 0
	for f := (engine.Filter{Tenant: &other, Tags: map[string]string{"part": "1"}}); ; pages++ {
		page, err := s.List(t.Context(), f)
		if err != nil || len(page.Runs) > 0 {
			t.Fatalf("runs %d, %v", len(page.Runs), err)
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	if pages > 3 {
		t.Errorf("the end came after %d pages", pages)
	}
}
