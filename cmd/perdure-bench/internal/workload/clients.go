package workload

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// clients calls fn for 0 to n-1, each once, from so many goroutines, until one fails. The first error ends all.
func clients(ctx context.Context, count, n int, fn func(ctx context.Context, client, i int) error) error {
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for c := range count {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := fn(ctx, c, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
