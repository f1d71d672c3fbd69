package holdfast_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

// turnOf is how often a lease's claim was handed on inside its process.
func turnOf(l *holdfast.Lease) int { return int(l.Token() & 0x7f) }

// A diary notes who held a lock, in order, and finds two who hold it at once and tokens that do not rise.
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

// spells is how many holders in a row each had.
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

func (r *rig) line(c *holdfast.Client, name string) holdfast.Line {
	r.Helper()
	line, err := c.Inspect(r.Context(), name)
	if err != nil {
		r.Fatal(err)
	}
	return line
}

// beginMany starts Locks that queue in this order.
func (r *rig) beginMany(n int, lock locker) (calls []*call) {
	for range n {
		calls = append(calls, r.begin(lock))
	}
	return calls
}

func TestHandOverTokensRiseHereAndThere(t *testing.T) {
	for _, hold := range []time.Duration{time.Microsecond, 100 * time.Microsecond, 2 * time.Millisecond} {
		t.Run(hold.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
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
				r.nobodyStands("x")
			})
		})
	}
}

func TestHandOverSavesCalls(t *testing.T) {
	const goroutines, each = 64, 50
	for name, test := range map[string]struct {
		options []holdfast.Option
		check   func(joins, leaves int64) bool
	}{
		"on":  {nil, func(joins, leaves int64) bool { return joins == leaves && joins <= goroutines*each/32 }},
		"off": {[]holdfast.Option{holdfast.HandOver(0, 0)}, func(joins, leaves int64) bool { return joins == goroutines*each && leaves == joins }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
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
		{"3 turns", []holdfast.Option{holdfast.HandOver(3, time.Second)}, ms, 3},
		{"20 ms", []holdfast.Option{holdfast.HandOver(127, 20*ms)}, ms, 20},
		{"as many as there can be", []holdfast.Option{holdfast.HandOver(127, time.Second)}, 0, 127},
		{"one turn", []holdfast.Option{holdfast.HandOver(1, time.Second)}, ms, 1},
		{"no time", []holdfast.Option{holdfast.HandOver(10, 0)}, 0, 1},
		{"strict order", []holdfast.Option{holdfast.HandOver(0, 0)}, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
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
				r.nobodyStands("x")
			})
		})
	}
}

func TestHandOverBadValues(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for _, option := range []holdfast.Option{
			holdfast.HandOver(-1, time.Second), holdfast.HandOver(holdfast.MaxTurns+1, time.Second), holdfast.HandOver(1, -1),
		} {
			if _, err := r.client().Mutex("x", option).Lock(t.Context()); !errors.Is(err, holdfast.ErrBadOption) {
				t.Errorf("for a lock: got %v", err)
			}
			if _, err := r.client(option).RWMutex("x").Lock(t.Context()); !errors.Is(err, holdfast.ErrBadOption) {
				t.Errorf("for a client: got %v", err)
			}
		}
		r.unlock(r.lock(r.client().Mutex("x", holdfast.HandOver(holdfast.MaxTurns, 0)).Lock))
	})
}

func TestHandOverStandby(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, n := r.counted()
		b := r.client()
		// One turn: it queues in the process, and each claim is held once.
		m := a.Mutex("x", holdfast.Label("a"), holdfast.HandOver(1, time.Second))
		labels := func() (found []string) {
			for _, p := range r.line(b, "x").Places {
				found = append(found, p.Owner.Label)
			}
			return found
		}
		expect := func(when string, joins, leaves int64, line ...string) {
			t.Helper()
			if synctest.Wait(); n.joins.Load() != joins || n.leaves.Load() != leaves || !slices.Equal(labels(), line) {
				t.Errorf("%s: %d joins, %d leaves, line %v; want %d, %d, %v", when, n.joins.Load(), n.leaves.Load(), labels(),
					joins, leaves, line)
			}
		}
		first := r.lock(m.Lock)
		expect("alone", 1, 0, "a")
		other := r.begin(b.Mutex("x", holdfast.Label("b")).Lock)
		waiters := r.beginMany(5, m.Lock)
		expect("others wait", 2, 0, "a", "b", "a")
		late := r.begin(b.Mutex("x", holdfast.Label("b"), holdfast.HandOver(0, 0)).Lock)
		expect("another process comes later", 2, 0, "a", "b", "a", "b")
		r.unlock(first)
		expect("after the switch", 2, 1, "b", "a", "b")
		r.unlock(other.lease)
		expect("the standby is held, and there is a new one", 3, 1, "a", "b", "a")
		if !waiters[0].holds() || late.done() {
			t.Fatal("it is not the turn of the first that waited here")
		}
		r.unlock(waiters[0].lease)
		expect("the other's turn", 3, 2, "b", "a")
		r.unlock(late.lease)
		for _, w := range waiters[1:] {
			if synctest.Wait(); !w.holds() {
				t.Fatal("not in order of arrival")
			}
			r.unlock(w.lease)
		}
		expect("at the end", 6, 6)
	})
}

// A standby that is taken away, or cannot be sent, costs a place and nothing else.
func TestHandOverWithoutStandby(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.client(), r.client()
		first := r.lock(a.Mutex("x").Lock)
		waiters := r.beginMany(2, a.Mutex("x").Lock)
		standby := r.line(b, "x").Waiters()[0]
		if err := b.Break(t.Context(), "x", standby.Token); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Second)
		if first.Err() != nil || waiters[0].done() {
			t.Fatal("the holder or a waiter was told of the standby")
		}
		r.unlock(first)
		for _, w := range waiters {
			if r.pass(time.Second); !w.holds() {
				t.Fatal("it did not go on")
			}
			r.unlock(w.lease)
		}
		r.nobodyStands("x")
	})
}
