package report

import "github.com/perdure/perdure/cmd/perdure-bench/internal/workload"

// measure is how one value is shown and compared.
type measure struct {
	key, label string
	// better is the direction that wins.
	better direction
}

type direction int

const (
	neither direction = iota
	higher
	lower
)

// measures lists what is shown of a workload.
func measures(w workload.Name) []measure {
	p50, p99 := measure{workload.P50, "p50, ms", lower}, measure{workload.P99, "p99, ms", lower}
	switch w {
	case workload.W1, workload.W2:
		return []measure{
			{workload.RunsPerSecond, "runs/s", higher},
			p50, p99,
			{workload.CPUPerRun, "CPU per run, µs", lower},
			{workload.WrittenPerRun, "written per run, bytes", lower},
		}
	case workload.W3, workload.W5:
		return []measure{p50, p99}
	case workload.W4:
		return []measure{{workload.P50, "late p50, ms", lower}, {workload.P99, "late p99, ms", lower}}
	case workload.W4M:
		return []measure{{workload.AnonPerRun, "RssAnon per run, bytes", lower}, {workload.FilePerRun, "RssFile per run, bytes", neither}}
	case workload.W5T:
		return []measure{{workload.SignalsPerSecond, "signals/s", higher}}
	case workload.W6:
		return []measure{
			{workload.RunsPerSecond, "runs/s after kill -9", higher}, {workload.Runs, "runs found", neither}, {workload.StepsAgain, "steps done again", neither},
		}
	case workload.W7:
		return []measure{{workload.StepMS, "ms per step", lower}, {workload.LastToFirst, "last tenth : first", lower}}
	}
	return nil
}
