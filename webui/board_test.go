package webui

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// A player feeds a board with queues, at moments of a clock of its own.
type player struct {
	*board
	now time.Time
}

func newPlayer() *player {
	p := &player{newBoard(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	p.apply(nil, p.now)
	return p
}

// at reports a queue some time later.
func (p *player) at(later time.Duration, name string, entries ...holdfast.Entry) {
	p.now = p.now.Add(later)
	p.apply([]holdfast.Queue{{Name: name, Entries: entries}}, p.now)
}

// last returns the kind and the reason of the last event of a name.
func (p *player) last(name string) (kind, why string) {
	events := p.history.of(name)
	if len(events) == 0 {
		return "", ""
	}
	e := events[len(events)-1]
	return e.Kind, e.Why
}

const ttl = 30 * time.Second

// entry is a claim of an exclusive lock, with a full ttl left.
func entry(ticket uint64, held bool, owner string) holdfast.Entry {
	return holdfast.Entry{
		Token: holdfast.Token(
			ticket << 8,
		), Held: held, Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders, Left: ttl,
		Owner: store.Owner{ID: owner, Label: owner},
	}
}

func held(ticket uint64, owner string) holdfast.Entry { return entry(ticket, true, owner) }

func waiting(ticket uint64, owner string) holdfast.Entry { return entry(ticket, false, owner) }

func left(e holdfast.Entry, left time.Duration) holdfast.Entry { e.Left = left; return e }

// TestEvents derives from the changes of a queue what happened to a claim, and says no more than can be known.
func TestEvents(t *testing.T) {
	a, b := held(1, "a"), waiting(2, "b")
	for name, c := range map[string]struct {
		play      func(p *player)
		kind, why string
	}{
		"granted": {func(p *player) { p.at(0, "x", a) }, granted, ""},
		"queued":  {func(p *player) { p.at(0, "x", a, b) }, queued, ""},
		"released": {func(p *player) { p.at(0, "x", a); p.at(time.Second, "x") }, released,
			"29s before it could expire"},
		"ended, since renewals are not reported": {func(p *player) { p.at(0, "x", a); p.at(ttl, "x") }, ended,
			"the store does not report which"},
		"expired": {func(p *player) {
			p.at(0, "x", a)
			p.refresh(holdfast.Queue{Name: "x", Entries: []holdfast.Entry{left(a, time.Second)}},
				p.now.Add(ttl-time.Second))
			p.at(ttl, "x")
		}, expired, "1s were left"},
		"not expired, since it was renewed": {func(p *player) {
			p.at(0, "x", a)
			p.refresh(holdfast.Queue{Name: "x", Entries: []holdfast.Entry{a}}, p.now.Add(ttl-time.Second))
			p.at(ttl, "x")
		}, released, "29s before"},
		"a late read of a shorter time does not undo a renewal": {func(p *player) {
			p.at(0, "x", a)
			p.refresh(holdfast.Queue{Name: "x", Entries: []holdfast.Entry{a}}, p.now.Add(20*time.Second))
			p.refresh(holdfast.Queue{Name: "x", Entries: []holdfast.Entry{left(a, time.Second)}},
				p.now.Add(10*time.Second))
			p.at(ttl, "x")
		}, released, "20s before"},
		"granted after a wait": {func(p *player) {
			w := b
			w.Since = p.now
			p.at(0, "x", a, w)
			p.at(12*time.Second, "x", held(2, "b"))
		}, granted, "waited 12s"},
		"left the queue": {func(p *player) { p.at(0, "x", a, b); p.at(time.Second, "x", a) }, leftQueue, ""},
		"lost": {func(p *player) { p.at(0, "x", a); p.at(time.Second, "x", waiting(1, "a")) }, lost,
			"waiting again"},
		"handed over": {func(p *player) {
			next := a
			next.Token++
			p.at(0, "x", a)
			p.at(time.Second, "x", next)
		}, handedOver, "inside its process"},
		"downgraded": {func(p *player) {
			less := a
			less.Units = 1
			p.at(0, "x", a)
			p.at(time.Second, "x", less)
		}, shrunk, "to 1 units"},
		"broken here": {func(p *player) {
			p.at(0, "x", a)
			p.broken[claimKey{"x", 1}] = "10.0.0.9:1234"
			p.at(time.Second, "x")
		}, brokenHere, "from 10.0.0.9:1234"},
		"after a failure": {func(p *player) {
			p.at(0, "x", a)
			p.fail(errors.New("gone"), p.now)
			p.at(40*time.Second, "x")
		}, ended, "seen after the store had failed for 40s"},
		"renewals are not events": {func(p *player) { p.at(0, "x", a); p.at(time.Second, "x", left(a, time.Second)) },
			granted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlayer()
			c.play(p)
			if kind, why := p.last("x"); kind != c.kind || !strings.Contains(why, c.why) || c.why == "" && why != "" {
				t.Errorf("%q, %q; want %q, %q", kind, why, c.kind, c.why)
			}
		})
	}
}

// TestUnreadable: a queue that cannot be read is no failure of the store, and is forgotten when it can be read.
func TestUnreadable(t *testing.T) {
	p := newPlayer()
	p.fail(&holdfast.Error{Op: "inspect", Name: "x", Err: store.ErrFormat}, p.now)
	m := newMessage(p.board, p.now)
	if m.Unread != 1 || !strings.Contains(m.UnreadWhy, "x") || m.Failing != "" {
		t.Errorf("%+v", m)
	}
	p.at(0, "x", held(1, "a"))
	if m := newMessage(p.board, p.now); m.Unread != 0 || m.UnreadWhy != "" {
		t.Errorf("%+v", m)
	}
}

// TestFirstBatchHasNoEvents: what was there before the watch began did not happen now.
func TestFirstBatchHasNoEvents(t *testing.T) {
	b := newBoard()
	b.apply([]holdfast.Queue{{Name: "x", Entries: []holdfast.Entry{held(1, "a")}}}, time.Now())
	if events := b.history.of("x"); len(events) != 0 {
		t.Error(events)
	}
}

// TestHistoryIsBounded: neither one name nor all together keep more events than allowed.
func TestHistoryIsBounded(t *testing.T) {
	h := newHistory()
	for i := range maxEvents/maxEventsOfName + 10 {
		for range maxEventsOfName + 5 {
			h.add(fmt.Sprint(i), event{})
		}
	}
	if n := len(h.of("1009")); n != maxEventsOfName || h.total > maxEvents || len(h.of("0")) != 0 ||
		h.recent.Len() != len(h.byName) {
		t.Error(n, h.total, len(h.of("0")), h.recent.Len(), len(h.byName))
	}
}

// TestSums: the sums and the index of owners follow the queues, and nothing is left in the end.
func TestSums(t *testing.T) {
	p := newPlayer()
	many := []holdfast.Entry{held(1, "a")}
	for i := range uint64(40) {
		many = append(many, waiting(2+i, fmt.Sprint("w", i)))
	}
	p.at(0, "x", many...)
	p.at(0, "y", held(1, "a"))
	if p.held != 2 || p.waiting != 40 || !slices.Equal(p.names("a"), []string{"x", "y"}) {
		t.Error(p.held, p.waiting, p.names("a"))
	}
	p.at(0, "x")
	p.at(0, "y")
	rows, gone := p.changes()
	if p.held != 0 || p.waiting != 0 || len(p.owners) != 0 || len(p.queues) != 0 || len(rows) != 0 || len(gone) != 2 {
		t.Error(p.held, p.waiting, p.owners, rows, gone)
	}
}

// TestTree: a waits for y, which b holds, while c waits for x, which a holds. So b is the root, also for x.
func TestTree(t *testing.T) {
	p := newPlayer()
	p.at(0, "y", held(1, "b"), waiting(2, "a"))
	p.at(0, "x", held(3, "a"), waiting(4, "c"))
	tree := p.tree("x")
	if len(tree) != 1 || !tree[0].Root || tree[0].Name != "y" || tree[0].Holders[0].ID != "b" {
		t.Fatalf("%+v", tree)
	}
	a := tree[0].Waiters[0]
	if a.Owner.ID != "a" || len(a.Blocks) != 1 || a.Blocks[0].Name != "x" || a.Blocks[0].Waiters[0].Owner.ID != "c" {
		t.Errorf("%+v", a)
	}
	if links := p.detail("x", p.now).Entries[0].Also; len(links) != 1 || links[0] != (linkJSON{"y", false}) {
		t.Error(links)
	}
}

// TestTreeIsBounded: a long chain and a long queue are cut, and the rest is counted.
func TestTreeIsBounded(t *testing.T) {
	p := newPlayer()
	for i := range uint64(1000) {
		p.at(0, fmt.Sprint("chain", i), held(1, fmt.Sprint("o", i)), waiting(2, fmt.Sprint("o", i+1)))
	}
	names := 0
	var count func(*blockJSON)
	count = func(b *blockJSON) {
		names++
		for _, w := range b.Waiters {
			for _, below := range w.Blocks {
				count(below)
			}
		}
	}
	for _, tree := range p.tree("chain0") {
		count(tree)
	}
	if names == 0 || names > maxTreeNames {
		t.Errorf("%d names", names)
	}
	crowd := []holdfast.Entry{held(1, "a")}
	for i := range uint64(600) {
		crowd = append(crowd, waiting(2+i, ""))
	}
	p.at(0, "crowd", crowd...)
	d := p.detail("crowd", p.now)
	if tree := d.Tree[0]; len(tree.Waiters) != maxTreeWaiters || tree.Hidden != 600-maxTreeWaiters ||
		len(d.Entries) != maxEntries ||
		d.Waiters != 600 {
		t.Error(len(tree.Waiters), tree.Hidden, len(d.Entries), d.Waiters)
	}
}

// TestDeadlock: a and b wait for each other. It is reported when two searches have found it, and gone with its end.
func TestDeadlock(t *testing.T) {
	p := newPlayer()
	p.at(0, "x", held(1, "a"), waiting(4, "b"))
	p.at(0, "y", held(2, "b"), waiting(3, "a"))
	p.at(0, "z", held(5, "c"), waiting(6, "d"))
	if again, changed := p.searchDeadlocks(); !again || changed {
		t.Error("one search is enough", again, changed)
	}
	if again, changed := p.searchDeadlocks(); again || !changed || len(p.knots) != 1 {
		t.Fatal("two searches are not enough", again, changed, p.knots)
	}
	if !p.queues["x"].dead || !p.queues["y"].dead || p.queues["z"].dead {
		t.Error("the wrong queues are marked")
	}
	d := p.detail("x", p.now)
	if len(d.Deadlocks) != 1 || len(d.Deadlocks[0]) != 2 || d.Tree[0].Root || len(p.detail("z", p.now).Deadlocks) != 0 {
		t.Errorf("%+v", d)
	}
	p.at(time.Second, "y", held(2, "b"))
	if _, changed := p.searchDeadlocks(); !changed || len(p.knots) != 0 || p.queues["x"].dead {
		t.Error("it is still there", p.knots)
	}
}

// TestNotes: what can be refused or held back follows from the queue.
func TestNotes(t *testing.T) {
	semaphore := held(1, "a")
	semaphore.Kind, semaphore.Units, semaphore.Limit = store.Semaphore, 1, 3
	since := held(1, "a")
	since.Since = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		entries []holdfast.Entry
		later   time.Duration
		want    []string
	}{
		"lock":      {[]holdfast.Entry{since}, 0, []string{"semaphore of this name are refused"}},
		"semaphore": {[]holdfast.Entry{semaphore}, 0, []string{"semaphore of 3", "another library"}},
		"no holder": {[]holdfast.Entry{waiting(1, "a")}, 0, []string{"startup delay"}},
		"no renewal": {[]holdfast.Entry{since}, ttl + time.Second, []string{"semaphore of this name",
			"token 256 was not renewed"}},
	} {
		p := newPlayer()
		p.at(0, "x", c.entries...)
		if c.later > 0 {
			p.refresh(holdfast.Queue{Name: "x", Entries: []holdfast.Entry{left(since, time.Second)}},
				p.now.Add(ttl-time.Second))
		}
		got := p.detail("x", p.now.Add(c.later)).Notes
		if len(got) != len(c.want) {
			t.Errorf("%s: %q", name, got)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], c.want[i]) {
				t.Errorf("%s: %q, want %q", name, got[i], c.want[i])
			}
		}
	}
}

// TestWithoutSecrets: a URL in a command has nothing that may be a secret, and still works.
func TestWithoutSecrets(t *testing.T) {
	for url, want := range map[string]string{
		"redis://h:6379":                                     "redis://h:6379",
		"redis://:secret@h:6379?prefix=a%2F":                 "redis://h:6379?prefix=a%2F",
		"postgres://alice:secret@h/db?sslmode=disable":       "postgres://alice@h/db?sslmode=disable",
		"redis://secret@h":                                   "redis://h",
		"redis+sentinel://h/m?sentinel-password=secret&db=2": "redis+sentinel://h/m?db=2",
		"sqlite:/var/lib/locks.db":                           "sqlite:/var/lib/locks.db",
		"etcd://h1,h2?unknown=secret":                        "etcd://h1,h2",
	} {
		at, err := store.ParseLocation(url)
		if err != nil {
			t.Fatal(err)
		}
		if got := withoutSecrets(at); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
		masked, err := store.ParseLocation(at.String())
		if err != nil {
			t.Fatal(err)
		}
		if got := withoutSecrets(masked); got != want {
			t.Errorf("%s, masked: %s, want %s", url, got, want)
		}
	}
}
