package demo

import (
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
)

// A screen is where people see the demo.
type screen interface {
	say(line string)   // writes a line that stays
	draw(now *picture) // shows how things stand; nil clears it away
	style() style
}

// newScreen makes a screen that moves if out is a terminal, unless plain lines are wanted.
func newScreen(out io.Writer, plain bool) screen {
	if plain || terminalWidth(out) < liveWidth {
		return &lines{out: out}
	}
	return &live{out: out, colours: os.Getenv("NO_COLOR") == ""}
}

// lines is a screen of plain lines.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lines) say(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.out, line) //nolint:errcheck // who cannot print has nobody left to tell
}

func (*lines) draw(*picture) {}
func (*lines) style() style  { return false }

// A style says whether there are colours.
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

// A picture is how a round stands.
type picture struct {
	items, left int
	workers     []state
}

func (p *picture) clone() picture {
	return picture{p.items, p.left, slices.Clone(p.workers)}
}

// A state is what a worker does.
type state struct {
	fate  fate
	doing reportKind // empty: it starts
	item  int
}

// String says it in words.
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
