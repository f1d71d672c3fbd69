package report

import (
	"bytes"
	_ "embed" // the style of the picture
	"fmt"
	"html"
	"io"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/lab/history"
)

//go:embed picture.css
var pictureStyle string

// Sizes of the picture.
const (
	pictureWidth  = 960
	pictureMargin = 16
	pictureEnd    = 932 // of the time
	maxGutter     = 190 // for the names of workers
	pictureAxis   = 48  // for times and faults
	laneHeight    = 20
	rowGap        = 10
	thinnest      = 1.5 // of what has a length
	maxPictured   = 12  // workers
)

// WriteSVG writes a picture of the timeline, for documents. It shows at most 12 workers: those of the violations first,
// and then those that come first. It is the same for the same run, and is light or dark as the reader likes.
func (r *Run) WriteSVG(w io.Writer) error {
	p := newPicture(r.timeline())
	p.draw(r)
	_, err := w.Write(p.Bytes())
	return failed(err)
}

// A picture is an SVG that grows.
type picture struct {
	bytes.Buffer
	*timeline
	shown  []int       // the rows that are in it
	tops   map[int]int // where they begin
	bottom int         // where the last of them ends
	gutter float64     // where the time begins
}

func newPicture(t *timeline) *picture {
	p := &picture{timeline: t, tops: map[int]int{}, bottom: pictureAxis, gutter: 60}
	p.shown = t.important()
	for _, i := range p.shown {
		p.gutter = min(max(p.gutter, pictureMargin+textWidth(t.Rows[i].Name)+12), maxGutter)
		p.tops[i] = p.bottom
		p.bottom += t.Rows[i].height()
	}
	return p
}

// height is how high a row is in a picture.
func (r row) height() int { return r.Lanes*laneHeight + rowGap }

// important chooses the rows of a picture, in their order.
func (t *timeline) important() []int {
	chosen := map[int]bool{}
	choose := func(i int) {
		if len(chosen) < maxPictured {
			chosen[i] = true
		}
	}
	for _, f := range t.Findings {
		for _, i := range f.Rows {
			choose(i)
		}
	}
	for i := range t.Rows {
		choose(i)
	}
	return slices.Sorted(maps.Keys(chosen))
}

func (p *picture) draw(r *Run) {
	lines := p.captions()
	height := p.bottom + 34 + len(lines)*20 + pictureMargin
	p.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title about">`,
		pictureWidth, height)
	p.add(`<title id="title">%s</title>`, text(r.Title))
	p.add(`<desc id="about">%s</desc>`, text(r.Conclusion()))
	p.add(`<style>%s</style>`, pictureStyle) // it has no characters that XML gives a meaning to
	p.add(`<rect class="back" width="%d" height="%d" rx="8"/>`, pictureWidth, height)
	p.drawAxis()
	p.drawFaults()
	for _, i := range p.shown {
		p.drawRow(i)
	}
	for _, f := range p.Findings {
		p.drawFinding(f)
	}
	for _, i := range p.shown {
		p.drawTokens(i)
	}
	p.drawLegend(p.bottom + 22)
	for i, line := range lines {
		p.add(`<text class="%s" x="%d" y="%d">%s</text>`, line.Name, pictureMargin, p.bottom+46+i*20, text(line.Value))
	}
	p.add(`</svg>`)
}

// captions returns what stands below the picture, with the class of each line: the first violation, and what was left
// out.
func (p *picture) captions() []fact {
	var lines []fact
	if n := len(p.Findings); n > 0 {
		f := p.Findings[0]
		line := fmt.Sprintf("at %s: %s", length(time.Duration(max(f.Begin, 0))), f.Text)
		if n > 1 {
			line += fmt.Sprintf(" (and %s)", count(n-1, "other violation"))
		}
		lines = append(lines, fact{"caption bad", line})
	}
	if n := len(p.Rows) - len(p.shown); n > 0 {
		lines = append(lines, fact{"caption muted", "not shown: " + count(n, "worker")})
	}
	return lines
}

