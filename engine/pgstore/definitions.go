package pgstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/history"
)

// PutDefinition implements engine.Store.
func (s *Store) PutDefinition(ctx context.Context, name string, data []byte) (version int, err error) {
	if err := history.CheckName("definition", name); err != nil {
		return 0, fmt.Errorf("%w: %w", history.ErrInvalid, err)
	}
	if len(data) == 0 {
		return 0, fmt.Errorf("definition %q is empty: %w", name, history.ErrInvalid)
	}
	digest := history.Sum(data)
	err = s.read(ctx, "put definition", func() error {
		for range tries { // until nobody else puts one of that name
			_, err := s.pool.Exec(ctx, `insert into perdure_definitions (name, version, digest, data)
				select $1::text, coalesce(max(version), 0) + 1, $2, $3 from perdure_definitions where name = $1
				having not exists (select from perdure_definitions where name = $1 and digest = $2)`, name, digest[:], data)
			if err == nil || !isCode(err, codeUnique) {
				if err != nil {
					return err
				}
				break
			}
		}
		return s.pool.QueryRow(ctx, "select version from perdure_definitions where name = $1 and digest = $2", name, digest[:]).Scan(&version)
	})
	return version, err
}

// Definitions implements engine.Store.
func (s *Store) Definitions(ctx context.Context, fn func(name string, version int, data []byte) error) error {
	type definition struct {
		name    string
		version int
		data    []byte
	}
	var all []definition
	err := s.read(ctx, "definitions", func() error {
		rows, err := s.pool.Query(ctx, "select name, version, data from perdure_definitions order by name, version")
		if err != nil {
			return err
		}
		var d definition
		_, err = pgx.ForEachRow(rows, []any{&d.name, &d.version, &d.data}, func() error {
			all = append(all, definition{d.name, d.version, bytes.Clone(d.data)})
			return nil
		})
		return err
	})
	if err != nil {
		return err
	}
	for _, d := range all { // no transaction is open while fn runs
		if err := fn(d.name, d.version, d.data); err != nil {
			return err
		}
	}
	return nil
}

// Secret implements engine.Store.
func (s *Store) Secret(ctx context.Context, name string) (secret []byte, err error) {
	if name == "" {
		return nil, fmt.Errorf("secret without a name: %w", history.ErrInvalid)
	}
	fresh := make([]byte, 32)
	rand.Read(fresh) // never fails
	err = s.read(ctx, "secret", func() error {
		if _, err := s.pool.Exec(ctx, "insert into perdure_secrets (name, value) values ($1, $2) on conflict do nothing", []byte(name), fresh); err != nil {
			return err
		}
		return s.pool.QueryRow(ctx, "select value from perdure_secrets where name = $1", []byte(name)).Scan(&secret)
	})
	return secret, err
}
