package admin

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/history"
)

// FuzzFilter: a query selects runs within the bounds of a list, or is refused as a mistake of the caller.
func FuzzFilter(f *testing.F) {
	for _, q := range []string{
		"", "status=ready&status=cancelled&tag=a=b&limit=1000&after=01J", "createdFrom=2026-11-30T08:00:00Z&createdBefore=2200-12-31T23:59:59%2B01:00",
		"limit=0", "limit=1e3", "limit=9223372036854775808", "status=", "tag==&tag=x", "createdFrom=1969-12-31T23:59:59Z", "createdFrom=9999-99-99", "%zz", "a;b", "workflow=%00%ff&questions=true",
	} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		got, err := filterOf(&http.Request{URL: &url.URL{RawQuery: query}})
		if err != nil {
			if code, _ := exit.Of(err); code != exit.Usage {
				t.Errorf("%q: %v has exit code %d, want %d", query, err, code, exit.Usage)
			}
			return
		}
		if got.Limit < 1 || got.Limit > 1000 || got.CreatedFrom < 0 || got.CreatedBefore < 0 {
			t.Errorf("%q: %+v is out of bounds", query, got)
		}
		for _, s := range got.Statuses {
			if s < history.StatusReady || s > history.StatusCanceled {
				t.Errorf("%q: there is no %s", query, s)
			}
		}
	})
}
