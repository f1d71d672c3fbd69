package holdfast_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// A modelLease is a lease as the model sees it.
type modelLease struct {
	who   string
	name  string
	token holdfast.Token
	units int
	limit int
	again bool         // re-entered: a further lease of the same claim
	alone bool         // it must not have been handed over
	err   func() error // what the lease says of itself
	over  error        // what it said when it was first found to be over
}

// A modelNote is something that happened. It is written out only when a program fails.
type modelNote struct {
	at   time.Duration
	who  string
	what string
	args []any
}

// A modelBook is the model. It learns of every grant, and of everything that removes a claim behind its holder's
// back, and checks what leases report against the rule of the queue.
type modelBook struct {
	mu        sync.Mutex
	began     time.Time
	held      map[string][]*modelLease
	last      map[string]holdfast.Token // the last exclusive one of each name
	forgotten uint64                    // tickets up to this one were lost with the server's data
	robbed    map[uint64]bool           // tickets of claims that were taken away
	wrong     []string
	stopped   bool // what comes now is the end of a program that failed
	notes     []modelNote
	seen      map[string]int // how often what happened
}

func newModelBook() *modelBook {
	return &modelBook{
		began: time.Now(), held: map[string][]*modelLease{}, last: map[string]holdfast.Token{},
		robbed: map[uint64]bool{},
		seen:   map[string]int{},
	}
}

func (b *modelBook) note(who, what string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteLocked(who, what, args...)
}

func (b *modelBook) noteLocked(who, what string, args ...any) {
	b.notes = append(b.notes, modelNote{time.Since(b.began), who, what, args})
}

func (b *modelBook) violated(who, what string, args ...any) {
	if b.stopped {
		return
	}
	b.wrong = append(b.wrong, fmt.Sprintf(what, args...))
	b.noteLocked(who, "WRONG: "+what, args...)
}

// complain is violated for callers that do not hold mu.
func (b *modelBook) complain(who, what string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.violated(who, what, args...)
}

func (b *modelBook) count(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen[what]++
}

// isRobbed reports whether the store may have granted the lock to others while the claim's holder believes in it.
func (b *modelBook) isRobbed(t holdfast.Token) bool {
	return t.Ticket() <= b.forgotten || b.robbed[t.Ticket()]
}

// rob is for what takes a claim away behind its holder's back.
func (b *modelBook) rob(ticket uint64, who, what string, do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.robbed[ticket] = true
	b.seen[what]++
	b.noteLocked(who, "%s ticket %d", what, ticket)
	do()
}

// forget is for a server that loses its data. Its tickets begin with the clock, so that those of before are lower.
func (b *modelBook) forget(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgotten = uint64(time.Now().UnixMicro())
	b.seen["restart without data"]++
	b.noteLocked("faults", "restart without data, at ticket %d", b.forgotten)
	do()
}

// grant records every lease as soon as it was acquired.
func (b *modelBook) grant(h *modelLease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.audit()
	err := h.err()
	b.noteLocked(h.who, "got %q: ticket %d, turn %d, shared %v, again %v, %d units, says %v", h.name, h.token.Ticket(),
		h.token&0x7f,
		h.token.Shared(), h.again, h.units, err)
	b.held[h.name] = append(b.held[h.name], h)
	turn := h.token & 0x7f
	if turn > 0 {
		b.seen["handed over"]++
	}
	if h.alone && turn > 0 {
		b.violated(h.who, "%q was handed over to one who must not take part: turn %d", h.name, turn)
	}
	if err != nil || b.isRobbed(h.token) {
		return
	}
	b.checkLine(h)
	b.checkOrder(h)
}

// checkLine is the rule: an exclusive holder is alone, and units never exceed the limit.
func (b *modelBook) checkLine(h *modelLease) {
	units := map[uint64]int{h.token.Ticket(): h.units}
	for _, o := range b.held[h.name] {
		if o == h || o.err() != nil || b.isRobbed(o.token) {
			continue
		}
		switch {
		case o.token.Ticket() != h.token.Ticket():
			if !o.token.Shared() || !h.token.Shared() {
				b.violated(h.who, "two hold %q: %s with %v, and %s with %v", h.name, o.who, o.token, h.who, h.token)
			}
		case o.token != h.token:
			b.violated(h.who, "a claim of %q has two tokens: %s has %v, and %s has %v", h.name, o.who, o.token, h.who,
				h.token)
		case !h.again:
			b.violated(h.who, "a claim of %q was given twice: to %s and to %s, with %v", h.name, o.who, h.who, h.token)
		}
		units[o.token.Ticket()] = max(units[o.token.Ticket()], o.units)
	}
	sum := 0
	for _, n := range units {
		sum += n
	}
	if sum > h.limit && h.token.Shared() {
		b.violated(h.who, "%d units of %q are held, of %d", sum, h.name, h.limit)
	}
}

// checkOrder looks at tokens: those of exclusive leases rise, and a shared one is not below them.
func (b *modelBook) checkOrder(h *modelLease) {
	last := b.last[h.name]
	switch {
	case h.token.Shared():
		if h.token.Ticket() < last.Ticket() {
			b.violated(h.who, "shared token %v of %q after the exclusive %v", h.token, h.name, last)
		}
	case h.again:
		if h.token != last {
			b.violated(h.who, "%q was re-entered with %v, and the last one was %v", h.name, h.token, last)
		}
	case h.token <= last:
		b.violated(h.who, "token %v of %q after %v", h.token, h.name, last)
	default:
		b.last[h.name] = h.token
	}
}

// audit checks that what is over stays over.
func (b *modelBook) audit() {
	for _, name := range slices.Sorted(maps.Keys(b.held)) {
		for _, h := range b.held[name] {
			err := h.err()
			if h.over != nil && err == nil {
				b.violated(h.who, "the lease %v of %q came back to life after %v", h.token, name, h.over)
			}
			if h.over == nil {
				h.over = err
			}
		}
	}
}

