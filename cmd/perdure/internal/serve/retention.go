package serve

import (
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/exportfile"
	"github.com/perdure/perdure/cmd/perdure/internal/policyfile"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
	"github.com/perdure/perdure/engine"
)

// defaultRetention is how long runs are kept of which neither their tool nor a policy says it.
const defaultRetention = 7 * 24 * time.Hour

// readPolicy reads the file of the policy; without one the policy is empty.
func readPolicy(path string) (*policyfile.File, error) {
	if path == "" {
		return &policyfile.File{}, nil
	}
	return policyfile.Load(path)
}

// retention is the engine's, by the policy. The store is open: it says who may write to the file of exports.
func (s *server) retention(tools *toolfile.File) (o engine.RetentionOptions, err error) {
	o.Policy = s.policy.Policy
	for i := range o.Policy {
		r := &o.Policy[i]
		if r.Workflow != "" && tools.Tool(r.Workflow) == nil && !isOwnWorkflow(r.Workflow) {
			s.opts.Log.Warn("a rule of the retention policy is for a tool that is not offered: is its name right?", "tool", r.Workflow, "rule", i+1, "policy", s.policy.Path)
		}
	}
	if s.policy.Exports == "" {
		return o, nil
	}
	if s.exports, err = exportfile.Open(s.policy.Exports); err != nil {
		return o, err
	}
	o.Exporter = s.exports
	return o, nil
}
