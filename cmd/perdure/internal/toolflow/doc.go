// Package toolflow runs a tool of a tool file as a durable workflow.
//
// New makes the workflow: its steps are the tool's, in order, each one durable operation named as the file names it.
// What an expression sees of an earlier step is derived from that step's recorded result, so that a replay decides as
// the first run did. Templates of run and http are filled inside the step's execution, where secrets are resolved;
// all others, of conditions, questions and results, in the workflow itself, where there are none.
//
// Notify executes a file's hook when a question opens.
package toolflow
