package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	lines(&b, "", r.summary)
	b.WriteByte('\n')
	for _, t := range []table{r.peers, r.cells} {
		tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, row := range append([][]string{t.header}, t.rows...) {
			if _, err := fmt.Fprintln(tw, strings.Join(row, "\t")); err != nil {
				return fmt.Errorf("write the report: %w", err)
			}
		}
		if err := tw.Flush(); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		b.WriteByte('\n')
	}
	lines(&b, "failed: ", r.failures)
	return write(w, b.String())
}

// Markdown writes the report as GitHub's tables.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	lines(&b, "", r.summary)
	for _, t := range []table{r.peers, r.cells} {
		b.WriteByte('\n')
		markdownRow(&b, t.header)
		b.WriteString("|" + strings.Repeat(" --- |", len(t.header)) + "\n")
		for _, row := range t.rows {
			markdownRow(&b, row)
		}
	}
	if len(r.failures) > 0 {
		b.WriteByte('\n')
		lines(&b, "- failed: ", r.failures)
	}
	return write(w, b.String())
}

func markdownRow(b *strings.Builder, row []string) {
	for _, cell := range row {
		b.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
	}
	b.WriteString("|\n")
}

func lines(b *strings.Builder, prefix string, ls []string) {
	for _, l := range ls {
		b.WriteString(prefix + l + "\n")
	}
}

func write(w io.Writer, s string) error {
	if _, err := io.WriteString(w, s); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
