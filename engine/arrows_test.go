package engine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/perdure/perdure"

	bbolt      = "go.etcd.io/bbolt"
	cbor       = "github.com/fxamacker/cbor/v2"
	cel        = "cel.dev/cel-go"
	cobra      = "github.com/spf13/cobra"
	cron       = "github.com/netresearch/go-cron"
	goFUSE     = "github.com/hanwen/go-fuse/v2"
	goleak     = "go.uber.org/goleak"
	jsonschema = "github.com/google/jsonschema-go"
	mcpSDK     = "github.com/modelcontextprotocol/go-sdk"
	pflag      = "github.com/spf13/pflag"
	porcupine  = "github.com/anishathalye/porcupine"
	rapid      = "pgregory.net/rapid"
	testscript = "github.com/rogpeppe/go-internal"
	pgx        = "github.com/jackc/pgx/v5"
	ulid       = "github.com/oklog/ulid/v2"
	xsync      = "golang.org/x/sync"
	xsys       = "golang.org/x/sys"
	xtime      = "golang.org/x/time"
	yaml       = "github.com/goccy/go-yaml"
)

// A rule says what the packages of one folder may import: the packages of other folders of this module that have
// a rule, and libraries by their module path. It holds for the code that ships and not for its tests, which may
// import any package of this module and, beyond these libraries, those of testLibraries.
type rule struct {
	folders   []string
	libraries []string
	// notStd names packages of the standard library that are refused.
	notStd []string
}

// rules are the arrows of the design, by folder. A package belongs to the longest folder that holds it, and
// packages of one folder may import each other. A new arrow or library needs a decision record.
var rules = map[string]rule{
	"history": {libraries: []string{cbor, ulid}},
	"signal":  {folders: []string{"history"}},
	"timer":   {folders: []string{"history"}, libraries: []string{cron}},
	// A workflow's only effects are its steps'.
	"workflow":         {folders: []string{"history", "signal", "timer", "workflow/kernel"}, libraries: []string{jsonschema, ulid}, notStd: ioPackages},
	"workflow/kernel":  {folders: []string{"history", "signal", "timer"}, libraries: []string{ulid}, notStd: ioPackages},
	"worker":           {folders: []string{"history", "timer", "workflow/kernel"}, libraries: []string{xsync, xtime}},
	"engine":           {folders: []string{"history", "signal", "timer", "worker", "workflow", "workflow/kernel"}, libraries: []string{jsonschema, ulid, xsync}},
	"engine/boltstore": {folders: []string{"engine", "engine/transfer", "history", "signal", "timer"}, libraries: []string{bbolt, ulid, xsync, xsys}},
	// A disk for tests that fails, and the tests of stores on it.
	"engine/disktest": {folders: []string{"engine", "engine/boltstore", "history"}, libraries: []string{goFUSE, xsync, xsys}},
	"engine/schedule": {folders: []string{"engine", "history", "timer", "workflow", "workflow/kernel"}, libraries: []string{ulid}},
	"engine/feed":     {folders: []string{"history"}},
	"engine/transfer": {folders: []string{"engine", "history"}},
	"engine/pgstore":  {folders: []string{"engine", "engine/feed", "engine/transfer", "history"}, libraries: []string{pgx, ulid}},
	// A kit for tests: the engine on a real file.
	"workflow/workflowtest": {folders: []string{"engine", "engine/boltstore", "history", "workflow", "workflow/kernel"}},
	// Its tests look into a file; what is in it is put into the code by an overlay.
	"engine/crashtest": {libraries: []string{bbolt, pgx, xsync}},
	"engine/storetest": {folders: []string{"engine", "engine/feed", "history", "signal", "timer"}, libraries: []string{goleak, rapid, ulid, xsync}},
	// The data of the stores on which other packages' tests run.
	"engine/testbackend": {folders: []string{"engine", "engine/boltstore", "engine/pgstore", "engine/storetest", "workflow"}, libraries: []string{pgx}},
	"mcptasks":           {folders: []string{"history", "workflow"}, libraries: []string{jsonschema, mcpSDK, ulid, xsync, xtime}},
	"cmd": {
		folders:   []string{"engine", "engine/boltstore", "engine/pgstore", "engine/schedule", "engine/transfer", "history", "mcptasks", "signal", "timer", "worker", "workflow"},
		libraries: []string{cel, cobra, jsonschema, mcpSDK, pflag, ulid, xsync, xsys, yaml},
	},
	"docs": {
		folders:   []string{"engine", "engine/boltstore", "engine/pgstore", "history", "mcptasks", "signal", "timer", "worker", "workflow"},
		libraries: []string{mcpSDK},
	},
}

