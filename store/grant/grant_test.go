package grant_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/grant"
)

// sem returns the demand for units of a semaphore.
func sem(units, limit int32) store.Demand {
	return store.Demand{Kind: store.Semaphore, Units: units, Limit: limit}
}

var (
	reader = store.Demand{Kind: store.Lock, Units: 1, Limit: store.MaxReaders}
	writer = store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders}
)

func TestHeld(t *testing.T) {
	for _, c := range []struct {
		about string
		line  []store.Demand
		held  int
	}{
		{"nobody", nil, 0},
		{"a writer holds alone", []store.Demand{writer, writer, reader}, 1},
		{"readers hold together up to a writer, who stops later ones", []store.Demand{reader, reader, writer, reader},
			2},
		{"units add up", []store.Demand{sem(2, 5), sem(3, 5), sem(1, 5)}, 2},
		{"nobody overtakes one who does not fit", []store.Demand{sem(3, 5), sem(3, 5), sem(1, 5)}, 1},
		{"a larger limit admits more", []store.Demand{sem(5, 5), sem(1, 6), sem(1, 7)}, 3},
		{"a smaller limit counts what is held", []store.Demand{sem(3, 5), sem(1, 3), sem(1, 5)}, 1},
		{"a smaller limit that is met ends nothing", []store.Demand{sem(1, 5), sem(1, 2), sem(1, 5)}, 3},
		{"another kind ends the prefix and is not skipped", []store.Demand{reader, sem(1, store.MaxReaders), reader},
			1},
		{"one who demands for more than there is stands in the way", []store.Demand{sem(6, 5), sem(1, 5)}, 0},
	} {
		if got := grant.Held(slices.Values(c.line)); got != c.held {
			t.Errorf("%s: %d held, want %d", c.about, got, c.held)
		}
	}
}

// plainHeld is the rule again, in its slowest and most obvious form.
func plainHeld(demands []store.Demand) int {
	for n := len(demands); n > 0; n-- {
		used := 0
		fits := true
		for _, a := range demands[:n] {
			used += int(a.Units)
			fits = fits && a.Kind == demands[0].Kind && used <= int(a.Limit)
		}
		if fits {
			return n
		}
	}
	return 0
}

// decode makes a queue of demands from bytes: two for each claim.
func decode(data []byte) []store.Demand {
	var demands []store.Demand
	for ; len(data) >= 2; data = data[2:] {
		a := store.Demand{Kind: store.Kind(data[0]&1 + 1), Limit: 4}
		if data[0]&0x30 == 0x30 {
			a.Limit = 5
		}
		if data[0]&0x0e != 0 { // mostly alike, so that queues get long
			a.Kind = store.Semaphore
		}
		a.Units = int32(data[1])%a.Limit + 1
		demands = append(demands, a)
	}
	return demands
}

// FuzzHeld checks the rule itself on any queue.
func FuzzHeld(f *testing.F) {
	f.Add([]byte{2, 0, 2, 0, 2, 3})
	f.Add([]byte{2, 3, 0x32, 0, 2, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		demands := decode(data)
		if got, want := grant.Held(slices.Values(demands)), plainHeld(demands); got != want {
			t.Fatalf("%d held of %v, want %d", got, demands, want)
		}
	})
}

// FuzzPrefix plays arrivals, departures and downgrades on a queue. After each step it checks that the maintained prefix
// is the one of the rule, and that every claim that was held and has not left is still held.
func FuzzPrefix(f *testing.F) {
	f.Add([]byte{2, 0, 2, 3, 0x81, 0, 2, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		g := game{t: t}
		for ; len(data) >= 2; data = data[2:] {
			switch who := int(data[1]); {
			case data[0]&0x80 == 0:
				g.join(decode(data[:2])[0])
			case len(g.queue) == 0:
			case data[0]&0x40 == 0:
				g.leave(who % len(g.queue))
			default:
				g.shrink(who % len(g.queue))
			}
			g.check()
		}
		g.drain()
	})
}

