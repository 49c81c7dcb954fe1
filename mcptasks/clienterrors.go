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
	var wire *jsonrpc.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wire) && wire.Code == jsonrpc.CodeInvalidParams && op != "update":
		return fmt.Errorf("%s task %s: %w: %w", op, taskID, ErrTaskNotFound, err)
	case errors.As(err, &wire) && wire.Code == jsonrpc.CodeInvalidParams && wire.Message == errTaskNotFound().Error():
		return fmt.Errorf("%s task %s: %w: %w", op, taskID, ErrTaskNotFound, err)
	}
	return fmt.Errorf("%s task %s: %w", op, taskID, err)
}