// ioPackages are the packages of the standard library that reach outside the process.
var ioPackages = []string{"net", "net/http", "os", "os/exec", "syscall"}

var testLibraries = []string{goleak, porcupine, rapid, testscript}

// never are imports that must not be reached over any number of arrows.
var never = map[string][]string{
	"history":  {bbolt, mcpSDK, module + "/engine", "net/http"},
	"workflow": {bbolt, mcpSDK, module + "/engine", module + "/worker", "net/http"},
	"worker":   {bbolt, mcpSDK, module + "/engine"},
	"mcptasks": {bbolt, module + "/engine", module + "/worker"},
}

// systems are the platforms that the module builds for: build constraints give each its own imports.
var systems = []string{"linux", "darwin", "windows"}

// listed is what this test reads of a package in go list's output.
type listed struct {
	ImportPath   string
	Standard     bool
	Module       *struct{ Path string }
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// TestArrows asks go list, whose reading go test's cache does not see: .ci/run clears that cache first.
func TestArrows(t *testing.T) {
	root := moduleRoot(t)
	for _, system := range systems {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			packages := list(t, root, system)
			for _, wrong := range wrongArrows(packages) {
				t.Error(wrong)
			}
		})
	}
}

// TestFolders fails on a top-level folder that the design does not have.
func TestFolders(t *testing.T) {
	entries, err := os.ReadDir(moduleRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case !e.IsDir() || strings.HasPrefix(name, "."):
		case name == "bin" || name == "node_modules": // what builds leave; git ignores it
		default:
			if _, ok := rules[name]; !ok {
				t.Errorf("top-level folder %s: the design has none of that name; move it or write a decision record", name)
			}
		}
	}
}

