// Package schedule starts runs at the times of a cron expression. A schedule is itself a run, of the workflow that
// [Workflow] returns: its next time is a durable timer, so that restarts neither lose nor repeat one, and it is listed,
// inspected and ended like any run.
//
// # Rules
//
// A time is fired at most once, because the run that it starts has a key made of the schedule's name and the time.
//
// What happens where times were missed (the process was down) is [Missed]; where the run before still goes on,
// [Overlap].
package schedule
