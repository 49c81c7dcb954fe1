package engine_test

import (
	"testing"

	"github.com/perdure/perdure/engine/testbackend"
)

// TestOnPostgreSQL runs the tests of this package with their stores in PostgreSQL. Tests that need a file say so themselves
// (testbackend.NeedsFile).
func TestOnPostgreSQL(t *testing.T) {
	testbackend.Rerun{
		Except: []string{
			"Test.*Arrows", "TestFolders", "TestGuaranteesNameTestsThatExist", "TestGolden.*", // no store
		},
		Env: []string{"PERDURE_SEEDS=2"}, // random workflows are many stores each
	}.OnPostgreSQL(t)
}