// add adds a line.
func (p *picture) add(format string, args ...any) {
	p.WriteString(fmt.Sprintf(format, args...) + "\n")
}

// text escapes a text for XML.
func text(s string) string { return html.EscapeString(printable.Line(s)) }

// x is where a moment is. What lies outside of the run is at its edges.
func (p *picture) x(at history.Instant) float64 {
	return p.gutter + (pictureEnd-p.gutter)*float64(min(max(at, 0), p.End))/float64(p.End)
}

// across is where an interval begins and how wide it is, and at least as wide as it must be to be seen.
func (p *picture) across(begin, end history.Instant, least float64) (x, width float64) {
	x = p.x(begin)
	return x, max(p.x(end)-x, least)
}

// drawAxis draws the times above the rows.
func (p *picture) drawAxis() {
	step := niceStep(p.End)
	for at := history.Instant(0); at <= p.End; at += step {
		p.add(`<path class="grid" d="M%.1f %dV%d"/>`, p.x(at), pictureAxis-6, p.bottom)
		p.add(`<text class="tick middle" x="%.1f" y="18">%s</text>`, p.x(at), length(time.Duration(at)))
	}
}

// niceStep is the least of 1, 2, 5, 10, 20, … nanoseconds that divides the run into no more than eight parts.
func niceStep(end history.Instant) history.Instant {
	for power := history.Instant(1); ; power *= 10 {
		for _, n := range []history.Instant{1, 2, 5} {
			if end/(n*power) <= 8 {
				return n * power
			}
		}
	}
}

// drawFaults draws the faults as bands, and the names of those that do not run into the one before.
func (p *picture) drawFaults() {
	free := 0.0 // where the last name ends
	for _, f := range p.Faults {
		x, width := p.across(f.Begin, f.End, 2)
		p.add(`<rect class="fault" x="%.1f" y="24" width="%.1f" height="%d"/>`, x, width, p.bottom-24)
		name := f.Name
		if f.Target != "" {
			name += ", " + f.Target
		}
		name = cut(name, 300)
		from := min(x, pictureWidth-pictureMargin-textWidth(name))
		if from >= free {
			p.add(`<text class="fault-name" x="%.1f" y="38">%s</text>`, from+3, text(name))
			free = from + textWidth(name) + 8
		}
	}
}

func (p *picture) drawRow(i int) {
	r, top := p.Rows[i], p.tops[i]
	p.add(`<text class="name" x="%d" y="%d">%s</text>`,
		pictureMargin, top+r.height()/2+4, text(cut(r.Name, p.gutter-pictureMargin-12)))
	p.add(`<path class="grid" d="M%d %dH%d"/>`, pictureMargin, top, pictureWidth-pictureMargin)
	type spot struct {
		state State
		lane  int
	}
	drawn := map[spot]float64{} // up to where: what would hide behind that is left out
	for _, m := range r.Marks {
		x, width := p.across(m.Begin, m.End, thinnest)
		at := spot{m.State, m.Lane}
		if m.Begin > p.End || m.End < 0 || width == thinnest && x < drawn[at] {
			continue
		}
		drawn[at] = x + width
		p.drawMark(m, x, width, top, r.height())
	}
}

// drawMark draws a mark in a row that begins at top.
func (p *picture) drawMark(m mark, x, width float64, top, height int) {
	y := top + rowGap/2 + max(m.Lane, 0)*laneHeight
	switch m.State {
	case Waiting:
		p.add(`<rect class="waiting" x="%.1f" y="%d" width="%.1f" height="4"/>`, x, y+laneHeight/2-2, width)
	case Holding, Lost:
		p.add(`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"/>`, m.State, x, y+1, width, laneHeight-2)
	case Wrote, Refused:
		p.drawMoment(m.State, x, top+height/2)
	case Paused:
		p.add(`<rect class="paused" x="%.1f" y="%d" width="%.1f" height="%d"/>`, x, top+2, width, height-4)
	case Killed:
		p.add(`<path class="killed" d="M%.1f %dv%d"/>`, x, top+2, height-4)
	}
}

