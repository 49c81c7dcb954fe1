package crashtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/codec"
)

// place is where a store is, and how its payloads are kept.
type place struct {
	// Dir has what is in files: the store, where there is no DSN, and exports.
	Dir string
	// DSN is the connection string of the database that the store is in.
	DSN string
	// Keys is how many keys there are by now: payloads are compressed, and encrypted under the newest. 0: they are plain.
	Keys int
}

func storePath(dir string) string { return filepath.Join(dir, "crash.db") }

// leaseTTL is the lease of a worker: what was killed in a cluster holds its runs for so long.
const leaseTTL = time.Second

// open opens the store for writing. It waits for a database that is not there for a while.
func (p *place) open() (engine.Store, error) {
	if p.DSN == "" {
		return boltstore.Open(storePath(p.Dir), &boltstore.Options{LogSize: 128 << 10}) // small: it is often full
	}
	ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
	defer stop()
	for {
		// Without cancel: the store outlives the wait.
		s, err := pgstore.Open(context.WithoutCancel(ctx), p.DSN, nil)
		if err == nil || wait(ctx, "a database") != nil {
			return s, err
		}
	}
}

// read opens the store to look at it, with its payloads as they were written. Of a file it is a copy: the next child is to find what
// the one before has left, and not what was brought up to its log since.
func (p *place) read(ctx context.Context) (engine.Store, error) {
	var s engine.Store
	var err error
	if p.DSN == "" {
		var path string
		if path, err = p.copied(); err == nil {
			s, err = boltstore.Open(path, &boltstore.Options{ReadOnly: true, Log: slog.New(slog.DiscardHandler)})
		}
	} else {
		s, err = pgstore.Open(ctx, p.DSN, nil)
	}
	if err != nil {
		return nil, err
	}
	codecs, err := p.codecs()
	if err != nil {
		return nil, err
	}
	return engine.WithCodecs(s, codecs...)
}

// copied copies the file with its log, over the copy before.
func (p *place) copied() (path string, err error) {
	dir := filepath.Join(p.Dir, "judged")
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return "", err
	}
	for _, end := range []string{"", ".log"} {
		b, err := os.ReadFile(storePath(p.Dir) + end)
		if end != "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(storePath(dir)+end, b, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	return storePath(dir), nil
}

// codecs are compression and encryption, under keys of which the newest comes first.
func (p *place) codecs() ([]workflow.Codec, error) {
	if p.Keys == 0 {
		return nil, nil
	}
	var keys []codec.Key
	for n := p.Keys; n > 0; n-- {
		k := codec.Key{ID: fmt.Sprint("key-", n)}
		k.Secret[0] = byte(n)
		keys = append(keys, k)
	}
	aes, err := codec.NewAESGCM(keys...)
	return []workflow.Codec{codec.NewGzip(), aes}, err
}

// exports is the export file of a process: each file has one writer.
func (p *place) exports(process int) string {
	if p.DSN == "" {
		process = 0
	}
	return filepath.Join(p.Dir, fmt.Sprintf("exports-%d", process))
}

// gate is the file that lets the step of "slow" end.
func (p *place) gate() string { return filepath.Join(p.Dir, "gate") }
