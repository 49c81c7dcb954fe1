package mcptasks

import (
	"testing"
	"time"

	"github.com/perdure/perdure/history"
)

func TestRetentionOfACall(t *testing.T) {
	ttl := func(d time.Duration) *int64 {
		ms := d.Milliseconds()
		return &ms
	}
	for _, c := range []struct {
		name          string
		server, route time.Duration
		ttl           *int64
		want          time.Duration
	}{
		{"the server's default", 0, 0, nil, 7 * 24 * time.Hour},
		{"the server's", time.Hour, 0, nil, time.Hour},
		{"the route's", time.Hour, 2 * time.Hour, nil, 2 * time.Hour},
		{"a route without an end", time.Hour, Unlimited, nil, history.Forever},
		{"left to the engine", Unlimited, 0, nil, 0},
		{"left to the engine, whatever a client asks", Unlimited, 0, ttl(time.Minute), 0},
		{"a client that asks for less", time.Hour, 0, ttl(time.Minute), time.Minute},
		{"a client that asks for more", time.Hour, 0, ttl(2 * time.Hour), time.Hour},
		{"a client of a route without an end", 0, Unlimited, ttl(time.Minute), time.Minute},
		{"a client that asks for nothing", time.Hour, 0, ttl(0), time.Hour},
	} {
		s, err := NewServer(newFakeEngine(), Options{Retention: c.server})
		if err != nil {
			t.Fatal(err)
		}
		route := jobRoute()
		route.Retention = c.route
		if err := s.SetRoutes(route); err != nil {
			t.Fatal(err)
		}
		bound, _ := s.routes.tool("job")
		call := &call{request: &request{}}
		if c.ttl != nil {
			call.task2025 = &taskParam2025{TTL: c.ttl}
		}
		if got := call.retention(bound); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
