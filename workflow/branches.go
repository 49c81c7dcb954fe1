package workflow

import (
	"errors"
	"fmt"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// BranchOption changes how a construct of branches runs.
type BranchOption interface{ fork(*kernel.ForkSpec) }

type branchOptionFunc func(*kernel.ForkSpec)

func (f branchOptionFunc) fork(s *kernel.ForkSpec) { f(s) }

// Parallel bounds how many branches are under way at once; the default is all of them.
func Parallel(n int) BranchOption {
	return branchOptionFunc(func(s *kernel.ForkSpec) { s.Parallel = n })
}

// CollectAll lets every branch run to its end, also where others fail: the error is then a *BranchesError. Without
// it the first failure cancels the other branches.
func CollectAll() BranchOption {
	return branchOptionFunc(func(s *kernel.ForkSpec) { s.Policy = kernel.CollectAll })
}

// BranchesError lists the branches that failed.
type BranchesError struct {
	// Name is what the author called the construct, First the branch that failed first ("" under CollectAll).
	Name  string
	First string
	// Errors are by branch id; a branch that was canceled because another failed is not in it.
	Errors map[string]error
	order  []string
}

func (e *BranchesError) Error() string {
	id := e.order[0]
	if len(e.order) == 1 {
		return fmt.Sprintf("%s: branch %s: %v", e.Name, id, e.Errors[id])
	}
	return fmt.Sprintf("%s: %d branches failed, among them %s: %v", e.Name, len(e.order), id, e.Errors[id])
}

// Unwrap lists the errors in the order of the branches.
func (e *BranchesError) Unwrap() []error {
	errs := make([]error, len(e.order))
	for i, id := range e.order {
		errs[i] = e.Errors[id]
	}
	return errs
}

// branchError is the failure of a branch; errors.Is and errors.As find what its function returned.
type branchError struct{ failure *history.Failure }

func (e *branchError) Error() string        { return e.failure.Error() }
func (e *branchError) Is(target error) bool { return failureIs(e.failure, target) }
func (e *branchError) As(target any) bool   { return failureAs(e.failure, target) }

// Each runs fn for every item, each on a branch of its own, and returns the results in the order of the items. id
// names an item's branch: ids must differ, and stay the same when the function is run again.
//
// The branches' steps run in parallel; the code between them runs one branch at a time. The error is a
// *BranchesError, or matches ErrCanceled or ErrMisuse.
func Each[T, R any](ctx Context, name string, items []T, id func(T) string, fn func(ctx Context, item T) (R, error), opts ...BranchOption) ([]R, error) {
	branches := make([]Branch[R], len(items))
	for i, item := range items {
		branches[i] = Branch[R]{ID: id(item), Run: func(ctx Context) (R, error) { return fn(ctx, item) }}
	}
	return all(ctx, kernel.OpEach, name, branches, opts)
}

// Branch is one branch of All or Race.
type Branch[R any] struct {
	ID  string
	Run func(ctx Context) (R, error)
}

// All runs the branches and returns their results in order. It is Each over functions.
func All[R any](ctx Context, name string, branches []Branch[R], opts ...BranchOption) ([]R, error) {
	return all(ctx, kernel.OpAll, name, branches, opts)
}

// Race runs the branches until the first returns, whether with a result or an error, cancels the others and, when
// they have returned, returns the winner's id, result and error. A losing branch's running step is asked to stop and
// its result is dropped.
func Race[R any](ctx Context, name string, branches []Branch[R]) (winner string, result R, err error) {
	out, f := ctx.b.Fork(forkSpec(kernel.OpRace, name, branches, kernel.FirstWins, nil))
	if f != nil {
		return "", result, &OpError{Op: kernel.OpRace, Name: name, failure: f}
	}
	for _, o := range out.Branches {
		if o.ID != out.Decider {
			continue
		}
		if o.Failure != nil {
			return o.ID, result, &branchError{o.Failure}
		}
		result, err = decode[R](o.Payload)
		return o.ID, result, err
	}
	return "", result, &OpError{Op: kernel.OpRace, Name: name, failure: &history.Failure{Kind: history.FailureMisuse, Message: "a race needs at least one branch"}}
}

// Scope runs fn as one branch. When fn has returned its events are closed: it is not run again, and its operations
// do not count against a later change of its code.
func Scope[R any](ctx Context, name string, fn func(ctx Context) (R, error)) (R, error) {
	var zero R
	rs, err := all(ctx, kernel.OpScope, name, []Branch[R]{{ID: "scope", Run: fn}}, nil)
	var be *BranchesError
	switch {
	case errors.As(err, &be) && len(be.order) == 1:
		return zero, be.Errors[be.order[0]]
	case err != nil:
		return zero, err
	}
	return rs[0], nil
}

func forkSpec[R any](op, name string, branches []Branch[R], policy kernel.Policy, opts []BranchOption) kernel.ForkSpec {
	spec := kernel.ForkSpec{Op: op, Name: name, Policy: policy, Branches: make([]kernel.BranchSpec, len(branches))}
	for i, br := range branches {
		spec.Branches[i] = kernel.BranchSpec{ID: br.ID, Run: func(b *kernel.Branch) ([]byte, *history.Failure) { return call(b, br.Run) }}
	}
	for _, o := range opts {
		o.fork(&spec)
	}
	return spec
}

func all[R any](ctx Context, op, name string, branches []Branch[R], opts []BranchOption) ([]R, error) {
	out, f := ctx.b.Fork(forkSpec(op, name, branches, kernel.FailFast, opts))
	if f != nil {
		return nil, &OpError{Op: op, Name: name, failure: f}
	}
	results := make([]R, len(out.Branches))
	failed := &BranchesError{Name: name, First: out.Decider, Errors: make(map[string]error)}
	for i, o := range out.Branches {
		switch {
		case o.Failure == nil:
			v, err := decode[R](o.Payload)
			if err != nil {
				return nil, err
			}
			results[i] = v
		case out.Decider == "" || out.Decider == o.ID:
			failed.Errors[o.ID] = &branchError{o.Failure}
			failed.order = append(failed.order, o.ID)
		}
	}
	if len(failed.order) > 0 {
		return results, failed
	}
	return results, nil
}
