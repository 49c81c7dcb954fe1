package toolfile

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// What the reference shows is right. Its blocks are whole files, parts of a tool, steps, or alternatives split by "# or".
func TestReferenceExamples(t *testing.T) {
	data, err := os.ReadFile("../../../../docs/tool-files.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := yamlBlock.FindAllStringSubmatch(string(data), -1)
	if len(blocks) < 6 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for _, block := range blocks {
		for _, text := range strings.Split(block[1], "# or\n") {
			text = wholeFile(text)
			file, err := Parse("doc.yaml", []byte(text), "/etc/perdure")
			if err != nil {
				t.Errorf("%v\n%s", err, text)
				continue
			}
			for _, w := range file.Warnings {
				if !strings.Contains(w.Message, "is not used") {
					t.Errorf("%v\n%s", w, text)
				}
			}
		}
	}
}

// The tool of the page on MCP is right, too: its curl commands are for it.
func TestToolOfTheProtocolPage(t *testing.T) {
	data, err := os.ReadFile("../../../../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := yamlBlock.FindAllStringSubmatch(string(data), -1)
	if len(blocks) != 1 {
		t.Fatalf("%d blocks", len(blocks))
	}
	file, err := Parse("mcp.yaml", []byte(blocks[0][1]), "/etc/perdure")
	if err != nil || len(file.Warnings) > 0 {
		t.Fatalf("%v, %v", err, file.Warnings)
	}
}

func wholeFile(part string) string {
	const head = "secrets: {TOKEN: {env: T}, HOOK: {env: H}}\ntools:\n- name: t\n  description: d\n"
	const open = "  input: {type: object}\n"
	const steps = "  steps:\n  - {name: notes, run: [date]}\n"
	switch {
	case strings.HasPrefix(part, "tools:"):
		return part
	case strings.HasPrefix(part, "input:"):
		return head + indent(part) + steps
	case strings.HasPrefix(part, "concurrency:"):
		return head + "  input: {host: string}\n" + indent(part) + steps
	case strings.HasPrefix(part, "notify:"):
		return part + "\n" + head + open + steps
	}
	return head + open + steps + indent(part)
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
}

func FuzzParseCanonical(f *testing.F) {
	data, err := os.ReadFile("testdata/good/all.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(parse(f, string(data)).Tools[0].Canonical())
	f.Add(parse(f, small).Tools[0].Canonical())
	f.Fuzz(func(t *testing.T, data []byte) {
		tool, err := ParseCanonical(data)
		if err != nil {
			return
		}
		again, err := ParseCanonical(tool.Canonical())
		if err != nil || string(again.Canonical()) != string(tool.Canonical()) {
			t.Fatalf("%s does not come back: %v", tool.Canonical(), err)
		}
	})
}
