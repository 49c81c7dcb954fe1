package mcptasks

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// The errors of a client, for errors.Is. They come wrapped with the operation and the task.
var (
	// ErrTaskNotFound: the server has no such task for this caller. It does not say why.
	ErrTaskNotFound = errors.New("task not found")
	// ErrTaskExpired: the task was there, and the time for which the server kept it has passed. It matches
	// ErrTaskNotFound too.
	ErrTaskExpired = fmt.Errorf("task expired: %w", ErrTaskNotFound)
	// ErrTaskCancelled: the task was cancelled.
	ErrTaskCancelled = errors.New("task was cancelled")
	// ErrNoAnswer: the task asks a question that the client has no handler for.
	ErrNoAnswer = errors.New("the task asks a question that this client cannot answer")
)

// TaskFailedError is the end of a task that failed: not with a result of the tool, but with a protocol error.
type TaskFailedError struct {
	TaskID  string
	Code    int64
	Message string
	Data    json.RawMessage
}

func (e *TaskFailedError) Error() string {
	return fmt.Sprintf("task %s failed: %s (code %d)", e.TaskID, e.Message, e.Code)
}

// taskError adds the operation and the task to an error of the client; nil stays nil.
func taskError(op, taskID string, err error) error {
	if err == nil {
		return nil
	}
	// tasks/update has the same code for answers that do not fit.
	if wire := wireError(err); wire != nil && wire.Code == jsonrpc.CodeInvalidParams && (op != "update" || wire.Message == errTaskNotFound().Error()) {
		return fmt.Errorf("%s task %s: %w: %w", op, taskID, ErrTaskNotFound, err)
	}
	return fmt.Errorf("%s task %s: %w", op, taskID, err)
}

// wireError returns the error that the server answered with; nil where err is of another kind. The SDK has errors of
// its own in the same type, for messages that were not sent or whose connection broke: those are no answers.
func wireError(err error) *jsonrpc.Error {
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) {
		return nil
	}
	switch wire.Message {
	case "rejected by transport", "server is closing", "client is closing":
		return nil
	}
	return wire
}
