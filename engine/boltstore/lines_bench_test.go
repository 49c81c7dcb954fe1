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

// BenchmarkClaim claims and releases one run after another, of one tenant and of thousands: the cost must not grow with the
// number of lines.
func BenchmarkClaim(b *testing.B) {
	for _, tenants := range []int{1, 100, 5000} {
		b.Run(fmt.Sprintf("%d-tenants", tenants), func(b *testing.B) {
			s, err := boltstore.Open(filepath.Join(b.TempDir(), "perdure.db"), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			var g errgroup.Group
			g.SetLimit(256)
			for i := range max(tenants, 5000) {
				g.Go(func() error {
					spec := history.Spec{
						Tenant: fmt.Sprint(i % tenants), Workflow: "w", Version: 1, ConcurrencyKey: fmt.Sprint(i), ConcurrencyLimit: 1,
					}
					_, _, err := s.Start(b.Context(), &history.Start{Spec: spec})
					return err
				})
			}
			if err := g.Wait(); err != nil {
				b.Fatal(err)
			}
			req := engine.ClaimRequest{Owner: "w", Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: 1, TTL: time.Hour}
			if _, err := s.Claim(b.Context(), req); err != nil { // loads the lines
				b.Fatal(err)
			}
			b.ResetTimer()
			for i := range b.N {
				cs, err := s.Claim(b.Context(), req)
				if err != nil {
					b.Fatal(err)
				}
				if len(cs) == 0 {
					b.Skipf("all %d runs are claimed", i)
				}
			}
		})
	}
}
