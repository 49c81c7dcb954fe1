package mcptasks_test

import (
	"testing"

	"github.com/perdure/perdure/engine/testbackend"
)

// TestOnPostgreSQL runs the tests that have a real engine with its store in PostgreSQL. The others have no store.
func TestOnPostgreSQL(t *testing.T) {
	testbackend.Rerun{Only: []string{
		"TestCallOf.*", "TestCancelledRun.*", "TestWorkflow.*", "TestDocumented.*", "TestAnswersKeep.*", "TestNothingOfTheRequest.*", "TestSteps.*",
		"TestTextsOf.*", "TestTasksAreListed.*", "TestQuestionHas.*", "TestRouteOf.*", "TestUndeclaredKind.*", "Test.*AnyServer.*",
	}}.OnPostgreSQL(t)
}
