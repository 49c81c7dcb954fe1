package mcptasks

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedTestsExist holds the table of docs/mcp.md against the tests.
func TestDocumentedTestsExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "mcp.md"))
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	for _, pattern := range []string{"*_test.go", filepath.Join("wiretest", "*_test.go"), filepath.Join("..", "cmd", "perdure-conformance", "*_test.go"), filepath.Join("..", "history", "retention_test.go")} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			sources.Write(b)
		}
	}
	names := regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z]+)`").FindAllSubmatch(page, -1)
	if len(names) < 50 {
		t.Fatalf("%d tests are named, want the whole table", len(names))
	}
	for _, n := range names {
		if !strings.Contains(sources.String(), "func "+string(n[1])+"(") {
			t.Errorf("docs/mcp.md names %s, which does not exist", n[1])
		}
	}
}
