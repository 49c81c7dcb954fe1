package boltstore

import (
	"context"

	"github.com/perdure/perdure/engine"
)

// Verify implements engine.Store.
func (s *Store) Verify(ctx context.Context, fn func(engine.Violation)) error { return s.usable(ctx) }
