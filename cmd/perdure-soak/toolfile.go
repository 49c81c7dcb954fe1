package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// deploy is what a tool file is made for.
type deploy struct {
	number    int
	sink      string // address
	retention time.Duration
}

// write replaces the tool file at path, all at once.
func (d deploy) write(path string) error {
	next := path + ".new"
	if err := os.WriteFile(next, []byte(d.text()), 0o600); err != nil {
		return fmt.Errorf("write the tool file: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("write the tool file: %w", err)
	}
	return nil
}

// text has a tool for each kind.
func (d deploy) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "allow_private: [%q]\ntools:\n", d.sink)
	tool := func(k kind, input, result string, steps ...string) {
		fmt.Fprintf(&b, "  - name: %s\n    description: One kind of run of the soak\n    input: {n: integer%s}\n", k, input)
		fmt.Fprintf(&b, "    retention: %ds\n    steps:\n", int(d.retention.Seconds()))
		for _, s := range steps {
			fmt.Fprintf(&b, "      - {%s}\n", s)
		}
		fmt.Fprintf(&b, "    result: {n: \"${input.n}\"%s}\n", result)
	}
	begin, end := d.step("begin", `"begin"`), d.step("end", `"end"`)
	tool(chain, "", `, said: ["${steps.begin.value}", "${steps.flaky.value}", "${steps.end.value}"]`, begin, d.step("flaky", `"flaky"`), end)
	tool(fanout, "", `, said: "${steps.part.value}"`, begin, "foreach: [a, b, c, d], parallel: 4, "+d.step("part", `"${'part-' + item}"`), end)
	tool(nap, ", nap: string", `, said: ["${steps.begin.value}", "${steps.end.value}"]`, begin, `name: nap, sleep: "${input.nap}"`, end)
	tool(mail, "", `, said: ["${steps.first.value}", "${steps.second.value}", "${steps.third.value}"]`,
		begin, "name: first, wait: letter", "name: second, wait: letter", "name: third, wait: letter", end)
	tool(question, "", `, said: "${steps.ask.value.number}"`, begin, "name: ask, ask: {message: Which number?, fields: {number: integer}}", end)
	tool(endless, "", "", begin, "name: nap, sleep: 30d", end)
	tool(failing, "", "", begin, d.step("refused", `"refused"`), end)
	return b.String()
}

// step is a step that tells the sink which run it belongs to, which step it is, and which deploy wrote its definition. Its
// retries outlast a sink that is slow to answer.
func (d deploy) step(name, label string) string {
	return fmt.Sprintf(`name: %s, retry: {max: 10, first: 50ms, longest: 1s}, http: {method: POST, url: "http://%s/step", `+
		`json: {n: "${input.n}", run: "${run.id}", step: %s, deploy: %d}}`, name, d.sink, label, d.number)
}
