package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
)

// A row is a queue, and when it was read.
type row struct {
	holdfast.Queue
	at time.Time
}

// A sortKey is what rows are sorted by.
type sortKey int

const (
	byName sortKey = iota
	byHeld
	byLeft
	byWaiters
	byLongest
	sortKeys // how many there are
)

func (k sortKey) String() string {
	return [...]string{"name", "held", "left", "waiters", "longest wait"}[k]
}

// A view is what the screen shows.
type view int

const (
	viewTable view = iota
	viewDetail
	viewHelp
)

// A model is what is known of the queues, and how it is shown.
type model struct {
	store  string // its name, for people
	prefix string // what is watched
	now    time.Time

	rows    map[string]row
	loaded  bool  // the first batch has come
	failure error // the last error of the store; nil: it responds
	failed  time.Time
	unread  error // the last queue that cannot be read; nil: none

	view     view
	sort     sortKey
	reverse  bool
	filter   string // begins with prefix
	typing   bool   // keys go to the filter
	selected string // name of the row with the cursor
	top      int    // the first row on the screen
	page     int    // how many rows the screen has
	detail   string // name of the queue in the detail view
	scroll   int    // the first line of the detail on the screen
	links    links  // of detail
}

func newModel(store, prefix string) *model {
	return &model{
		store: printable.Line(store), prefix: prefix, filter: prefix, rows: map[string]row{}, now: time.Now(), page: 1,
	}
}

// receive applies a report of Watch.
func (m *model) receive(batch []holdfast.Queue, err error, now time.Time) {
	m.now = now
	if err != nil {
		if isOfQueue(err) {
			m.unread = err
		} else if m.failure == nil {
			m.failure, m.failed = err, now
		} else {
			m.failure = err
		}
		return
	}
	m.loaded, m.failure = true, nil
	for _, q := range batch {
		if len(q.Entries) == 0 {
			delete(m.rows, q.Name)
		} else {
			m.rows[q.Name] = row{q, now}
		}
	}
}

// left returns how much time an entry has left now.
func (m *model) left(r row, e holdfast.Entry) time.Duration { return max(e.Left-m.now.Sub(r.at), 0) }

// age returns for how long an entry has been held or waiting, or -1 if that is not known.
func (m *model) age(e holdfast.Entry) time.Duration {
	if e.Since.IsZero() {
		return -1
	}
	return max(m.now.Sub(e.Since), 0)
}

// longest returns how long the first waiter has been waiting, or -1.
func (m *model) longest(r row) time.Duration {
	longest := time.Duration(-1)
	for _, e := range r.Waiters() {
		longest = max(longest, m.age(e))
	}
	return longest
}

// visible returns the rows that match the filter, in their order.
func (m *model) visible() []row {
	rows := make([]row, 0, len(m.rows))
	for name, r := range m.rows {
		if strings.HasPrefix(name, m.filter) {
			rows = append(rows, r)
		}
	}
	first := func(r row) holdfast.Entry { return r.Entries[0] }
	slices.SortFunc(rows, func(a, b row) int {
		order := 0
		switch m.sort {
		case byName, sortKeys:
			order = cmp.Compare(a.Name, b.Name)
		case byHeld:
			order = cmp.Compare(m.age(first(b)), m.age(first(a)))
		case byLeft:
			order = cmp.Compare(m.left(a, first(a)), m.left(b, first(b)))
		case byWaiters:
			order = cmp.Compare(len(b.Waiters()), len(a.Waiters()))
		case byLongest:
			order = cmp.Compare(m.longest(b), m.longest(a))
		}
		if m.reverse {
			order = -order
		}
		return cmp.Or(order, cmp.Compare(a.Name, b.Name))
	})
	return rows
}

// A key is what was pressed: a character, or one of the words below.
type key = string

const (
	keyUp, keyDown     = "up", "down"
	keyPgUp, keyPgDn   = "page up", "page down"
	keyHome, keyEnd    = "home", "end"
	keyEnter, keyEsc   = "enter", "esc"
	keyErase, keyClear = "erase", "clear"
	keyQuit            = "quit"
)

// press handles a key. It reports whether the program is to end.
func (m *model) press(k key) (quit bool) {
	if k == keyQuit {
		return true
	}
	if m.typing {
		m.edit(k)
		return false
	}
	switch m.view {
	case viewTable:
		return m.pressInTable(k)
	case viewDetail:
		switch k {
		case keyUp, "k":
			m.scroll--
		case keyDown, "j":
			m.scroll++
		case keyPgUp:
			m.scroll -= m.page
		case keyPgDn, " ":
			m.scroll += m.page
		case keyHome, "g":
			m.scroll = 0
		case keyEsc, keyEnter, "q":
			m.view = viewTable
		case "?", "h":
			m.view = viewHelp
		}
	case viewHelp:
		m.view = viewTable
	}
	return false
}

func (m *model) pressInTable(k key) (quit bool) {
	switch k {
	case "q":
		return true
	case keyUp, "k":
		m.move(-1)
	case keyDown, "j":
		m.move(1)
	case keyPgUp:
		m.move(-m.page)
	case keyPgDn, " ":
		m.move(m.page)
	case keyHome, "g":
		m.move(-len(m.rows))
	case keyEnd, "G":
		m.move(len(m.rows))
	case "s":
		m.sort = (m.sort + 1) % sortKeys
	case "r":
		m.reverse = !m.reverse
	case "/":
		m.typing = true
	case keyEsc:
		m.filter = m.prefix
	case keyEnter:
		if _, ok := m.rows[m.selected]; ok {
			m.view, m.detail, m.scroll, m.links = viewDetail, m.selected, 0, links{}
		}
	case "?", "h":
		m.view = viewHelp
	}
	return false
}

// edit applies a key to the filter.
func (m *model) edit(k key) {
	switch k {
	case keyEnter:
		m.typing = false
	case keyEsc:
		m.typing, m.filter = false, m.prefix
	case keyClear:
		m.filter = m.prefix
	case keyErase:
		if rest := []rune(m.filter[len(m.prefix):]); len(rest) > 0 {
			m.filter = m.prefix + string(rest[:len(rest)-1])
		}
	default:
		if utf8.RuneCountInString(k) == 1 && len(m.filter) < maxFilter {
			m.filter += k
		}
	}
}

// maxFilter is how long a filter can be: as long as a name.
const maxFilter = 512

// move moves the cursor by n rows.
func (m *model) move(n int) {
	rows := m.visible()
	if len(rows) == 0 {
		return
	}
	at := max(slices.IndexFunc(rows, func(r row) bool { return r.Name == m.selected }), 0)
	m.selected = rows[min(max(at+n, 0), len(rows)-1)].Name
}

// status returns the line about the state of the store, and whether it is a failure.
func (m *model) status() (text string, failing bool) {
	switch {
	case m.failure != nil:
		return fmt.Sprintf("no connection for %v, showing what was read before: %s", short(m.now.Sub(m.failed)),
			printable.Line(strings.TrimPrefix(m.failure.Error(), "holdfast: "))), true
	case !m.loaded:
		return "reading " + m.store, false
	case m.unread != nil:
		return printable.Line(strings.TrimPrefix(m.unread.Error(), "holdfast: ")), true
	}
	return m.store, false
}