// TestPrefixAtRandom plays FuzzPrefix's game for many steps with each of many seeds.
func TestPrefixAtRandom(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := game{t: t}
		for range 200 {
			switch n := len(g.queue); {
			case n == 0 || r.IntN(2) == 0:
				g.join(decode([]byte{byte(r.IntN(256)), byte(r.IntN(256))})[0])
			case r.IntN(4) == 0:
				g.shrink(r.IntN(n))
			default:
				g.leave(r.IntN(n))
			}
			if g.check(); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		g.drain()
	}
}

// A game is a queue whose held prefix is maintained.
type game struct {
	t      *testing.T
	queue  []store.Demand
	held   int // how many are held, according to the prefix
	prefix grant.Prefix
}

func (g *game) join(a store.Demand) {
	g.queue = append(g.queue, a)
	g.admit()
}

func (g *game) leave(i int) {
	if i < g.held {
		g.prefix.Remove(g.queue[i])
		g.held--
	}
	g.queue = slices.Delete(g.queue, i, i+1)
	g.admit()
}

func (g *game) shrink(i int) {
	less := g.queue[i].Units - 1
	if less < 1 {
		return
	}
	if i < g.held {
		g.prefix.Shrink(g.queue[i].Units - less)
	}
	g.queue[i].Units = less
	g.admit()
}

func (g *game) admit() {
	for g.held < len(g.queue) && g.prefix.Admit(g.queue[g.held]) {
		g.held++
	}
}

// check compares with the rule. Held grows only by admit and shrinks only when a holder itself leaves. If it is right
// after every step, no claim has ever lost its hold by what other claims did.
func (g *game) check() {
	g.t.Helper()
	if want := plainHeld(g.queue); g.held != want || g.prefix.Held() != want {
		g.t.Errorf("%d held of %v, want %d", g.held, g.queue, want)
	}
}

// drain removes the claims from the front. Each must be held when it is removed: no claim starves.
func (g *game) drain() {
	g.t.Helper()
	for len(g.queue) > 0 {
		if g.held == 0 {
			g.t.Fatalf("%v waits for ever", g.queue[0])
		}
		g.leave(0)
		g.check()
	}
}

// TestTheCheckCatchesSkipping checks that the comparison of the tests above fails for a queue that skips a mismatching
// claim, which is a tempting mistake.
func TestTheCheckCatchesSkipping(t *testing.T) {
	skipping := func(demands []store.Demand) (held int) {
		used := int32(0)
		for _, a := range demands {
			if a.Kind == demands[0].Kind && used+a.Units <= a.Limit {
				used += a.Units
				held++
			}
		}
		return held
	}
	demands := []store.Demand{sem(1, 5), sem(1, 1), sem(1, 5)}
	if skipping(demands) == plainHeld(demands) {
		t.Fatal("the check cannot fail")
	}
}

func ExampleHeld() {
	waiting := []store.Demand{
		{Kind: store.Semaphore, Units: 2, Limit: 5},
		{Kind: store.Semaphore, Units: 3, Limit: 5},
		{Kind: store.Semaphore, Units: 1, Limit: 5},
	}
	fmt.Println(grant.Held(slices.Values(waiting)), "of", len(waiting), "are held")
	// Output: 2 of 3 are held
}

func TestBlocker(t *testing.T) {
	for _, c := range []struct {
		about string
		ahead []store.Demand
		next  store.Demand
		state store.State
		by    int
	}{
		{"an empty queue", nil, writer, store.Held, -1},
		{"a reader beside readers", []store.Demand{reader, reader}, reader, store.Held, -1},
		{"a writer waits for the last", []store.Demand{writer, reader, reader}, writer, store.Waiting, 2},
		{"a reader waits for the last writer", []store.Demand{writer, writer, reader}, reader, store.Waiting, 1},
		{"a reader behind a semaphore", []store.Demand{sem(1, 5), reader}, reader, store.Waiting, 0},
		{"all of a semaphore", []store.Demand{sem(1, 5), sem(1, 5)}, sem(5, 5), store.Waiting, 1},
		{"a part of a semaphore waits for any change", []store.Demand{sem(5, 5)}, sem(1, 5), store.Waiting, -1},
	} {
		state, by := grant.Blocker(len(c.ahead), func(i int) store.Demand { return c.ahead[i] }, c.next)
		if state != c.state || by != c.by {
			t.Errorf("%s: %v, index %d; want %v, %d", c.about, state, by, c.state, c.by)
		}
	}
}
