package holdfast_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

// turnOf is how often a lease's claim was handed on inside its process.
func turnOf(l *holdfast.Lease) int { return int(l.Token() & 0x7f) }

// A diary records the holders of a lock in order, and finds two at once and tokens that do not rise.
type diary struct {
	*testing.T
	mu     sync.Mutex
	who    []string
	tokens []holdfast.Token
	last   *holdfast.Lease
	held   map[string]time.Duration
}

func (d *diary) enter(who string, l *holdfast.Lease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := l.Err(); err != nil {
		d.Errorf("%s was given a lease that is over: %v", who, err)
	}
	if d.last != nil && d.last.Err() == nil {
		d.Errorf("two hold it: %v and %v", d.last.Token(), l.Token())
	}
	if d.last != nil && l.Token() <= d.last.Token() {
		d.Errorf("token %v after %v", l.Token(), d.last.Token())
	}
	d.who, d.tokens, d.last = append(d.who, who), append(d.tokens, l.Token()), l
}

// work takes a lock, holds it for a while and gives it back.
func (d *diary) work(who string, lock locker, hold time.Duration) {
	l, err := lock(d.Context())
	if err != nil {
		d.Errorf("%s: %v", who, err)
		return
	}
	d.enter(who, l)
	if hold > 0 {
		time.Sleep(hold)
	}
	d.mu.Lock()
	if d.held == nil {
		d.held = map[string]time.Duration{}
	}
	d.held[who] += hold
	d.mu.Unlock()
	if err := l.Unlock(d.Context()); err != nil {
		d.Errorf("%s: %v", who, err)
	}
}

// spells returns how many times in a row each client held the lock.
func (d *diary) spells() (counts []int) {
	for i, who := range d.who {
		if i > 0 && who == d.who[i-1] {
			counts[len(counts)-1]++
		} else {
			counts = append(counts, 1)
		}
	}
	return counts
}

func TestHandOverTokensRiseHereAndThere(t *testing.T) {
	for _, hold := range []time.Duration{time.Microsecond, 100 * time.Microsecond, 2 * time.Millisecond} {
		scene(t, hold.String(), func(t *testing.T, r *rig) {
			d := &diary{T: t}
			var wg sync.WaitGroup
			for _, who := range []string{"a", "b"} {
				c := r.client()
				for range 6 {
					wg.Go(func() {
						for range 30 {
							d.work(who, c.Mutex("x").Lock, hold)
						}
					})
				}
			}
			wg.Wait()
			local, remote := 0, 0
			for i, token := range d.tokens[1:] {
				if token.Ticket() == d.tokens[i].Ticket() {
					local++
				} else if d.who[i] != d.who[i+1] {
					remote++
				}
			}
			if len(d.tokens) != 360 || local == 0 || remote == 0 {
				t.Errorf("%d leases, %d handed over here, %d there", len(d.tokens), local, remote)
			}
			r.nothingRemains("x")
		})
	}
}

func TestHandOverSavesCalls(t *testing.T) {
	const goroutines, each = 64, 50
	for name, test := range map[string]struct {
		options []holdfast.Option
		check   func(joins, leaves int64) bool
	}{
		"on": {nil, func(joins, leaves int64) bool { return joins == leaves && joins <= goroutines*each/32 }},
		"off": {[]holdfast.Option{holdfast.WithHandOver(0, 0)},
			func(joins, leaves int64) bool { return joins == goroutines*each && leaves == joins }},
	} {
		scene(t, name, func(t *testing.T, r *rig) {
			c, n := r.counted()
			m := c.Mutex("x", test.options...)
			d := &diary{T: t}
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					for range each {
						d.work("a", m.Lock, time.Microsecond)
					}
				})
			}
			wg.Wait()
			r.pass(time.Second)
			if joins, leaves := n.joins.Load(), n.leaves.Load(); !test.check(joins, leaves) {
				t.Errorf("%d locks cost %d joins and %d leaves", goroutines*each, joins, leaves)
			}
		})
	}
}

// TestHandOverBounds: A holds, B waits, then many more of A. B comes in after one spell of A, of as many turns as
// the bounds say, and after that A has spells of the same length.
func TestHandOverBounds(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		name    string
		options []holdfast.Option
		hold    time.Duration
		spell   int
	}{
		{"64 turns", nil, 0, 64},
		{"5 ms", nil, ms, 5},
		{"5 ms, with a hold longer than that", nil, 7 * ms, 1},
		{"5 ms, not a whole number of holds", nil, 2 * ms, 3},
		{"3 turns", []holdfast.Option{holdfast.WithHandOver(3, time.Second)}, ms, 3},
		{"20 ms", []holdfast.Option{holdfast.WithHandOver(127, 20*ms)}, ms, 20},
		{"as many as there can be", []holdfast.Option{holdfast.WithHandOver(127, time.Second)}, 0, 127},
		{"one turn", []holdfast.Option{holdfast.WithHandOver(1, time.Second)}, ms, 1},
		{"no time", []holdfast.Option{holdfast.WithHandOver(10, 0)}, 0, 1},
		{"strict order", []holdfast.Option{holdfast.WithHandOver(0, 0)}, 0, 1},
	} {
		scene(t, test.name, func(t *testing.T, r *rig) {
			a, b := r.client(), r.client()
			m := a.Mutex("x", test.options...)
			d := &diary{T: t}
			first := r.lock(m.Lock)
			d.enter("a", first)
			began, waited := time.Now(), time.Duration(0)
			var wg sync.WaitGroup
			wg.Go(func() {
				d.work("b", b.Mutex("x").Lock, 0)
				waited = time.Since(began)
			})
			synctest.Wait()
			others := 2*test.spell + 1
			for range others {
				wg.Go(func() { d.work("a", m.Lock, test.hold) })
			}
			synctest.Wait()
			if test.hold > 0 {
				time.Sleep(test.hold)
			}
			r.unlock(first)
			wg.Wait()
			if spells := d.spells(); spells[0] != test.spell || len(spells) != 3 {
				t.Errorf("spells of %v, want the first to be %d", spells, test.spell)
			}
			if want := time.Duration(test.spell) * test.hold; waited != want {
				t.Errorf("b waited for %v, want %v", waited, want)
			}
			claims := map[uint64]int{}
			for i, token := range d.tokens {
				if d.who[i] == "a" {
					claims[token.Ticket()]++
				}
			}
			for ticket, n := range claims {
				if n > test.spell {
					t.Errorf("claim %d was held %d times", ticket, n)
				}
			}
			r.nothingRemains("x")
		})
	}
}
