package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A small soak ends with a verified file, a CSV of its samples and a plot that is well-formed XML.
func TestSoak(t *testing.T) {
	dir := t.TempDir()
	csvFile, svgFile := filepath.Join(dir, "soak.csv"), filepath.Join(dir, "soak.svg")
	c, err := parseSoak([]string{"-runs", "400", "-clients", "2", "-keep", "100ms", "-every", "5ms", "-dir", dir, "-csv", csvFile, "-svg", svgFile}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.run(context.Background(), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "400 runs in") || !strings.Contains(out.String(), "goroutines") {
		t.Errorf("it printed %s", &out)
	}
	b, err := os.ReadFile(csvFile)
	if err != nil {
		t.Fatal(err)
	}
	if lines, err := csv.NewReader(bytes.NewReader(b)).ReadAll(); err != nil || len(lines) < 13 {
		t.Errorf("the CSV has %d lines, %v", len(lines), err)
	}
	if b, err = os.ReadFile(svgFile); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the plot is no XML: %v", err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("it left %v, %v", left, err)
	}
}

func TestSoakOptionsAreChecked(t *testing.T) {
	for _, args := range [][]string{{"-runs", "0"}, {"-keep", "0s"}, {"x"}} {
		if _, err := parseSoak(args, io.Discard); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
