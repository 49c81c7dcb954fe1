package engine_test

import (
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/kernel"
)

// replay holds a workflow against a history.
func replay(x *history.Export, w workflow.Definition) error {
	return kernel.Replay(x, w.Func(), kernel.Options{})
}
