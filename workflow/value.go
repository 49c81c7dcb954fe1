package workflow

import (
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/history"
)

// Now returns the store's time, recorded: when the function is run again it returns the same instant.
func Now(ctx Context) time.Time {
	return record(ctx, "now", func() (time.Time, error) { return ctx.b.Now().Std(), nil })
}

// NewID returns a new ULID, recorded. Its entropy is from crypto/rand.
func NewID(ctx Context) string {
	return record(ctx, "id", func() (string, error) {
		id, err := ulid.New(uint64(ctx.b.Now().Std().UnixMilli()), crand.Reader)
		return id.String(), err
	})
}

// Rand returns a generator whose seed is recorded: when the function is run again it gives the same numbers. It is
// not for secrets.
func Rand(ctx Context) *rand.Rand {
	seed := record(ctx, "rand", func() ([]byte, error) {
		seed := make([]byte, 32)
		_, err := crand.Read(seed)
		return seed, err
	})
	return rand.New(rand.NewChaCha8([32]byte(seed)))
}

// Record runs fn once and records what it returned: for a small value that could come out differently the next time, and
// needs no retries. fn must not do I/O; that is what steps are for. It costs no commit of its own.
func Record[T any](ctx Context, name string, fn func() (T, error)) (T, error) {
	var v T
	payload, f := ctx.b.Value(name, func() ([]byte, *history.Failure) {
		v, err := fn()
		if err != nil {
			return nil, failureOf(err)
		}
		return encode(v)
	})
	if f != nil {
		return v, &OpError{Op: "record", Name: name, failure: f}
	}
	return decode[T](payload)
}

// record returns what make made the first time. It is never refused for a cancellation; it panics where the
// operation is misused, for lack of an error result.
func record[T any](ctx Context, name string, make func() (T, error)) T {
	payload, f := ctx.b.Value(name, func() ([]byte, *history.Failure) {
		v, err := make()
		if err != nil {
			return nil, &history.Failure{Kind: history.FailureEncoding, Message: fmt.Sprintf("%s: %v", name, err)}
		}
		return encode(v)
	})
	if f != nil {
		panic(f)
	}
	var v T
	if err := json.Unmarshal(payload, &v); err != nil {
		panic(fmt.Sprintf("recorded %s %q: %v", name, payload, err))
	}
	return v
}
