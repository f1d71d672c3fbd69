package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

const (
	liveWidth = 60 // what a terminal needs at least, so that no line of a picture wraps
	barWidth  = 30
)

// live is a screen on a terminal: the lines that stay, and below them a picture that is drawn over and over.
type live struct {
	out     io.Writer
	colours style

	mu    sync.Mutex
	shown []string // the picture
}

func (l *live) style() style { return l.colours }

func (l *live) say(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(line+"\n", l.shown)
}

func (l *live) draw(p *picture) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p == nil {
		l.write("", nil)
		return
	}
	l.write("", p.lines(l.colours))
}

// write clears the picture away, writes text that stays, and draws the next picture, all at once so that nothing
// flickers.
func (l *live) write(text string, next []string) {
	var b strings.Builder
	if len(l.shown) > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", len(l.shown))
	}
	b.WriteString(text)
	for _, line := range next {
		b.WriteString(line + "\n")
	}
	l.shown = next
	io.WriteString(l.out, b.String()) //nolint:errcheck // who cannot print has nobody left to tell
}

// lines draws the stock as a bar, and each worker.
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
