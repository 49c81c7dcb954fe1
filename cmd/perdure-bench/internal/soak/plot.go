package soak

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// The measures of the plot in pixels: a panel a series, one above the other.
const (
	plotWidth   = 760
	panelHeight = 90
	panelGap    = 26
	plotLeft    = 110
	plotRight   = 16
)

// SVG draws the samples over the runs completed, each series from 0 in a panel of its own. A dashed line marks the first
// quarter, after which everything should be flat.
func (r *Result) SVG(w io.Writer) error {
	var b strings.Builder
	all := series()
	height := len(all)*(panelHeight+panelGap) + 2*panelGap
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n", plotWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", plotWidth, height)
	var runs float64
	for i := range r.Samples {
		runs = max(runs, float64(r.Samples[i].Runs))
	}
	for i, s := range all {
		top := panelGap + i*(panelHeight+panelGap)
		var values []float64
		for j := range r.Samples {
			values = append(values, s.of(&r.Samples[j]))
		}
		r.panel(&b, top, s.name, s.unit, values, runs)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%.0f runs completed, in %s</text>`+"\n</svg>\n", plotWidth-plotRight, height-8, runs, r.Took.Round(1e9))
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Result) panel(b *strings.Builder, top int, name, unit string, values []float64, runs float64) {
	const width = plotWidth - plotLeft - plotRight
	most := 1.0
	if len(values) > 0 {
		most = max(slices.Max(values)*1.1, 1e-9)
	}
	bottom := top + panelHeight
	fmt.Fprintf(b, `<path d="M%d %dV%dH%d" fill="none" stroke="#999"/>`+"\n", plotLeft, top, bottom, plotWidth-plotRight)
	fmt.Fprintf(b, `<path d="M%d %dV%d" stroke="#bbb" stroke-dasharray="4"/>`+"\n", plotLeft+width/4, top, bottom)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", plotLeft-8, top+panelHeight/2, name)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="#666">%.4g %s</text>`+"\n", plotLeft-8, top+10, most, unit)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="#666">0</text>`+"\n", plotLeft-8, bottom)
	var line []string
	for i, v := range values {
		x := plotLeft + float64(r.Samples[i].Runs)/max(runs, 1)*width
		line = append(line, fmt.Sprintf("%.1f,%.1f", x, float64(bottom)-v/most*panelHeight))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="#1f5fa8" stroke-width="1.3"/>`+"\n", strings.Join(line, " "))
}
