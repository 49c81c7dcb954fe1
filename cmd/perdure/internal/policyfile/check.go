package policyfile

import (
	"fmt"

	"github.com/perdure/perdure/history"
)

// check finds what contradicts itself. It looks at the rules that could be read.
func (d *decoder) check() {
	exported := false
	for i := range d.rules {
		r := &d.rules[i]
		exported = exported || r.ExportFirst
		if r.ExportFirst && d.exportsAt == (place{}) {
			d.wrong(r.at, "exportFirst without a file to export to: its runs would stay for ever", `add "exports": "exports.jsonl" beside the rules`)
		}
		if !r.keeps && !r.ExportFirst && r.KeepTombstones == 0 && r.KeepGenerations == 0 {
			d.wrong(r.at, "the rule says nothing", `write "keep": "forever" where its runs are to stay`)
		}
		for j := range d.rules[:i] {
			if covers(&d.rules[j].RetentionRule, &r.RetentionRule) {
				d.wrong(r.at, fmt.Sprintf("the rule never counts: %s fits all of its runs, and is first", d.rules[j].at.where), "put the rule for fewer runs first, or leave one out")
				break
			}
		}
	}
	if d.exports != "" && !exported && len(d.problems) == 0 {
		d.wrong(d.exportsAt, "nothing is exported there: no rule has exportFirst", `add "exportFirst": true to a rule, or leave exports out`)
	}
}

// covers reports whether a rule fits all runs that another fits.
func covers(a, b *history.RetentionRule) bool {
	return (a.Workflow == "" || a.Workflow == b.Workflow) && (a.Tenant == nil || b.Tenant != nil && *a.Tenant == *b.Tenant)
}