// story is all that happened.
func (b *modelBook) story() string {
	var s strings.Builder
	for _, n := range b.notes {
		fmt.Fprintf(&s, "%12v  %-8s %s\n", n.at, n.who, fmt.Sprintf(n.what, n.args...))
	}
	return s.String()
}

// TestModelFindsWhatIsBroken shows the model histories of locks that do not work.
func TestModelFindsWhatIsBroken(t *testing.T) {
	const full = store.MaxReaders
	alive, dead := func() error { return nil }, func() error { return holdfast.ErrLost }
	token := func(ticket, turn uint64) holdfast.Token { return holdfast.Token(ticket<<8 | turn) }
	shared := func(ticket uint64) holdfast.Token { return token(ticket, 0x80) }
	writer := func(t holdfast.Token, err func() error) *modelLease {
		return &modelLease{name: "x", token: t, units: full, limit: full, err: err}
	}
	reader := func(ticket uint64, err func() error) *modelLease {
		return &modelLease{name: "x", token: shared(ticket), units: 1, limit: full, err: err}
	}
	units := func(ticket uint64, n int) *modelLease {
		return &modelLease{name: "x", token: shared(ticket), units: n, limit: 3, err: alive}
	}
	again := func(h *modelLease) *modelLease { h.again = true; return h }
	alone := func(h *modelLease) *modelLease { h.alone = true; return h }
	asked := 0
	undead := func() error { // over at the second call, and held again at the third
		if asked++; asked == 2 {
			return holdfast.ErrLost
		}
		return nil
	}
	for name, test := range map[string]struct {
		history []*modelLease
		before  func(*modelBook)
		wrong   string // empty: nothing is
	}{
		"two exclusive holders": {[]*modelLease{writer(token(5, 0), alive), writer(token(6, 0), alive)},
			nil, "two hold"},
		"a writer beside a reader": {[]*modelLease{reader(5, alive), writer(token(6, 0), alive)}, nil,
			"two hold"},
		"a reader beside a writer": {[]*modelLease{writer(token(5, 0), alive), reader(6, alive)}, nil,
			"two hold"},
		"one claim handed over too early": {[]*modelLease{writer(token(5, 0), alive), writer(token(5, 1), alive)},
			nil, "two tokens"},
		"one claim given twice": {[]*modelLease{writer(token(5, 0), alive), writer(token(5, 0), alive)},
			nil, "given twice"},
		"a ticket that goes back": {[]*modelLease{writer(token(6, 0), dead), writer(token(6, 1), alive),
			writer(token(5, 0), alive)}, nil, "token"},
		"a turn that goes back": {[]*modelLease{writer(token(6, 2), overOnceSeen()),
			writer(token(6, 1), alive)}, nil, "token"},
		"the same token again": {[]*modelLease{writer(token(6, 2), overOnceSeen()),
			writer(token(6, 2), alive)}, nil, "token"},
		"a reader from before": {[]*modelLease{writer(token(6, 0), overOnceSeen()), reader(5, alive)}, nil,
			"shared token"},
		"units over the limit":        {[]*modelLease{units(5, 2), units(6, 2)}, nil, "units"},
		"units over the limit, three": {[]*modelLease{units(5, 1), units(6, 1), units(7, 2)}, nil, "units"},
		"one that comes back to life": {[]*modelLease{writer(token(5, 0), undead), reader(6, dead),
			reader(7, dead)}, nil, "came back"},
		"re-entered after another": {[]*modelLease{writer(token(5, 0), overOnceSeen()),
			writer(token(6, 0), overOnceSeen()), again(writer(token(5, 0), alive))}, nil, "re-entered"},
		"handed over to one who must not": {[]*modelLease{alone(writer(token(5, 1), alive))}, nil,
			"must not take part"},
		"right: one after the other": {[]*modelLease{writer(token(5, 0), overOnceSeen()),
			writer(token(5, 1), overOnceSeen()), writer(token(6, 0), alive)}, nil, ""},
		"right: re-entered": {[]*modelLease{writer(token(5, 0), alive),
			again(writer(token(5, 0), alive))}, nil, ""},
		"right: readers together": {[]*modelLease{writer(token(5, 0), overOnceSeen()), reader(5, alive),
			reader(6, alive)}, nil, ""},
		"right: units": {[]*modelLease{units(5, 2), units(6, 1), again(units(6, 1))}, nil, ""},
		"right: it was robbed": {[]*modelLease{writer(token(5, 0), alive), writer(token(6, 0), alive)},
			func(b *modelBook) { b.robbed[5] = true }, ""},
		"right: the server forgot": {[]*modelLease{writer(token(5, 0), alive), writer(token(6, 0), alive)},
			func(b *modelBook) { b.forgotten = 5 }, ""},
		"two that came after what was lost": {[]*modelLease{writer(token(5, 0), alive), writer(token(6, 0), alive)},
			func(b *modelBook) { b.forgotten = 4 }, "two hold"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newModelBook()
			if test.before != nil {
				test.before(b)
			}
			for _, h := range test.history {
				b.grant(h)
			}
			found := strings.Join(b.wrong, "\n")
			if (found == "") != (test.wrong == "") || !strings.Contains(found, test.wrong) {
				t.Errorf("found %q, want %q\n%s", found, test.wrong, b.story())
			}
		})
	}
}

// overOnceSeen is the Err of a lease that is over as soon as it was granted and checked once.
func overOnceSeen() func() error {
	asked := 0
	return func() error {
		if asked++; asked == 1 {
			return nil
		}
		return holdfast.ErrNotHeld
	}
}
