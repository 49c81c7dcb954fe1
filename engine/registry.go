package engine

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/kernel"
)

// registry is the code that an engine has. It only grows.
type registry struct {
	mu sync.RWMutex
	// byKey has the definitions; keys lists them sorted, and is replaced, never changed. both guarded by mu
	byKey map[history.WorkflowKey]workflow.Definition
	keys  []history.WorkflowKey
}

func newRegistry() *registry {
	return &registry{byKey: make(map[history.WorkflowKey]workflow.Definition)}
}

func (r *registry) add(d workflow.Definition) error {
	if d == nil {
		return fmt.Errorf("register workflow: the definition is nil: %w", history.ErrInvalid)
	}
	k := d.Key()
	if err := history.CheckName("workflow", k.Name); err != nil {
		return fmt.Errorf("register workflow: %w: %w", history.ErrInvalid, err)
	}
	if k.Version < 1 {
		return fmt.Errorf("register workflow %s: version %d: versions begin at 1: %w", k.Name, k.Version, history.ErrInvalid)
	}
	if d.Func() == nil {
		return fmt.Errorf("register workflow %s v%d: it has no function: %w", k.Name, k.Version, history.ErrInvalid)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.byKey[k]; ok {
		return fmt.Errorf("register workflow %s v%d: it is registered already: %w", k.Name, k.Version, history.ErrConflict)
	}
	r.byKey[k] = d
	keys := append(slices.Clone(r.keys), k)
	slices.SortFunc(keys, func(a, b history.WorkflowKey) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	r.keys = keys
	return nil
}

func (r *registry) get(k history.WorkflowKey) (workflow.Definition, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	d, ok := r.byKey[k]
	return d, ok
}

// newest returns the highest registered version of a workflow.
func (r *registry) newest(name string) (version int) {
	for _, k := range r.Keys() {
		if k.Name == name {
			version = k.Version
		}
	}
	return version
}

// Lookup implements worker.Code.
func (r *registry) Lookup(k history.WorkflowKey) (kernel.Func, bool) {
	d, ok := r.get(k)
	if !ok {
		return nil, false
	}
	return d.Func(), true
}

// Keys implements worker.Code. The slice must not be changed.
func (r *registry) Keys() []history.WorkflowKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.keys
}
