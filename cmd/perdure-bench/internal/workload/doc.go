// Package workload runs one workload on one engine, in this process, and measures it.
//
// The types:
//
//   - [Name] names a workload, W1 to W7.
//   - [Spec] says what to run and how much of it.
//   - [Result] is what was measured, with a count that was read back from the durable store.
//
// # The workloads
//
//	W1   one-step runs in a closed loop of so many clients: completed per second, latency, CPU per run
//	W2   the same with ten steps a run
//	W3   idle: from the start to the result of a one-step run, one at a time
//	W4   many runs asleep for the same time: how late they wake
//	W4M  many runs asleep for an hour: memory of each
//	W5   idle: from a signal to the result of the run that waits for it
//	W5T  many runs that wait for a signal: signals per second, in a closed loop
//	W6   many runs of five done steps asleep, kill -9; from the restart until all are complete
//	W7   one run of many steps: cost per step as its history grows
//
// An engine that has no notion of a workload gives a Result that says so. What goes wrong is an error, never a number.
package workload
