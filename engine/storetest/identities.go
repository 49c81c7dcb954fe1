package storetest

import (
	"fmt"
	"sync"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func forgetIdentities(e *env) {
	h := e.takeNew("a")
	h.receive("x", 0)
	send := func(n int, want engine.Delivery) {
		e.Helper()
		e.deliver(h.id, signal("x", fmt.Sprint(n), `1`), want)
	}
	const inOrder = 5
	for n := range inOrder {
		send(n, engine.Delivered)
	}
	e.many(history.IdentityCount-inOrder, func(n int) {
		d, err := e.Deliver(e.ctx, h.id, signal("x", fmt.Sprint(n+inOrder), `1`))
		if err != nil || d != engine.Delivered {
			e.Errorf("signal %d: %s, %v", n+inOrder, d, err)
		}
	})
	e.clock.Advance(history.IdentityAge)
	send(0, engine.Duplicate) // old, and not too many
	send(history.IdentityCount, engine.Delivered)
	send(0, engine.Delivered) // forgotten: there was one too many
	send(1, engine.Delivered)
	send(3, engine.Duplicate)
	send(0, engine.Duplicate)
	e.reopen(0)
	send(0, engine.Duplicate)
	send(history.IdentityCount, engine.Duplicate)
}

// many calls fn with 0 to n-1, many at a time.
func (e *env) many(n int, fn func(i int)) {
	e.Helper()
	var g sync.WaitGroup
	next := make(chan int)
	for range 256 {
		g.Go(func() {
			for i := range next {
				fn(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	g.Wait()
}
