package engine

import "github.com/perdure/perdure/history"

// LineStats is the runs of a workflow version and queue that stand in line in a store: ready, held by a worker, or blocked.
type LineStats struct {
	Workflow string `json:"workflow"`
	Version  int    `json:"version"`
	Queue    string `json:"queue,omitempty"`
	Runs     int    `json:"runs"`
	// Oldest is since when the first has stood there.
	Oldest history.Time `json:"oldest"`
}
