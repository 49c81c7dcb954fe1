package commitpath

import (
	"fmt"
	"sync"

	bolt "go.etcd.io/bbolt"
)

// row is one put.
type row struct{ bucket, key, value []byte }

// commit is what one writer wants durable.
type commit struct {
	rows []row
	done chan error // capacity 1
}

// loop is group commit on bbolt and nothing else.
type loop struct {
	db *bolt.DB

	mu sync.Mutex
	// waiting are the commits that gather. guarded by mu
	waiting []*commit
	wake    chan struct{} // capacity 1
	ended   chan struct{}
}

// openLoop opens a file as boltstore does, with the buckets that the rows need.
func openLoop(path string, buckets ...string) (*loop, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true, FreelistType: bolt.FreelistMapType, InitialMmapSize: 1 << 30})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, b := range buckets {
			if _, err := tx.CreateBucket([]byte(b)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("create the buckets of %s: %w", path, err)
	}
	l := &loop{db: db, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go l.run()
	return l, nil
}

// write returns when the rows are durable.
func (l *loop) write(c *commit) error {
	l.mu.Lock()
	l.waiting = append(l.waiting, c)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return <-c.done
}

func (l *loop) run() {
	defer close(l.ended)
	for range l.wake {
		l.mu.Lock()
		group := l.waiting
		l.waiting = nil
		l.mu.Unlock()
		err := l.db.Update(func(tx *bolt.Tx) error {
			for _, c := range group {
				for _, r := range c.rows {
					if err := tx.Bucket(r.bucket).Put(r.key, r.value); err != nil {
						return err
					}
				}
			}
			return nil
		})
		for _, c := range group {
			c.done <- err
		}
	}
}

// close waits for what is under way. No write may follow.
func (l *loop) close() error {
	close(l.wake)
	<-l.ended
	return l.db.Close()
}
