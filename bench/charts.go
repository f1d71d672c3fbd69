package main

import (
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// chartMetrics are what the chart of a case shows. Cases without any have no chart.
var chartMetrics = map[string][]metric{
	"one":        {throughput, cycleP50, clientPerOp},
	"names":      {throughput, clientPerOp, serverPerOp},
	"goroutines": {throughput, evenP99, fairShare},
	"processes":  {handoverP50, handoverP99, fairShare},
	"work":       {inUse, evenP99, fairShare},
}

// overview is the chart of several cases.
var overview = []struct {
	name, heading string
	metric        metric
}{
	{"one", "1 goroutine", throughput},
	{"names", "64 goroutines, 64 names", throughput},
	{"work", "8 processes, 2 ms of work", inUse},
}

// A chart has a panel of horizontal bars for each of its metrics, and a row for each contestant.
type chart struct {
	name, title string
	rows        []standing
	panels      []panel
	caption     string
	command     string
}

// A panel has the values of one metric, by contestant. A contestant without a value has a dash.
type panel struct {
	heading, about string
	values         map[string]float64
	metric         metric
}

func newPanel(c *jsonCase, site, heading string, name metric) panel {
	p := panel{heading: heading, metric: name, values: map[string]float64{}}
	p.about = map[direction]string{more: "more is better", less: "less is better"}[meanings[name].better]
	title := strings.TrimSuffix(meanings[name].title, microseconds)
	switch {
	case heading != "":
		p.about = title + ", " + p.about
	case name == evenP99:
		p.heading = "wait p99, workers alike"
	default:
		p.heading = title
	}
	for _, s := range c.on(site) {
		if v, ok := s.Median[name]; ok {
			p.values[s.Name] = v
		}
	}
	return p
}

// on returns the contestants on a kind of site.
func (c *jsonCase) on(site string) []standing {
	return slices.DeleteFunc(slices.Clone(c.Contestants), func(s standing) bool { return s.Site != site })
}

// charts returns those of a run: for each kind of site one of each case, and an overview if all of its cases were
// measured.
func (run *jsonRun) charts() []chart {
	var all []chart
	for _, kind := range siteKinds {
		about, ok := run.Sites[kind.name]
		if !ok {
			continue
		}
		caption := fmt.Sprintf("Medians of %d interleaved rounds. %s, %s/%s, %d CPUs.",
			run.Rounds, about, run.OS, run.Arch, run.CPUs)
		sum := chart{name: kind.name, title: "Locks side by side", caption: caption, command: run.Command}
		for i := range run.Cases {
			c := &run.Cases[i]
			rows := c.on(kind.name)
			if len(rows) == 0 || chartMetrics[c.Name] == nil {
				continue
			}
			one := chart{name: kind.name + "-" + c.Name, title: c.About, rows: rows,
				caption: caption, command: run.Command}
			for _, name := range chartMetrics[c.Name] {
				one.panels = append(one.panels, newPanel(c, kind.name, "", name))
			}
			all = append(all, one)
			for _, o := range overview {
				if o.name == c.Name {
					sum.panels = append(sum.panels, newPanel(c, kind.name, o.heading, o.metric))
					if len(rows) > len(sum.rows) {
						sum.rows = rows
					}
				}
			}
		}
		if len(sum.panels) == len(overview) {
			all = append(all, sum)
		}
	}
	return all
}

// schemes are the colours of charts, as GitHub has them.
var schemes = map[string]string{
	"light": `
.paper { fill: #ffffff; }
text { fill: #1f2328; }
.quiet, .command { fill: #59636e; }
.holdfast { fill: #1a7f37; }
.peer { fill: #afb8c1; }
.floor { fill: #dfe4ea; }
.cut { fill: none; stroke: #ffffff; stroke-width: 2; }
`,
	"dark": `
.paper { fill: #0d1117; }
text { fill: #f0f6fc; }
.quiet, .command { fill: #9198a1; }
.holdfast { fill: #3fb950; }
.peer { fill: #59636e; }
.floor { fill: #3d444d; }
.cut { fill: none; stroke: #0d1117; stroke-width: 2; }
`,
}

const fonts = `svg { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
.title { font-size: 15px; font-weight: 600; }
.heading, .ours { font-weight: 600; }
.quiet { font-size: 12px; }
.command { font: 11px ui-monospace, "Liberation Mono", Menlo, monospace; }`

// The sizes of a chart, in pixels.
const (
	chartWidth  = 800
	chartMargin = 20
	chartTop    = 96 // where the first row begins
	rowHeight   = 24
	barHeight   = 16
	letterWidth = 7.5 // at most, on average
	valueWidth  = 76  // of the number at the longest bar
	lineLetters = 108 // of the command
	lineHeight  = 16
)

// svg draws the chart in a scheme.
func (c *chart) svg(scheme string) string {
	widest := 0
	for _, row := range c.rows {
		widest = max(widest, utf8.RuneCountInString(row.Name))
	}
	left := chartMargin + int(letterWidth*float64(widest)) + 8
	each := (chartWidth - left - chartMargin) / len(c.panels)
	lines := wrap(c.command, lineLetters)
	bottom := chartTop + rowHeight*len(c.rows) + 20
	height := bottom + lineHeight*len(lines) + 16

	d := &strings.Builder{}
	d.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" role="img" `)
	fmt.Fprintf(d, `viewBox="0 0 %d %d" width="%[1]d" height="%[2]d">`+"\n", chartWidth, height)
	fmt.Fprintf(d, "<title>%s</title>\n<desc>%s</desc>\n<style>%s%s</style>\n",
		html.EscapeString(c.title), html.EscapeString(c.describe()), fonts, schemes[scheme])
	text := func(class, anchor string, x, y int, s string) {
		fmt.Fprintf(d, `<text class="%s" text-anchor="%s" x="%d" y="%d">%s</text>`+"\n",
			class, anchor, x, y, html.EscapeString(s))
	}
	bar := func(class string, x, y, width, height int) {
		fmt.Fprintf(d, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="2"/>`+"\n",
			class, x, y, width, height)
	}
	bar("paper", 0, 0, chartWidth, height)
	text("title", "start", chartMargin, 32, c.title)
	for i, p := range c.panels {
		text("heading", "start", left+i*each, 64, p.heading)
		text("quiet", "start", left+i*each, 82, p.about)
	}
	for n, row := range c.rows {
		y := chartTop + n*rowHeight
		class := "name"
		if row.Role == ours {
			class = "ours"
		}
		text(class, "end", left-8, y+13, row.Name)
		for i, p := range c.panels {
			x, width := left+i*each, 0
			if v, ok := p.values[row.Name]; ok {
				part := v / p.scale()
				width = max(1, int(min(part, 1)*float64(each-valueWidth)))
				bar(string(row.Role), x, y, width, barHeight)
				if part > 1 { // two strokes across the bar show that it is cut
					fmt.Fprintf(d, `<path class="cut" d="M%d %dl6 -16m4 0l-6 16"/>`+"\n", x+width-24, y+barHeight)
				}
			}
			text(class, "start", x+width+5, y+13, p.label(row.Name))
		}
	}
	text("quiet", "start", chartMargin, bottom, c.caption)
	for i, line := range lines {
		text("command", "start", chartMargin, bottom+lineHeight*(i+1), line)
	}
	d.WriteString("</svg>\n")
	return d.String()
}

// scale is the value of a bar of full length: the largest. Where less is better, longer bars than thrice the median are
// cut, so that a contestant far behind does not make those ahead look alike.
func (p *panel) scale() float64 {
	values := slices.Sorted(maps.Values(p.values))
	if len(values) == 0 || values[len(values)-1] <= 0 {
		return 1
	}
	full := values[len(values)-1]
	if thrice := 3 * median(values); meanings[p.metric].better == less && thrice > 0 {
		full = min(full, thrice)
	}
	return full
}

// microseconds ends the title of a time.
const microseconds = " µs"

// label writes the value of a contestant, a time with its unit.
func (p *panel) label(name string) string {
	v, ok := p.values[name]
	m := meanings[p.metric]
	switch {
	case !ok:
		return "–"
	case !strings.HasSuffix(m.title, microseconds):
		return thousands(v, m.decimals)
	case v < 1000:
		return thousands(v, 0) + " µs"
	case v < 100_000:
		return thousands(v/1000, 1) + " ms"
	default:
		return thousands(v/1000, 0) + " ms"
	}
}

// describe has all values, for those who cannot see the chart.
func (c *chart) describe() string {
	var parts []string
	for _, p := range c.panels {
		var values []string
		for _, row := range c.rows {
			values = append(values, row.Name+" "+p.label(row.Name))
		}
		parts = append(parts, fmt.Sprintf("%s (%s): %s.", p.heading, p.about, strings.Join(values, ", ")))
	}
	return strings.Join(append(parts, c.caption), " ")
}

// wrap cuts a text into lines, between words if they are not longer than a line.
func wrap(text string, letters int) (lines []string) {
	for len(text) > letters {
		end := strings.LastIndex(text[:letters], " ")
		if end <= 0 {
			end = letters
		}
		lines, text = append(lines, text[:end]), strings.TrimSpace(text[end:])
	}
	return append(lines, text)
}

// drawCharts draws the charts of a run into a folder, each in a light and in a dark scheme.
func (run *jsonRun) drawCharts(dir string) error {
	for name, svg := range run.pictures() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(svg), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pictures returns the charts by file name.
func (run *jsonRun) pictures() map[string]string {
	files := map[string]string{}
	for _, c := range run.charts() {
		for scheme := range schemes {
			files["bench-"+c.name+"-"+scheme+".svg"] = c.svg(scheme)
		}
	}
	return files
}

// readJSON reads the results of an earlier run.
func readJSON(path string) (*jsonRun, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	run := &jsonRun{}
	if err := json.Unmarshal(text, run); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return run, nil
}
