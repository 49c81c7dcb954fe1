package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The program, twice on one file: the second time it finds the run that the first has ended.
func Example() {
	folder, err := os.MkdirTemp("", "embed-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	back, err := os.Getwd()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := os.Chdir(folder); err != nil {
		fmt.Println(err)
		return
	}
	defer os.Chdir(back)
	main()
	main()
	// Output:
	// hello world
	// hello world
}

// The README shows this program as it is here.
func TestREADME(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```go\n"+string(program)+"```\n") {
		t.Error("README.md shows another program than docs/examples/embed/main.go: copy it there")
	}
}
