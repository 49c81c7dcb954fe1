package kernel

import (
	"fmt"

	"github.com/perdure/perdure/history"
)

// Continue is what a workflow function returns, as a failure, to go on as a new generation of the same run.
func Continue(input []byte) *history.Failure {
	return &history.Failure{Kind: failureContinue, Data: input}
}

// failureContinue never reaches a history.
const failureContinue history.FailureKind = "continue"

// continueAsNew ends the generation. The event that ends it is the first of the next, whose input it carries; the
// inbox, the identities of signals, the task and the deadline belong to the run and go on.
func (x *Execution) continueAsNew(input []byte) {
	x.continued = true
	x.emit(history.Event{Kind: history.RunContinued, Payload: input})
}

// refuseContinue is what a branch that is not the workflow function itself gets.
func refuseContinue(f *history.Failure) *history.Failure {
	if f == nil || f.Kind != failureContinue {
		return f
	}
	return &history.Failure{Kind: history.FailureMisuse, Message: "a branch cannot continue as new: only the workflow function itself can"}
}

// inGeneration makes a position unique for the run's life.
func inGeneration(generation uint32, p history.Position) string {
	if generation == 0 {
		return string(p)
	}
	return fmt.Sprintf("g%d:%s", generation, p)
}
