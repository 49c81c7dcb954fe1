// Package crashfile remembers, through an end of the process without warning, which runs it was executing: a run whose code ends
// the process at each execution would otherwise be executed, and end it, for ever.
//
// A line is written before an execution and cleared after it, without a sync: the kernel keeps what a killed process wrote, and
// a power cut is no run's fault. It is written only where the process before ended without Close, for executions that begin within
// ten minutes: the file costs nothing while all is well, and who ends the process is executed again soon.
//
// The file is text, for whoever looks at it:
//
//	perdure crashes v1 open
//	01M8NRWVZEMSH76250MPM4SSTE                    7      3 executing
//
// First whether a process has it open (open, shut), then a line for each run: its id, the number of its newest event when the
// execution began, at how many ends of the process in succession it was being executed from there, and whether it is now
// (executing, resting). A line of blanks is free.
package crashfile
