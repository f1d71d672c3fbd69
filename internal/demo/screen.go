package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// A screen shows the demo.
type screen interface {
	say(line string)   // writes a line that stays
	draw(now *picture) // draws the picture in place of the last one; nil clears it
	style() style
}

// newScreen returns a live screen if out is a terminal and plain is false, and else one of plain lines.
func newScreen(out io.Writer, plain bool) screen {
	live := !plain && TerminalWidth(out) >= liveWidth
	return &lines{out: out, live: live, colours: style(live && os.Getenv("NO_COLOR") == "")}
}

// A style is whether there are colours.
type style bool

func (s style) paint(code, text string) string {
	if !s {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) bold(text string) string { return s.paint("1", text) }
func (s style) dim(text string) string  { return s.paint("2", text) }
func (s style) good(text string) string { return s.paint("32", text) }
func (s style) bad(text string) string  { return s.paint("1;31", text) }

// A picture is the state of a round.
type picture struct {
	items, left int
	workers     []state
}

// A state is what a worker does.
type state struct {
	fate  fate
	doing reportKind // empty while it starts
	item  int
}

// String returns the state as text.
func (s state) String() string {
	switch {
	case s.fate == killed:
		return fmt.Sprintf("killed at item %d", s.item)
	case s.fate == stopped:
		return fmt.Sprintf("stopped at item %d", s.item)
	case s.doing == paying:
		return fmt.Sprintf("selling item %d", s.item)
	case s.doing == soldOut:
		return "done"
	case s.doing == "":
		return "starting"
	default:
		return "waiting"
	}
}

const (
	liveWidth = 60 // the least width of a terminal, so that no line of a picture wraps
	barWidth  = 30
)

// lines is a screen of lines that stay. If it is live, it is a terminal with a picture below them that is redrawn.
type lines struct {
	out     io.Writer
	live    bool
	colours style

	mu    sync.Mutex
	shown []string // the picture
}

func (l *lines) style() style { return l.colours }

func (l *lines) say(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(line+"\n", l.shown)
}

func (l *lines) draw(p *picture) {
	if !l.live {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p == nil {
		l.write("", nil)
		return
	}
	l.write("", p.lines(l.colours))
}

// write clears the picture, writes text that stays, and draws the next picture, all in one write so that nothing
// flickers.
func (l *lines) write(text string, next []string) {
	var b strings.Builder
	if len(l.shown) > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", len(l.shown))
	}
	b.WriteString(text)
	for _, line := range next {
		b.WriteString(line + "\n")
	}
	l.shown = next
	io.WriteString(l.out, b.String()) //nolint:errcheck // there is no other output to report it on
}

// lines returns the stock as a bar, and a line for each worker.
func (p *picture) lines(s style) []string {
	full := min(barWidth, (p.left*barWidth+p.items-1)/p.items)
	drawn := []string{fmt.Sprintf("  stock     %s%s %d left",
		strings.Repeat("█", full), s.dim(strings.Repeat("░", barWidth-full)), p.left)}
	for i, w := range p.workers {
		text := w.String()
		switch {
		case w.fate != paid:
			text = s.bad(text)
		case w.doing == paying:
			text = s.good(text)
		default:
			text = s.dim(text)
		}
		drawn = append(drawn, fmt.Sprintf("  worker %-2d %s", i+1, text))
	}
	return drawn
}
