package mcptasks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
)

// routeTable holds the routes of a server. A set of routes is replaced as a whole, so that a caller sees the old
// set or the new one.
type routeTable struct {
	mu  sync.RWMutex
	set routeSet // guarded by mu; never mutated
}

// routeSet is an immutable set of routes.
type routeSet struct {
	newest map[string]*boundRoute
	all    map[routeKey]*boundRoute
}

type routeKey struct {
	tool, workflow string
	version        int
}

func newRouteSet(routes []*boundRoute) (routeSet, error) {
	set := routeSet{newest: map[string]*boundRoute{}, all: map[routeKey]*boundRoute{}}
	versions := map[string]map[int]bool{}
	for _, r := range routes {
		name := r.Tool.Name
		if versions[name][r.Version] {
			return routeSet{}, &RouteError{Tool: name, Reason: fmt.Sprintf("version %d is bound twice", r.Version)}
		}
		if versions[name] == nil {
			versions[name] = map[int]bool{}
		}
		versions[name][r.Version] = true
		set.all[routeKey{name, r.Workflow, r.Version}] = r
		if n := set.newest[name]; n == nil || n.Version < r.Version {
			set.newest[name] = r
		}
	}
	return set, nil
}

func (t *routeTable) load() routeSet {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.set
}

// tool returns the route that starts new runs of the tool.
func (t *routeTable) tool(name string) (*boundRoute, bool) {
	r, ok := t.load().newest[name]
	return r, ok
}

// of returns the route by which the run was started, nil where it is no longer there.
func (t *routeTable) of(r *history.Run) *boundRoute {
	return t.load().all[routeKey{r.Route, r.Workflow, r.Version}]
}

// SetRoutes replaces all routes, or none of them where one is wrong (*RouteError). Clients that watch the list of
// tools are told. Tasks of routes that are gone can still be read.
func (s *Server) SetRoutes(routes ...Route) error {
	bound := make([]*boundRoute, len(routes))
	for i, r := range routes {
		b, err := bindRoute(r, s.opts)
		if err != nil {
			return err
		}
		bound[i] = b
	}
	return s.replaceRoutes(func(routeSet) []*boundRoute { return bound })
}

// AddRoute adds a route, or replaces the one of the same tool and version.
func (s *Server) AddRoute(r Route) error {
	b, err := bindRoute(r, s.opts)
	if err != nil {
		return err
	}
	return s.replaceRoutes(func(old routeSet) []*boundRoute {
		kept := slices.DeleteFunc(slices.Collect(maps.Values(old.all)), func(o *boundRoute) bool {
			return o.Tool.Name == r.Tool.Name && o.Version == r.Version
		})
		return append(kept, b)
	})
}

// Routes returns the routes, by tool and version.
func (s *Server) Routes() []Route {
	var out []Route
	for _, r := range s.routes.load().all {
		out = append(out, r.Route)
	}
	slices.SortFunc(out, func(a, b Route) int {
		if c := strings.Compare(a.Tool.Name, b.Tool.Name); c != 0 {
			return c
		}
		return a.Version - b.Version
	})
	return out
}

func (s *Server) replaceRoutes(next func(old routeSet) []*boundRoute) error {
	s.routes.mu.Lock()
	defer s.routes.mu.Unlock()
	old := s.routes.set
	set, err := newRouteSet(next(old))
	if err != nil {
		return err
	}
	s.routes.set = set
	s.publishTools(old, set)
	return nil
}

// publishTools brings the SDK's tool list in line with the routes; the SDK notifies its sessions.
func (s *Server) publishTools(old, set routeSet) {
	var gone []string
	for name := range old.newest {
		if set.newest[name] == nil {
			gone = append(gone, name)
		}
	}
	hadRoutes, hasRoutes := len(old.newest) > 0, len(set.newest) > 0
	if hadRoutes && !hasRoutes && !s.opts.NoHelperTools {
		gone = append(gone, helperToolNames()...)
	}
	if len(gone) > 0 {
		s.mcp.RemoveTools(gone...)
	}
	for _, name := range slices.Sorted(maps.Keys(set.newest)) {
		if o := old.newest[name]; o == nil || !sameTool(o.Tool, set.newest[name].Tool) {
			s.mcp.AddTool(set.newest[name].Tool, s.serveTool)
		}
	}
	if hasRoutes && !hadRoutes && !s.opts.NoHelperTools {
		s.addHelperTools()
	}
}

// sameTool reports whether clients would see no difference.
func sameTool(a, b *mcp.Tool) bool {
	if a == b {
		return true
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// restricted reports whether some callers see other tools than others.
func (s routeSet) restricted() bool {
	for _, r := range s.newest {
		if len(r.Tenants) > 0 {
			return true
		}
	}
	return false
}

// visibleTools leaves out the tools that the tenant may not see.
func (s *Server) visibleTools(tenant string, tools []*mcp.Tool) []*mcp.Tool {
	set := s.routes.load()
	return slices.DeleteFunc(slices.Clone(tools), func(t *mcp.Tool) bool {
		r := set.newest[t.Name]
		return r != nil && !r.allows(tenant)
	})
}
