package report

import "github.com/perdure/perdure/cmd/perdure-bench/internal/workload"

// measure is how one value is shown and compared.
type measure struct {
	key, label string
	// better is the direction that wins.
	better direction
	// process says that it is of the engine's process only: what a server did is not in it.
	process bool
}

type direction int

const (
	neither direction = iota
	higher
	lower
)

// measures lists what is shown of a workload.
func measures(w workload.Name) []measure {
	p50 := measure{key: workload.P50, label: "p50, ms", better: lower}
	p99 := measure{key: workload.P99, label: "p99, ms", better: lower}
	runs := measure{key: workload.Runs, label: "runs"}
	switch w {
	case workload.W1, workload.W2:
		return []measure{
			{key: workload.RunsPerSecond, label: "runs/s", better: higher},
			p50, p99,
			{key: workload.CPUPerRun, label: "CPU per run, µs", better: lower, process: true},
			{key: workload.WrittenPerRun, label: "written per run, bytes", better: lower, process: true},
		}
	case workload.W3, workload.W5:
		return []measure{p50, p99}
	case workload.W4:
		return []measure{
			{key: workload.P50, label: "late p50, ms", better: lower}, {key: workload.P99, label: "late p99, ms", better: lower}, runs,
		}
	case workload.W4M:
		return []measure{
			{key: workload.AnonPerRun, label: "RssAnon per run, bytes", better: lower, process: true},
			{key: workload.FilePerRun, label: "RssFile per run, bytes", process: true},
			runs,
		}
	case workload.W5T:
		return []measure{{key: workload.SignalsPerSecond, label: "signals/s", better: higher}, runs}
	case workload.W6:
		return []measure{
			{key: workload.RunsPerSecond, label: "runs/s after kill -9", better: higher},
			runs,
			{key: workload.StepsAgain, label: "steps done again"},
		}
	case workload.W7:
		return []measure{{key: workload.StepMS, label: "ms per step", better: lower}, {key: workload.LastToFirst, label: "last tenth : first", better: lower}}
	}
	return nil
}
