package grant_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/grant"
)

// sem asks for units of a semaphore.
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
		{"readers hold together up to a writer, who stops later ones", []store.Demand{reader, reader, writer, reader}, 2},
		{"units add up", []store.Demand{sem(2, 5), sem(3, 5), sem(1, 5)}, 2},
		{"nobody overtakes one who does not fit", []store.Demand{sem(3, 5), sem(3, 5), sem(1, 5)}, 1},
		{"another limit ends the prefix and is not skipped", []store.Demand{sem(1, 5), sem(1, 6), sem(1, 5)}, 1},
		{"another kind ends the prefix and is not skipped", []store.Demand{reader, sem(1, store.MaxReaders), reader}, 1},
		{"one who asks for more than there is stands in the way", []store.Demand{sem(6, 5), sem(1, 5)}, 0},
	} {
		if got := grant.Held(slices.Values(c.line)); got != c.held {
			t.Errorf("%s: %d held, want %d", c.about, got, c.held)
		}
	}
}

// plainHeld is the rule again, written the slowest way that could be right.
func plainHeld(asks []store.Demand) int {
	for n := len(asks); n > 0; n-- {
		used := 0
		fits := true
		for _, a := range asks[:n] {
			used += int(a.Units)
			fits = fits && a.Kind == asks[0].Kind && a.Limit == asks[0].Limit && used <= int(a.Limit)
		}
		if fits {
			return n
		}
	}
	return 0
}

// decode makes a line of asks from bytes: two for each claim.
func decode(data []byte) []store.Demand {
	var asks []store.Demand
	for ; len(data) >= 2; data = data[2:] {
		a := store.Demand{Kind: store.Kind(data[0]&1 + 1), Limit: 4}
		if data[0]&0x30 == 0x30 {
			a.Limit = 5
		}
		if data[0]&0x0e != 0 { // mostly alike, so that lines get long
			a.Kind = store.Semaphore
		}
		a.Units = int32(data[1])%a.Limit + 1
		asks = append(asks, a)
	}
	return asks
}

// FuzzHeld checks the rule itself on any line.
func FuzzHeld(f *testing.F) {
	f.Add([]byte{2, 0, 2, 0, 2, 3})
	f.Add([]byte{2, 3, 0x32, 0, 2, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		asks := decode(data)
		if got, want := grant.Held(slices.Values(asks)), plainHeld(asks); got != want {
			t.Fatalf("%d held of %v, want %d", got, asks, want)
		}
	})
}

// FuzzPrefix plays arrivals, departures and downgrades on a line, and checks after each step that the prefix
// which is carried along is the one that the rule gives, and that whoever was held and has not left is held.
func FuzzPrefix(f *testing.F) {
	f.Add([]byte{2, 0, 2, 3, 0x81, 0, 2, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		g := game{t: t}
		for ; len(data) >= 2; data = data[2:] {
			switch who := int(data[1]); {
			case data[0]&0x80 == 0:
				g.join(decode(data[:2])[0])
			case len(g.line) == 0:
			case data[0]&0x40 == 0:
				g.leave(who % len(g.line))
			default:
				g.shrink(who % len(g.line))
			}
			g.check()
		}
		g.drain()
	})
}

// TestPrefixAtRandom is FuzzPrefix's game for many steps on each of many seeds.
func TestPrefixAtRandom(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := game{t: t}
		for range 200 {
			switch n := len(g.line); {
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

// A game is a line whose held prefix is carried along.
type game struct {
	t      *testing.T
	line   []store.Demand
	held   int // how many are held, as the prefix let them in
	prefix grant.Prefix
}

func (g *game) join(a store.Demand) {
	g.line = append(g.line, a)
	g.admit()
}

func (g *game) leave(i int) {
	if i < g.held {
		g.prefix.Remove(g.line[i])
		g.held--
	}
	g.line = slices.Delete(g.line, i, i+1)
	g.admit()
}

func (g *game) shrink(i int) {
	less := g.line[i].Units - 1
	if less < 1 {
		return
	}
	if i < g.held {
		g.prefix.Shrink(g.line[i].Units - less)
	}
	g.line[i].Units = less
	g.admit()
}

func (g *game) admit() {
	for g.held < len(g.line) && g.prefix.Admit(g.line[g.held]) {
		g.held++
	}
}

// check compares with the rule. Held only grows by admit and shrinks by a holder's own leaving, so that it being
// right after every step also says that nobody was ever unheld by what others did.
func (g *game) check() {
	g.t.Helper()
	if want := plainHeld(g.line); g.held != want || g.prefix.Held() != want {
		g.t.Errorf("%d held of %v, want %d", g.held, g.line, want)
	}
}

// drain lets everyone leave from the front. All must have been held by then: nobody starves.
func (g *game) drain() {
	g.t.Helper()
	for len(g.line) > 0 {
		if g.held == 0 {
			g.t.Fatalf("%v waits for ever", g.line[0])
		}
		g.leave(0)
		g.check()
	}
}

// TestTheCheckCatchesSkipping: a line that skips a mismatching claim, as one is tempted to write it, fails the
// comparison that the tests above make.
func TestTheCheckCatchesSkipping(t *testing.T) {
	skipping := func(asks []store.Demand) (held int) {
		used := int32(0)
		for _, a := range asks {
			if !grant.Mismatch(asks[0], a) && used+a.Units <= a.Limit {
				used += a.Units
				held++
			}
		}
		return held
	}
	asks := []store.Demand{sem(1, 5), sem(1, 6), sem(1, 5)}
	if skipping(asks) == plainHeld(asks) {
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
