package workload

import "time"

// Name names a workload.
type Name string

// The workloads. W6 is two processes: the first is killed, the second is measured.
const (
	W1      Name = "W1"
	W2      Name = "W2"
	W3      Name = "W3"
	W4      Name = "W4"
	W4M     Name = "W4M"
	W5      Name = "W5"
	W5T     Name = "W5T"
	W6      Name = "W6"
	W6Crash Name = "W6-crash"
	W7      Name = "W7"
)

// Spec says what to run. Fields that a workload does not need are ignored.
type Spec struct {
	Workload Name
	// Peer names the engine.
	Peer string
	// Clients is how many goroutines drive the engine (W1, W2, and the starting in W4 to W6).
	Clients int
	// Runs is how many runs there are at most.
	Runs int
	// Steps of the one run of W7.
	Steps int
	// For bounds W1 and W2, and in W4, W4M and W5T the time to start the runs, and to signal them.
	For time.Duration
	// Sleep is how long the runs of W4 sleep, and the time within which those of W6 wake, from the first start.
	Sleep time.Duration
	// Dir is where the engine keeps its files; it is empty at first.
	Dir string
	// Postgres is the address of a server, "" for a peer that uses none.
	Postgres string
	// Profile, where it is set, is the prefix of the names of a CPU and an allocation profile.
	Profile string
	// Began is when the process was started.
	Began time.Time
}

// stepsEach is how many steps a run of W1 and W2 has.
func (s *Spec) stepsEach() int {
	if s.Workload == W2 {
		return 10
	}
	return 1
}
