package top

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// A page is a canvas of text.
type page struct {
	width, height int
	lines         []string
}

func (p *page) size() (width, height int) { return p.width, p.height }

func (p *page) line(y int, text string, _ style) {
	for len(p.lines) <= y {
		p.lines = append(p.lines, "")
	}
	p.lines[y] = text
}

// drawn returns what a model looks like, and demands that each line has the width of the page.
func drawn(t *testing.T, m *model, width, height int) string {
	t.Helper()
	p := &page{width: width, height: height}
	m.draw(p)
	if len(p.lines) != height {
		t.Errorf("%d lines were drawn on a page of %d", len(p.lines), height)
	}
	for _, line := range p.lines {
		if w := uniseg.StringWidth(line); w != width {
			t.Errorf("the line %q is %d wide, want %d", line, w, width)
		}
	}
	return strings.Join(p.lines, "\n")
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// queue makes a queue with one holder and some waiters.
func queue(name, label string, held, left time.Duration, waiters int) holdfast.Queue {
	q := holdfast.Queue{Name: name}
	for i := range waiters + 1 {
		q.Entries = append(q.Entries, holdfast.Entry{
			Owner: store.Owner{Label: label, Host: "web", PID: 7 + i}, Token: holdfast.Token(1000 + i<<8), Held: i == 0,
			Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders, Since: noon.Add(-held), Left: left,
		})
	}
	return q
}

func order(m *model) (names string) {
	for _, r := range m.visible() {
		names += r.Name + " "
	}
	return strings.TrimSpace(names)
}

func TestSortAndFilter(t *testing.T) {
	m := newModel("store", "")
	m.receive([]holdfast.Queue{
		queue("a/1", "x", time.Minute, 3*time.Second, 0), queue("b", "x", time.Hour, 9*time.Second, 2),
		queue("a/2", "x", time.Second, time.Second, 1),
	}, nil, noon)
	for _, want := range []string{
		"a/1 a/2 b", "b a/1 a/2", "a/2 a/1 b", "b a/2 a/1", "b a/2 a/1", // by name, held, left, waiters, longest wait
	} {
		if got := order(m); got != want {
			t.Errorf("by %v: %s, want %s", m.sort, got, want)
		}
		m.press("s")
	}
	m.press("r")
	if got := order(m); got != "b a/2 a/1" {
		t.Errorf("by name, reversed: %s", got)
	}
	m.press("r")
	for _, k := range []key{"/", "a", "/", "x", keyErase} {
		m.press(k)
	}
	if got := order(m); got != "a/1 a/2" || !m.typing {
		t.Errorf("with the filter %q: %s", m.filter, got)
	}
	m.press(keyEsc)
	if m.filter != "" || m.typing {
		t.Errorf("Esc left the filter %q", m.filter)
	}
}

func TestCursor(t *testing.T) {
	m := newModel("store", "")
	var all []holdfast.Queue
	for i := range 50 {
		all = append(all, queue(fmt.Sprintf("q%02d", i), "x", time.Minute, time.Second, 0))
	}
	m.receive(all, nil, noon)
	if text := drawn(t, m, 80, 14); !strings.Contains(text, "q00") || !strings.Contains(text, "q09") ||
		strings.Contains(text, "q10") {
		t.Errorf("the first page is\n%s", text)
	}
	m.press(keyEnd)
	if text := drawn(t, m, 80, 14); m.selected != "q49" || !strings.Contains(text, "q40") {
		t.Errorf("at %s the last page is\n%s", m.selected, text)
	}
	m.press(keyPgUp)
	m.receive([]holdfast.Queue{{Name: m.selected}}, nil, noon) // it is released
	if text := drawn(t, m, 80, 14); m.selected == "q39" || !strings.Contains(text, "49 of 49") {
		t.Errorf("at %s the page is\n%s", m.selected, text)
	}
}

// TestCountdown: the time left is counted down from when the queue was read, and does not go below nothing.
func TestCountdown(t *testing.T) {
	m := newModel("store", "")
	m.receive([]holdfast.Queue{queue("a", "x", 90*time.Second, 20*time.Second, 1)}, nil, noon)
	for after, want := range map[time.Duration]string{
		0: " 1m30s    20s", 5 * time.Second: " 1m35s    15s", time.Minute: " 2m30s    0ms",
	} {
		m.now = noon.Add(after)
		if text := drawn(t, m, 80, 10); !strings.Contains(text, want) {
			t.Errorf("after %v there is no %q in\n%s", after, want, text)
		}
	}
}

func TestFailureIsShown(t *testing.T) {
	m := newModel("redis at x", "")
	m.receive([]holdfast.Queue{queue("a", "x", time.Minute, time.Minute, 0)}, nil, noon)
	m.receive(nil, errors.New("holdfast: watch: connection \x1b[2Jrefused"), noon)
	m.now = noon.Add(7 * time.Second)
	if text := drawn(t, m, 120, 10); !strings.Contains(text, "no connection for 7s") ||
		!strings.Contains(text, "\na ") ||
		strings.Contains(text, "\x1b") {
		t.Errorf("a failure is shown as\n%s", text)
	}
	m.receive(nil, nil, m.now)
	if text := drawn(t, m, 120, 10); strings.Contains(text, "no connection") {
		t.Errorf("after the failure:\n%s", text)
	}
	m.receive(nil, &holdfast.Error{Op: "watch", Name: "bad", Err: holdfast.ErrFormat}, m.now)
	if text := drawn(t, m, 120, 10); strings.Contains(text, "no connection") ||
		!strings.Contains(text, "newer version") {
		t.Errorf("a queue that cannot be read is shown as\n%s", text)
	}
}

// TestAnySize: what is drawn has the width of the screen, whatever names and labels there are, and however small it is.
func TestAnySize(t *testing.T) {
	m := newModel("store", "")
	emoji := strings.Repeat("👩‍👧", 28) + strings.Repeat("日", 20)
	m.receive([]holdfast.Queue{
		queue(emoji, emoji, time.Minute, time.Minute, 3), queue("\x1b[31m\n\x00", "a\tb", time.Minute, time.Minute, 0),
		queue(strings.Repeat("x", 512), "", 1000*time.Hour, time.Minute, 0),
	}, nil, noon)
	m.selected = emoji
	for _, view := range []view{viewTable, viewDetail, viewHelp} {
		m.view, m.detail = view, emoji
		for width := 1; width < 200; width++ {
			text := drawn(t, m, width, 3+width/5)
			if strings.Contains(text, "\x1b") {
				t.Fatalf("a control character is drawn in\n%q", text)
			}
			if small := width < leastWidth; small != strings.HasPrefix(text, fit("terminal too small", width)) {
				t.Fatalf("at a width of %d:\n%s", width, text)
			}
		}
	}
}

// TestBlocking: a queue's holder waits elsewhere, where the holder waits in turn for the first. The detail view shows
// the chain, and the circle once two walks have found it.
func TestBlocking(t *testing.T) {
	demand := store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders}
	entry := func(id byte, name, owner string, state store.State, waits ...store.Wait) store.Entry {
		return store.Entry{State: state, Left: time.Minute, Claim: store.Claim{
			ID: store.ID{
				id,
			}, Name: name, Demand: demand, Owner: &store.Owner{ID: owner}, Waits: waits, Ticket: uint64(id),
		}}
	}
	ann, bob := store.Wait{Name: "right", ID: store.ID{3}}, store.Wait{Name: "left", ID: store.ID{4}}
	queues := map[string]store.Queue{
		"left": {
			Name: "left",
			Entries: []store.Entry{
				entry(1, "left", "ann", store.Held, ann),
				entry(4, "left", "bob", store.Waiting, bob),
			},
		},
		"right": {
			Name: "right",
			Entries: []store.Entry{
				entry(2, "right", "bob", store.Held, bob),
				entry(3, "right", "ann", store.Waiting, ann),
			},
		},
	}
	read := func(_ context.Context, name string) (store.Queue, error) { return queues[name], nil }
	first := follow(t.Context(), read, "left", links{})
	if text := strings.Join(first.lines(), "\n"); !strings.Contains(text, "ann waits for right, held by bob") ||
		strings.Contains(text, "DEADLOCK") {
		t.Errorf("after one walk:\n%s", text)
	}
	second := follow(t.Context(), read, "left", first)
	text := strings.Join(second.lines(), "\n")
	for _, want := range []string{
		"DEADLOCK", "ann waits for right, where bob is ahead", "bob waits for left, where ann is ahead",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	failing := follow(t.Context(), func(context.Context, string) (store.Queue, error) {
		return store.Queue{}, errors.New("gone")
	}, "left", second)
	if text := strings.Join(failing.lines(), "\n"); !strings.Contains(text, "cannot be read: gone") {
		t.Errorf("of a store that is gone:\n%s", text)
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1 * time.Second: "?", 0: "0ms", 850 * time.Millisecond: "850ms", 59 * time.Second: "59s",
		200 * time.Second: "3m20s", 59 * time.Minute: "59m", 125 * time.Minute: "2h05m", 30 * time.Hour: "30h",
		100 * 24 * time.Hour: "100d",
	} {
		if got := short(d); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
	}
}
