package toolfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake in a tool file.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`            // from 1; 0 where there is no text, as in a stored definition
	Column  int    `json:"column"`          // from 1, in characters
	Where   string `json:"where,omitempty"` // the tool and step, for a reader
	Message string `json:"message"`         // what is wrong
	Hint    string `json:"hint,omitempty"`  // what would be right
}

// String writes the problem as FILE:LINE:COLUMN: WHERE: MESSAGE; HINT.
func (p Problem) String() string {
	var out strings.Builder
	out.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&out, ":%d:%d", p.Line, p.Column)
	}
	for _, part := range []string{p.Where, p.Message} {
		if part != "" {
			out.WriteString(": " + part)
		}
	}
	if p.Hint != "" {
		out.WriteString("; " + p.Hint)
	}
	return out.String()
}

// Problems are all mistakes of a file, in its order. It is the error of Load.
type Problems []Problem

// Error writes one problem a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

func (p Problems) sort() {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// oneOf lists choices for a hint: a, b or c.
func oneOf(names []string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// meant suggests the known name that was meant, or lists all of them.
func meant(name string, known []string) string {
	best, distance := "", 3
	for _, candidate := range known {
		if d := editDistance(strings.ToLower(name), strings.ToLower(candidate)); d < distance && d < len(candidate) {
			best, distance = candidate, d
		}
	}
	if best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	if len(known) == 0 {
		return ""
	}
	sorted := slices.Clone(known)
	slices.Sort(sorted)
	return "known here: " + strings.Join(sorted, ", ")
}

// editDistance counts insertions, deletions, replacements and swaps of neighbours.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
