//go:build race

package simtest

// defaultSeeds is small under the race detector, which makes a simulation seven times as slow and has little to find on one
// goroutine: .ci/run simulates the many seeds without it.
const defaultSeeds = 1000
