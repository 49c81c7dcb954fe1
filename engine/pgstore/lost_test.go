package pgstore_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/engine/pgstore/pgtest"
)

// mostTrips bounds the requests of one call, with those that prepare its statements.
const mostTrips = 60

// Each write loses, in turn, each of its requests and each of its replies, with the connection, or is kept back there until
// its caller gives up. Whoever then repeats it finds that it has happened once. A commit and a hold that were cut off find that
// out by themselves: they are acknowledged exactly if they have happened.
func TestEveryWriteThatLosesARequestOrAReplyHappensOnce(t *testing.T) {
	b := breakable(t)
	all := changes()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, loss := range []pgtest.Loss{pgtest.LoseRequest, pgtest.LoseReply, pgtest.LoseTime} {
			t.Run(fmt.Sprintf("%s, %s", name, loss), func(t *testing.T) {
				b := b.of(t)
				trips := 0
				for b.loses(all[name](b), loss, trips) {
					if trips++; trips > mostTrips {
						t.Fatalf("a call takes more than %d requests", mostTrips)
					}
				}
				if trips == 0 {
					t.Fatal("no request was seen")
				}
				sound(t, b.direct)
			})
		}
	}
}

// loses makes a change whose n-th request meets a loss. It reports whether there was one.
func (b *broken) loses(c change, loss pgtest.Loss, n int) bool {
	b.Helper()
	var before any
	if c.seen != nil {
		before = c.seen()
	}
	ctx, giveUp := context.WithCancel(b.Context())
	defer giveUp()
	met := b.proxy.Arm(loss, n)
	if loss == pgtest.LoseTime {
		go func() {
			select {
			case <-met:
				giveUp()
			case <-ctx.Done():
			}
		}()
	}
	err := c.call(ctx, false)
	lost := b.proxy.Disarm()
	b.proxy.Resume()
	if !lost && err != nil {
		b.Fatalf("request %d was not reached, and the call fails: %v", n, err)
	}
	if c.seen != nil && loss != pgtest.LoseTime {
		if happened := c.seen() != before; happened != (err == nil) {
			b.Fatalf("after the loss of request %d the call has happened: %t, and returns: %v", n, happened, err)
		}
	}
	for tries := 0; err != nil; tries++ {
		if tries == 3 {
			b.Fatalf("after the loss of request %d the call fails, repeated without one: %v", n, err)
		}
		err = c.call(b.Context(), true)
	}
	c.once()
	if b.Failed() {
		b.Fatalf("it was wrong after the loss of request %d", n)
	}
	return lost
}

// TestEveryWriteLosesItsReplies finds the writes that the table above does not have, those of optional interfaces too.
func TestEveryWriteLosesItsReplies(t *testing.T) {
	reads := []string{"Now", "Subscribe", "Close", "Shared", "Stats", "Expired", "Prunable", "Tombstones", "Tombstone", "Holds", "Receipt", "Journal"}
	for m := range reflect.TypeFor[engine.Reader]().Methods() {
		if m.Name != "Secret" { // it makes one
			reads = append(reads, m.Name)
		}
	}
	reads = append(reads, "Erase") // Delete and Prune leave nothing for it here
	all := changes()
	for m := range reflect.TypeFor[*pgstore.Store]().Methods() {
		if _, there := all[m.Name]; !there && !slices.Contains(reads, m.Name) {
			t.Errorf("the replies of %s are never lost", m.Name)
		}
	}
}
