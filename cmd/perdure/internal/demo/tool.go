package demo

import (
	"encoding/json"
	"strings"
)

// toolFile is the demo's tool file. PROGRAM and PLACE are replaced by quoted paths.
const toolFile = `version: 1
tools:
  - name: report
    description: Counts what is in a folder, asks whether to write a report, and writes it.
    input:
      folder: string
    steps:
      - name: list
        status: listing ${input.folder}
        run: [PROGRAM, demo-step, --place, PLACE, list, "${input.folder}"]
        parse: json
      - name: scan
        status: reading ${item}
        foreach: ${steps.list.value}
        run: [PROGRAM, demo-step, --place, PLACE, scan, "${input.folder}", "${item}"]
        parse: json
      - name: pause
        sleep: 3s
      - name: total
        run: [PROGRAM, demo-step, --place, PLACE, total]
        stdin: ${json(steps.scan.value)}
        parse: json
      - name: permit
        ask:
          message: Write a report on ${steps.total.value.files} files with ${steps.total.value.lines} lines?
          approve: ${steps.total.value}
      - name: write
        status: writing the report
        run: [PROGRAM, demo-step, --place, PLACE, write]
        stdin: ${json(steps.permit.value)}
        parse: json
        retry: 3
    result:
      files: ${steps.total.value.files}
      lines: ${steps.total.value.lines}
      report: ${steps.write.value.report}
`

// tool fills the tool file in.
func tool(program, place string) ([]byte, error) {
	p, err := json.Marshal(program) // a JSON string is a YAML string
	if err != nil {
		return nil, err
	}
	f, err := json.Marshal(place)
	if err != nil {
		return nil, err
	}
	return []byte(strings.NewReplacer("PROGRAM", string(p), "PLACE", string(f)).Replace(toolFile)), nil
}
