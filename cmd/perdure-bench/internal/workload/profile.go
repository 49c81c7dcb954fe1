package workload

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
)

// profile begins a CPU profile where one is asked for; stop writes it, and one of all allocations since the start.
func (m *measurement) profile() (stop func() error, err error) {
	if m.Profile == "" {
		return func() error { return nil }, nil
	}
	cpu, err := os.Create(m.Profile + ".cpu.pprof")
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(fmt.Errorf("profile: %w", err), cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		if err := cpu.Close(); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		allocs, err := os.Create(m.Profile + ".allocs.pprof")
		if err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		if err := errors.Join(pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close()); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		return nil
	}, nil
}
