package boltstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/perdure/perdure/history"
)

// PutDefinition implements engine.Store.
func (s *Store) PutDefinition(ctx context.Context, name string, data []byte) (int, error) {
	if err := history.CheckName("definition", name); err != nil {
		return 0, s.wrap("put definition", fmt.Errorf("%w: %w", history.ErrInvalid, err))
	}
	if len(data) == 0 || len(data) > history.MaxRecord/2 {
		return 0, s.wrap("put definition", fmt.Errorf("definition %q has %d bytes: %w", name, len(data), history.ErrInvalid))
	}
	data = bytes.Clone(data)
	byDigest := digestKey(name, history.Sum(data))
	var version int
	err := s.submit(ctx, "put definition", func(st *stage) error {
		if v := st.get(bDigests, byDigest); len(v) == 4 {
			version = int(binary.BigEndian.Uint32(v))
			return nil
		}
		version = 1
		for k := range st.scan(bDefinitions, definitionPrefix(name), nil) {
			version = int(binary.BigEndian.Uint32(k[len(k)-4:])) + 1
		}
		st.put(bDefinitions, definitionKey(name, version), data)
		st.put(bDigests, byDigest, binary.BigEndian.AppendUint32(nil, uint32(version)))
		return nil
	})
	if err != nil {
		return 0, err
	}
	return version, nil
}

// Definitions implements engine.Store. Each is read in a transaction of its own, so fn may call the store.
func (s *Store) Definitions(ctx context.Context, fn func(name string, version int, data []byte) error) error {
	var last []byte
	for {
		var data []byte
		err := s.view(ctx, "definitions", func(v *view) error {
			c := v.bucket(bDefinitions).Cursor()
			k, val := c.Seek(last)
			if last != nil && bytes.Equal(k, last) {
				k, val = c.Next()
			}
			last, data = bytes.Clone(k), bytes.Clone(val)
			return nil
		})
		switch {
		case err != nil:
			return err
		case last == nil:
			return nil
		}
		name, version, ok := splitDefinitionKey(last)
		if !ok {
			return s.wrap("definitions", fmt.Errorf("row %x: %w", last, history.ErrCorrupt))
		}
		if err := fn(name, version, data); err != nil {
			return err
		}
	}
}

// Secret implements engine.Store.
func (s *Store) Secret(ctx context.Context, name string) ([]byte, error) {
	if name == "" || len(name) > history.MaxKey {
		return nil, s.wrap("secret", fmt.Errorf("name of %d bytes: %w", len(name), history.ErrInvalid))
	}
	var secret []byte
	err := s.view(ctx, "secret", func(v *view) error {
		secret = bytes.Clone(v.get(bSecrets, []byte(name)))
		return nil
	})
	if err != nil || secret != nil {
		return secret, err
	}
	fresh := make([]byte, 32)
	rand.Read(fresh) // never fails
	var kept []byte
	err = s.submit(ctx, "secret", func(st *stage) error {
		if kept = bytes.Clone(st.get(bSecrets, []byte(name))); kept == nil {
			kept = bytes.Clone(fresh)
			st.put(bSecrets, []byte(name), fresh)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return kept, nil
}
