package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/printable"
)

// A style is the appearance of a line of the screen.
type style int

const (
	plainText style = iota
	header
	selected
	failing
	faint
)

// A canvas is what a model is drawn on, line by line.
type canvas interface {
	size() (width, height int)
	line(y int, text string, s style)
}

// The least that a screen must have.
const (
	leastWidth  = 60
	leastHeight = 6
)

// draw draws everything.
func (m *model) draw(c canvas) {
	width, height := c.size()
	if width < leastWidth || height < leastHeight {
		c.line(0, fit("terminal too small", width), failing)
		if height > 1 {
			c.line(1, fit(fmt.Sprintf("%d×%d, need %d×%d", width, height, leastWidth, leastHeight), width), plainText)
		}
		for y := 2; y < height; y++ {
			c.line(y, fit("", width), plainText)
		}
		return
	}
	m.page = height - 4
	rows := m.visible()
	status, isFailing := m.status()
	top := plainText
	if isFailing {
		top = failing
	}
	c.line(0, fit(status, width), top)
	body, help := m.body(rows, width)
	c.line(1, fit(body.summary, width), faint)
	c.line(2, fit(body.head, width), header)
	for y := range m.page {
		text, s := "", plainText
		if y < len(body.lines) {
			text = body.lines[y]
		}
		if y == body.cursor {
			s = selected
		}
		c.line(3+y, fit(text, width), s)
	}
	c.line(height-1, fit(help, width), faint)
}

// A body is what is shown below the status line.
type body struct {
	summary, head string
	lines         []string // at most a page of them
	cursor        int      // the line with the cursor; -1 if there is none
}

func (m *model) body(rows []row, width int) (b body, help string) {
	switch m.view {
	case viewDetail:
		return m.detailBody(width), "↑↓ scroll  Esc back  ? help  Ctrl-C quit"
	case viewHelp:
		return m.window(body{summary: "Keys", cursor: -1}, helpLines, new(int)), "any key goes back"
	case viewTable:
	}
	help = "↑↓ move  Enter detail  / filter  s sort  r reverse  ? help  q quit"
	if m.typing {
		help = "type the beginning of a name  Enter keep  Esc clear"
	}
	return m.table(rows, width), help
}

var helpLines = []string{
	"↑ ↓ k j        move the cursor, or scroll",
	"PgUp PgDn      a page up or down; Space is PgDn",
	"Home End g G   the first and the last",
	"Enter          the queue under the cursor: holders, waiters, and what blocks them",
	"Esc            back; in the table, forget the filter",
	"/              filter: show only names that begin with what is typed",
	"s              sort by name, held, left, waiters, longest wait",
	"r              reverse the order",
	"q Ctrl-C       quit",
}

// window cuts lines to a page, from the first that is wanted on.
func (m *model) window(b body, lines []string, from *int) body {
	*from = min(max(*from, 0), max(len(lines)-m.page, 0))
	b.lines = lines[*from:min(*from+m.page, len(lines))]
	return b
}

// columns are the widths of the table's columns; 0: it is not shown.
type columns struct{ name, mode, holder, held, left, token, waiters, longest int }

func newColumns(width int) columns {
	c := columns{mode: 10, held: 6, left: 6, waiters: 5}
	if width >= 90 {
		c.longest = 7
	}
	if width >= 110 {
		c.token = 20
	}
	rest := width
	for _, w := range []int{c.mode, c.held, c.left, c.waiters, c.longest, c.token} {
		if w > 0 {
			rest -= w + 1
		}
	}
	c.name = rest / 2
	c.holder = rest - c.name - 2
	return c
}

// join joins the cells of a row, which are those of model.cells.
func (c columns) join(cells []string) string {
	row := []string{
		fit(cells[0], c.name), fit(cells[1], c.mode), fit(cells[2], c.holder),
		fitRight(cells[3], c.held), fitRight(cells[4], c.left),
	}
	if c.token > 0 {
		row = append(row, fitRight(cells[5], c.token))
	}
	row = append(row, fitRight(cells[6], c.waiters))
	if c.longest > 0 {
		row = append(row, fitRight(cells[7], c.longest))
	}
	return strings.Join(row, " ")
}

// table is the body of the table.
func (m *model) table(rows []row, width int) body {
	c := newColumns(width)
	order := m.sort.String()
	if m.reverse {
		order += ", reversed"
	}
	b := body{
		summary: fmt.Sprintf("%d of %d queues, by %s", len(rows), len(m.rows), order),
		head:    c.join([]string{"NAME", "MODE", "HOLDER", "HELD", "LEFT", "TOKEN", "WAIT", "LONGEST"}),
		cursor:  -1,
	}
	if m.typing || m.filter != "" {
		b.summary += "  filter: " + printable.Line(m.filter)
		if m.typing {
			b.summary += "█"
		}
	}
	if len(rows) == 0 {
		if m.loaded {
			b.lines = []string{"no queue is in use"}
		}
		return b
	}
	at := slices.IndexFunc(rows, func(r row) bool { return r.Name == m.selected })
	if at < 0 { // it is gone: the cursor stays where it was
		at = min(max(m.top, 0), len(rows)-1)
		m.selected = rows[at].Name
	}
	m.top = min(max(m.top, at-m.page+1), at)
	m.top = max(min(m.top, len(rows)-m.page), 0)
	for _, r := range rows[m.top:min(m.top+m.page, len(rows))] {
		b.lines = append(b.lines, c.join(m.cells(r)))
	}
	b.cursor = at - m.top
	return b
}

// detailBody is the body of the detail view.
func (m *model) detailBody(width int) body {
	r, ok := m.rows[m.detail]
	b := body{summary: "queue " + printable.Line(m.detail), cursor: -1}
	rest, hasToken := width-12-10-6-6-4, width >= 80
	if hasToken {
		rest -= 20 + 1
	}
	cells := func(position, owner, mode, since, left, token string) string {
		row := []string{fit(position, 12), fit(owner, rest), fit(mode, 10), fitRight(since, 6), fitRight(left, 6)}
		if hasToken {
			row = append(row, fitRight(token, 20))
		}
		return strings.Join(row, " ")
	}
	b.head = cells("", "OWNER", "MODE", "FOR", "LEFT", "TOKEN")
	if !ok {
		return m.window(b, []string{"it is not held, and no claim waits"}, &m.scroll)
	}
	var lines []string
	for i, e := range r.Entries {
		position := "holds"
		if !e.Held {
			position = fmt.Sprintf("waits %d", i-len(r.Holders())+1)
		}
		lines = append(lines,
			cells(position, owner(e.Owner), want(e), short(m.age(e)), short(m.left(r, e)), e.Token.String()))
	}
	if m.links.name == m.detail {
		lines = append(lines, m.links.lines()...)
	}
	return m.window(b, lines, &m.scroll)
}
