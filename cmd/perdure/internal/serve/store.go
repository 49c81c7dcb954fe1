package serve

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/worker"
)

// openStore opens the file in the state folder, or the database, and makes this process the folder's owner.
func (s *server) openStore(ctx context.Context) error {
	if s.opts.Store == "" {
		store, err := boltstore.Open(s.opts.Dir.Database(), s.opts.storeOptions())
		if err != nil {
			return err
		}
		s.store, s.upkeep, s.owned = store, store, s.opts.Dir.Database()
		return nil
	}
	lock, err := s.opts.Dir.Lock()
	if err != nil {
		return err
	}
	store, err := pgstore.Open(ctx, s.opts.Store, &pgstore.Options{Logger: s.opts.Log})
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	s.store, s.upkeep, s.lock, s.owned = store, database{}, lock, s.opts.Dir.LockFile()
	return nil
}

// workerOptions make a worker look often where other processes hold runs, which it takes over when their leases have run
// out: nobody tells it of a process that was killed.
func (s *server) workerOptions() (o worker.Options) {
	if s.opts.Store != "" {
		o.PollInterval = 500 * time.Millisecond
	}
	return o
}

// closeStore closes the store, and gives the folder up.
func (s *server) closeStore() error {
	if s.store == nil {
		return nil
	}
	return errors.Join(s.store.Close(), closeFile(s.lock))
}

func closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

// database is the upkeep of a store in a database: its own programs do it.
type database struct{}

func (database) Stats(context.Context) (s boltstore.Stats, err error) {
	return s, exit.New(exit.Usage, "perdure stats --store DATABASE", "stats are of a store in a file; this one is in PostgreSQL")
}

func (database) Backup(context.Context, io.Writer, func(int64)) (int64, error) {
	return 0, exit.New(exit.Usage, "pg_dump, or the archive of the write-ahead log", "a backup is of a store in a file; this one is in PostgreSQL")
}

var _ admin.Store = database{}
