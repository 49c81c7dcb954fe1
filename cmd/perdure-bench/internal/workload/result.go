package workload

import (
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

// Result is what one process measured.
type Result struct {
	Workload Name   `json:"workload"`
	Peer     string `json:"peer"`
	Clients  int    `json:"clients,omitempty"`
	// Unsupported says that the engine has no notion of the workload: there are no values.
	Unsupported bool            `json:"unsupported,omitempty"`
	Durability  peer.Durability `json:"durability"`
	// Server says that a server outside this process did part of the work: its CPU, writes and memory are in no value.
	Server bool `json:"server,omitempty"`
	// Values are the measures by their key, in the unit that the key ends in.
	Values map[string]float64 `json:"values,omitempty"`
	// Series is the milliseconds per step of each tenth of W7.
	Series []float64 `json:"series,omitempty"`
	// Completed is how many completed runs the store has, read back when the engine was closed. Expected is how many
	// the workload completed.
	Completed int `json:"verified_completed"`
	Expected  int `json:"expected"`
	// Wake is when the last run of W6 wakes.
	Wake time.Time `json:"wake,omitzero"`
}

// The keys of Result.Values.
const (
	RunsPerSecond    = "runs_per_s"
	SignalsPerSecond = "signals_per_s"
	P50              = "p50_ms"
	P99              = "p99_ms"
	CPUPerRun        = "cpu_per_run_us"
	WrittenPerRun    = "written_per_run_bytes"
	AnonPerRun       = "anon_per_run_bytes"
	FilePerRun       = "file_per_run_bytes"
	Runs             = "runs"
	StepsAgain       = "steps_again"
	StepMS           = "step_ms"
	LastToFirst      = "last_to_first"
)

func (r *Result) latencies(l latencies) {
	r.Values[P50], r.Values[P99] = l.percentile(50), l.percentile(99)
}
