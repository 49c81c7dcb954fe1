package perdure

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

// file keeps the runs in a file.
type file struct {
	path  string
	store *boltstore.Store
}

func (f *file) open(_ context.Context, cfg peer.Config) (_ engine.Store, err error) {
	f.path = filepath.Join(cfg.Dir, "perdure.db")
	if f.store, err = boltstore.Open(f.path, nil); err != nil { // not a nil *Store in an interface
		return nil, err
	}
	return f.store, nil
}

// completed reads the file that was left, where the store is closed.
func (f *file) completed(ctx context.Context, closed bool) (n int, err error) {
	store := f.store
	if closed {
		if store, err = boltstore.Open(f.path, &boltstore.Options{ReadOnly: true}); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
	}
	filter := engine.Filter{Statuses: []history.Status{history.StatusCompleted}, Limit: 1000}
	for {
		page, err := store.List(ctx, filter)
		if err != nil {
			return 0, err
		}
		n += len(page.Runs)
		if filter.After = page.Next; filter.After == "" {
			return n, nil
		}
	}
}

func (f *file) durability(context.Context) (peer.Durability, error) {
	return peer.Durability{Full: true, Detail: "a record in the redo log (1 fdatasync), or where a reader waits a commit of bbolt (2), before any call in it returns; calls share records"}, nil
}
