package report

import (
	"fmt"
	"strings"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/sitting"
)

// Report is the tables of a sitting.
type Report struct {
	summary  []string
	peers    table
	cells    table
	failures []string
}

type table struct {
	header []string
	rows   [][]string
}

// New makes the tables. The first of the peers is this project's engine.
func New(rec *sitting.Record, peers []string) *Report {
	r := &Report{summary: []string{
		fmt.Sprintf("%s to %s, %d rounds; %d CPUs, Linux %s, %s; load before %s, after %s.",
			rec.Began.UTC().Format("2006-01-02 15:04"), rec.Ended.UTC().Format("15:04 MST"), rec.Rounds,
			rec.Machine.CPUs, rec.Machine.Kernel, rec.Machine.Go, rec.LoadBefore, rec.LoadAfter),
	}}
	r.peers = peerTable(rec, peers)
	r.cells = table{header: append(append([]string{"workload", "measure"}, peers...), "ratio", "goal")}
	for i := range rec.Cells {
		c := &rec.Cells[i]
		r.addCell(c, peers)
		for _, f := range c.Failures {
			r.failures = append(r.failures, c.Title+": "+f)
		}
	}
	return r
}

// peerTable says of each peer what its durability is, and how many runs were read back.
func peerTable(rec *sitting.Record, peers []string) table {
	t := table{header: []string{"peer", "version", "fully durable", "read from the open store", "completed runs read back"}}
	for _, p := range peers {
		row := []string{p, rec.Versions[p], "unknown", "", ""}
		completed, expected := 0, 0
		for i := range rec.Cells {
			for _, r := range rec.Cells[i].Results {
				if r.Peer != p {
					continue
				}
				completed, expected = completed+r.Completed, expected+r.Expected
				if row[2] = "no"; r.Durability.Full {
					row[2] = "yes"
				}
				row[3] = r.Durability.Detail
			}
		}
		row[4] = fmt.Sprintf("%d of %d", completed, expected)
		t.rows = append(t.rows, row)
	}
	return t
}

func (r *Report) addCell(c *sitting.CellRecord, peers []string) {
	disk := append([]string{c.Title, probes(c.Probes)}, make([]string, len(peers)+2)...)
	r.cells.rows = append(r.cells.rows, disk)
	for _, m := range measures(c.Cell.Workload) {
		row := []string{"", m.label}
		var vs []value
		for _, p := range peers {
			v := valueOf(c, p, m)
			vs = append(vs, v)
			row = append(row, show(v))
		}
		ratio, text := compare(vs, peers, m.better)
		r.cells.rows = append(r.cells.rows, append(row, text, goals(c.Cell.Goals, m.key, vs[0], ratio)))
	}
}

// probes shows the medians of the disk's probes.
func probes(ps []sitting.Probe) string {
	var grow, over []float64
	for _, p := range ps {
		grow, over = append(grow, p.AppendMS), append(over, p.OverwriteMS)
	}
	return fmt.Sprintf("fdatasync: %.2f ms growing, %.2f in place", median(grow), median(over))
}

func show(v value) string {
	switch {
	case v.unsupported:
		return "–"
	case v.rounds == 0:
		return "failed"
	case v.partly:
		return "(" + number(v.median) + ")"
	}
	return number(v.median)
}

// number shows three digits, or all before the point.
func number(f float64) string {
	switch {
	case f >= 100 || f <= -100 || f == 0:
		return fmt.Sprintf("%.0f", f)
	case f >= 10 || f <= -10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// compare returns the ratio of the first value to the best of the others; 0 where there is none.
func compare(vs []value, peers []string, d direction) (ratio float64, text string) {
	i := best(vs[1:], d)
	if i < 0 || vs[0].rounds == 0 || vs[i+1].median <= 0 {
		return 0, ""
	}
	ratio = vs[0].median / vs[i+1].median
	return ratio, number(ratio) + " : " + peers[i+1]
}

func goals(gs []sitting.Goal, key string, ours value, ratio float64) string {
	var out []string
	for _, g := range gs {
		if g.Key != key || ours.rounds == 0 || g.Ratio && ratio == 0 {
			continue
		}
		got, what := ours.median, "value"
		if g.Ratio {
			got, what = ratio, "ratio"
		}
		bound, met := "≤ "+number(g.AtMost), got <= g.AtMost
		if g.AtLeast > 0 {
			bound, met = "≥ "+number(g.AtLeast), got >= g.AtLeast
		}
		verdict := "missed"
		if met {
			verdict = "met"
		}
		out = append(out, fmt.Sprintf("%s %s: %s", what, bound, verdict))
	}
	return strings.Join(out, "; ")
}
