// Package policyfile reads the file that says how long a server keeps finished runs:
//
//	{
//	  "exports": "exports.jsonl",
//	  "rules": [
//	    {"tool": "deploy", "keep": "365d", "exportFirst": true, "keepTombstones": "1825d"},
//	    {"tool": "poll", "keepGenerations": "7d"},
//	    {"tenant": "acme", "keep": "forever"},
//	    {"keep": "30d"}
//	  ]
//	}
//
// It is JSON. The first rule that fits a run's tool and tenant counts; a rule that names neither fits all. Spans of time are
// written as in a tool file (30s, 12h, 7d, 2w), or forever. The exports are a file, by its path from the policy's folder, that
// the server appends to.
//
// [Load] refuses a file as a whole, with all its mistakes, each with its line: names that are not known or are there twice,
// wrong times, and what contradicts itself: a rule that never counts because one before it fits the same runs, one that says
// nothing, an export first without a file for it, a file that nothing is exported to.
//
// The file is read when a server starts.
package policyfile
