package pgstore_test

import (
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// A tenant is any bytes. One that is no text hinders no news, neither its own nor those of others that go with them.
func TestNewsOfTenantsThatAreNoText(t *testing.T) {
	dsn := database(t)
	s, other := open(t, dsn), open(t, dsn)
	tenants := []string{"a\x00b", "\xff", "\xed\xa0\x80", "acme", ""}
	told := make(chan engine.Change, 100)
	defer other.Subscribe(func(c engine.Change) { told <- c })()
	want := make(map[history.RunID]string)
	for _, tenant := range tenants {
		run, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Tenant: tenant, Workflow: "w", Version: 1}, Input: []byte("1")})
		if err != nil {
			t.Fatal(err)
		}
		want[run.ID] = tenant
	}
	patience := time.After(time.Minute)
	for len(want) > 0 {
		select {
		case c := <-told:
			if tenant, ok := want[c.Run]; ok && c.Tenant != tenant {
				t.Errorf("told of tenant %q, want %q", c.Tenant, tenant)
			}
			delete(want, c.Run)
		case <-patience:
			t.Fatalf("not told of %d runs: %q", len(want), want)
		}
	}
}
