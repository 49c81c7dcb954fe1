package engine_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGuaranteesNameTestsThatExist holds docs/guarantees.md against the tree.
func TestGuaranteesNameTestsThatExist(t *testing.T) {
	root := moduleRoot(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	have := make(map[string]bool)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(b), -1) {
			have[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 80 {
		t.Errorf("the page names %d tests: is it read?", len(named))
	}
	for _, m := range named {
		if !have[m[1]] {
			t.Errorf("docs/guarantees.md names %s, which is not there", m[1])
		}
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| Guarantee") && !strings.Contains(line, "`Test") {
			t.Errorf("a guarantee without a test: %s", line)
		}
	}
}

// TestArchitectureNamesFilesThatExist holds docs/architecture.md against the tree.
func TestArchitectureNamesFilesThatExist(t *testing.T) {
	root := moduleRoot(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([\\w/]+/[\\w]+\\.go)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 20 {
		t.Errorf("the page names %d files: is it read?", len(named))
	}
	for _, m := range named {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[1]))); err != nil {
			t.Errorf("docs/architecture.md: %v", err)
		}
	}
}
