package main

import (
	"fmt"
	"html"
	"strings"
)

// style has the colours of both schemes. Every element has a class and no colour of its own.
const style = `
svg { font: 14px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
.paper { fill: #ffffff; }
text { fill: #1f2328; }
.quiet { fill: #59636e; font-size: 12.5px; }
.title { font-weight: 600; font-size: 15px; }
.held { fill: #dafbe1; stroke: #1a7f37; }
.waiting { fill: #f6f8fa; stroke: #818b98; }
.paused { fill: #fff8c5; stroke: #9a6700; stroke-dasharray: 5 4; }
.refused { fill: #ffebe9; stroke: #cf222e; }
.data { fill: #ddf4ff; stroke: #0969da; }
.line { stroke: #818b98; fill: none; }
.good { stroke: #1a7f37; fill: none; }
.bad { stroke: #cf222e; fill: none; }
.goodtext { fill: #1a7f37; font-weight: 600; }
.badtext { fill: #cf222e; font-weight: 600; }
rect, path, line { stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
	.paper { fill: #0d1117; }
	text { fill: #f0f6fc; }
	.quiet { fill: #9198a1; }
	.held { fill: #12261e; stroke: #3fb950; }
	.waiting { fill: #151b23; stroke: #656c76; }
	.paused { fill: #272115; stroke: #d29922; }
	.refused { fill: #25171c; stroke: #f85149; }
	.data { fill: #121d2f; stroke: #4493f8; }
	.line { stroke: #656c76; }
	.good { stroke: #3fb950; }
	.bad { stroke: #f85149; }
	.goodtext { fill: #3fb950; }
	.badtext { fill: #f85149; }
}
`

// A drawing is an SVG in the making.
type drawing struct{ strings.Builder }

// newDrawing begins a picture of this size. title and text describe it to those who cannot see it.
func newDrawing(width, height int, title, text string) *drawing {
	d := &drawing{}
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" `+
		`role="img">`+"\n", width, height)
	fmt.Fprintf(d, "<title>%s</title>\n<desc>%s</desc>\n<style>%s</style>\n",
		html.EscapeString(title), html.EscapeString(text), style)
	d.WriteString(
		`<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">` +
			`<path d="M0 0 8 4 0 8z" fill="context-stroke" stroke="none"/></marker></defs>` + "\n",
	)
	fmt.Fprintf(d, `<rect class="paper" width="%d" height="%d" rx="8"/>`+"\n", width, height)
	return d
}

// end closes the picture and returns it.
func (d *drawing) end() string {
	d.WriteString("</svg>\n")
	return d.String()
}

func (d *drawing) box(class string, x, y, width, height int) {
	fmt.Fprintf(d, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="6"/>`+"\n", class, x, y, width, height)
}

// text writes a line of text. anchor is start, middle or end.
func (d *drawing) text(class, anchor string, x, y int, text string) {
	fmt.Fprintf(d, `<text class="%s" text-anchor="%s" x="%d" y="%d">%s</text>`+"\n",
		class, anchor, x, y, html.EscapeString(text))
}

func (d *drawing) arrow(class string, x1, y1, x2, y2 int) {
	fmt.Fprintf(d, `<line class="%s" x1="%d" y1="%d" x2="%d" y2="%d" marker-end="url(#tip)"/>`+"\n",
		class, x1, y1, x2, y2)
}

func (d *drawing) line(class string, x1, y1, x2, y2 int) {
	fmt.Fprintf(d, `<line class="%s" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", class, x1, y1, x2, y2)
}