// TestWrongArrows shows that the checks see each kind of wrong arrow.
func TestWrongArrows(t *testing.T) {
	type pkg = listed
	bboltModule := &struct{ Path string }{bbolt}
	for _, tc := range []struct {
		name string
		pkgs []pkg
		want string
	}{
		{
			"folder",
			[]pkg{{ImportPath: module + "/worker", Imports: []string{module + "/engine/boltstore"}}},
			"worker → engine/boltstore: worker may import history, timer, workflow/kernel",
		},
		{
			"folder below",
			[]pkg{{ImportPath: module + "/engine", Imports: []string{module + "/engine/boltstore"}}},
			"engine → engine/boltstore: engine may import " + strings.Join(rules["engine"].folders, ", "),
		},
		{
			"library",
			[]pkg{{ImportPath: module + "/engine", Imports: []string{bbolt}}, {ImportPath: bbolt, Module: bboltModule}},
			"engine → go.etcd.io/bbolt: engine may import the libraries " + strings.Join(rules["engine"].libraries, ", "),
		},
		{
			"standard library",
			[]pkg{{ImportPath: module + "/workflow", Imports: []string{"os"}}, {ImportPath: "os", Standard: true}},
			"workflow → os: workflow does no I/O",
		},
		{
			"over several arrows",
			[]pkg{{ImportPath: module + "/mcptasks", Deps: []string{bbolt}}},
			"mcptasks → … → go.etcd.io/bbolt: must not be reached over any path",
		},
		{
			"test",
			[]pkg{{ImportPath: module + "/timer", XTestImports: []string{bbolt}}, {ImportPath: bbolt, Module: bboltModule}},
			"timer (test) → go.etcd.io/bbolt: timer's tests may import the libraries " + strings.Join(append([]string{cron}, testLibraries...), ", "),
		},
		{
			"no rule",
			[]pkg{{ImportPath: module + "/util"}},
			"util: no rule of this test covers the package",
		},
		{
			"right",
			[]pkg{
				{ImportPath: module + "/engine/boltstore", Imports: []string{module + "/engine", bbolt, "os"}},
				{ImportPath: bbolt, Module: bboltModule},
				{ImportPath: "os", Standard: true},
			},
			"",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			byPath := map[string]listed{}
			for _, p := range tc.pkgs {
				if p.Module == nil && strings.HasPrefix(p.ImportPath, module) {
					p.Module = &struct{ Path string }{module}
				}
				byPath[p.ImportPath] = p
			}
			if got := strings.Join(wrongArrows(byPath), "\n"); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// wrongArrows returns one line for each import that a rule refuses, in order.
func wrongArrows(packages map[string]listed) []string {
	var wrong []string
	for _, p := range packages {
		if p.Module == nil || p.Module.Path != module {
			continue
		}
		from := short(p.ImportPath)
		folder, r, ok := ruleOf(from)
		if !ok {
			wrong = append(wrong, from+": no rule of this test covers the package")
			continue
		}
		for _, path := range p.Imports {
			if why := r.refuses(folder, path, packages); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s → %s: %s", from, short(path), why))
			}
		}
		for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
			if why := r.refusesTest(folder, path, packages); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s (test) → %s: %s", from, short(path), why))
			}
		}
		for _, path := range p.Deps {
			if slices.ContainsFunc(never[folder], func(n string) bool { return within(path, n) }) {
				wrong = append(wrong, fmt.Sprintf("%s → … → %s: must not be reached over any path", from, short(path)))
			}
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// refuses says why a package under folder may not import path; "" where it may.
func (r rule) refuses(folder, path string, packages map[string]listed) string {
	target := packages[path]
	switch {
	case target.Standard || path == "C":
		if slices.Contains(r.notStd, path) {
			return folder + " does no I/O"
		}
	case within(path, module):
		if to, _, _ := ruleOf(short(path)); to != folder && !slices.Contains(r.folders, to) {
			return fmt.Sprintf("%s may import %s", folder, orNothing(r.folders))
		}
	case !slices.ContainsFunc(r.libraries, func(l string) bool { return within(path, l) }):
		return fmt.Sprintf("%s may import the libraries %s", folder, orNothing(r.libraries))
	}
	return ""
}

// refusesTest is refuses for the package's tests.
func (r rule) refusesTest(folder, path string, packages map[string]listed) string {
	if target := packages[path]; target.Standard || within(path, module) {
		return ""
	}
	allowed := slices.Concat(r.libraries, testLibraries)
	if slices.ContainsFunc(allowed, func(l string) bool { return within(path, l) }) {
		return ""
	}
	return fmt.Sprintf("%s's tests may import the libraries %s", folder, orNothing(allowed))
}

// ruleOf finds the rule for a package by the longest folder that holds it.
func ruleOf(pkg string) (folder string, r rule, ok bool) {
	for f := pkg; f != "." && f != "/"; f = filepath.ToSlash(filepath.Dir(f)) {
		if r, ok := rules[f]; ok {
			return f, r, true
		}
	}
	return "", rule{}, false
}

// within says whether path is folder or lies under it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

// short is path without this module's prefix.
func short(path string) string { return strings.TrimPrefix(path, module+"/") }

func orNothing(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// list returns the module's packages and all that they and their tests import, by import path.
func list(t *testing.T, root, system string) map[string]listed {
	t.Helper()
	// -e: a package that does not compile is the compiler's to report, its imports are known all the same.
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-test", "-json=ImportPath,Standard,Module,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	packages := map[string]listed{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		// -test also lists each test binary, and packages compiled for one; TestImports say it all.
		if !strings.HasSuffix(p.ImportPath, ".test") && !strings.HasSuffix(p.ImportPath, ".test]") {
			packages[p.ImportPath] = p
		}
	}
	if _, ok := packages[module+"/history"]; !ok {
		t.Fatalf("go list found no %s/history among %d packages", module, len(packages))
	}
	return packages
}

// moduleRoot is the folder of go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("go list -m: %v", err)
	}
	return strings.TrimSpace(string(out))
}
