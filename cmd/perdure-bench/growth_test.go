package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
)

// A small measurement has a row for each length and size, and leaves nothing.
func TestGrowth(t *testing.T) {
	dir := t.TempDir()
	c, err := parseGrowth([]string{"-gib", "0,0.03", "-steps", "3,30", "-events", "200", "-writers", "4", "-dir", dir}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.run(context.Background(), &out); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"\n| 3 ", "\n| 30 ", "\n| 16 ", "\n| 32 "} {
		if !strings.Contains(out.String(), row) {
			t.Errorf("the tables have no row %q:\n%s", row, &out)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

func TestGrowthOptionsAreChecked(t *testing.T) {
	for _, args := range [][]string{{"-gib", "1,0"}, {"-gib", "x"}, {"-steps", "0"}, {"-events", "1"}, {"x"}} {
		if _, err := parseGrowth(args, io.Discard); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