// drawTokens writes the tokens of holds into them, if there is room. They stand above what marks a violation.
func (p *picture) drawTokens(i int) {
	for _, m := range p.Rows[i].Marks {
		x, width := p.across(m.Begin, m.End, 0)
		label := m.Token.String()
		if m.Token != 0 && (m.State == Holding || m.State == Lost) && textWidth(label)+8 < width {
			y := p.tops[i] + rowGap/2 + m.Lane*laneHeight + laneHeight/2 + 4
			p.add(`<text class="on-%s" x="%.1f" y="%d">%s</text>`, m.State, x+4, y, label)
		}
	}
}

func (p *picture) drawMoment(s State, x float64, y int) {
	if s == Wrote {
		p.add(`<circle class="wrote" cx="%.1f" cy="%d" r="4.5"/>`, x, y)
		return
	}
	p.add(`<path class="refused" d="M%.1f %dl6 6-6 6-6-6z"/>`, x, y-6)
}

// drawFinding draws a violation red in the rows of its holders, and faintly between them. What is about no row goes
// through all.
func (p *picture) drawFinding(f place) {
	x, width := p.across(f.Begin, f.End, 3)
	first, last := p.bottom, pictureAxis
	for _, i := range f.Rows {
		top, ok := p.tops[i]
		if !ok {
			continue
		}
		height := p.Rows[i].height()
		first, last = min(first, top), max(last, top+height)
		class := "violation"
		if !f.Overlap {
			class = "around"
		}
		p.add(`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"/>`, class, x, top+3, width, height-6)
	}
	if len(f.Rows) == 0 {
		first, last = pictureAxis, p.bottom
	}
	if first < last {
		p.add(`<rect class="between" x="%.1f" y="%d" width="%.1f" height="%d"/>`, x, first, width, last-first)
	}
}

// legend is what a picture may explain: the class of a state, and what it means.
var legend = []fact{
	{string(Waiting), "waiting"}, {string(Holding), "holding"}, {string(Lost), "lost"},
	{string(Wrote), "write accepted"}, {string(Refused), "write refused"}, {string(Paused), "paused"},
	{string(Killed), "killed"}, {"fault", "fault"}, {"violation", "violation"},
}

// drawLegend explains what there is in the picture.
func (p *picture) drawLegend(y int) {
	used := map[string]bool{"fault": len(p.Faults) > 0, "violation": len(p.Findings) > 0}
	for _, i := range p.shown {
		for _, m := range p.Rows[i].Marks {
			used[string(m.State)] = true
		}
	}
	x := float64(pictureMargin)
	for _, entry := range legend {
		if !used[entry.Name] {
			continue
		}
		switch state := State(entry.Name); state {
		case Waiting:
			p.add(`<rect class="waiting" x="%.1f" y="%d" width="18" height="4"/>`, x, y-2)
		case Wrote, Refused:
			p.drawMoment(state, x+9, y)
		case Killed:
			p.add(`<path class="killed" d="M%.1f %dv12"/>`, x+9, y-6)
		default:
			p.add(`<rect class="%s" x="%.1f" y="%d" width="18" height="12"/>`, entry.Name, x, y-6)
		}
		p.add(`<text class="tick" x="%.1f" y="%d">%s</text>`, x+24, y+4, entry.Value)
		x += 24 + textWidth(entry.Value) + 16
	}
}

// textWidth estimates how wide a text is: fonts differ, so with some room to spare.
func textWidth(s string) float64 { return 7 * float64(utf8.RuneCountInString(s)) }

// cut shortens a text that is too wide.
func cut(s string, room float64) string {
	runes := []rune(s)
	if most := int(room / 7); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}
