//go:build linux && race

package disktest

// raceDetector says whether this binary has the race detector.
const raceDetector = true
