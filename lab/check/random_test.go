package check

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/history"
)

// A world makes histories of locks that work.
type world struct {
	*rand.Rand
	now    history.Instant
	ticket holdfast.Token
	holds  []history.Hold
}

func correctHistory(seed uint64) []history.Hold {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), now: 1000, ticket: holdfast.Token(1 + seed%3)}
	for i := range 3 {
		w.lock(fmt.Sprint("lock ", i))
		w.semaphore(fmt.Sprint("semaphore ", i))
	}
	w.Shuffle(len(w.holds), func(i, j int) { w.holds[i], w.holds[j] = w.holds[j], w.holds[i] })
	return w.holds
}

// pass lets some time pass, or none.
func (w *world) pass() history.Instant {
	w.now += history.Instant(w.IntN(4))
	return w.now
}

// lock makes a lock's life, in turns: a claim with its hand-overs and perhaps a downgrade, or a crowd of readers.
func (w *world) lock(name string) {
	for range 20 {
		if w.IntN(2) == 0 {
			w.claim(name)
		} else {
			w.readers(name)
		}
		w.pass()
	}
}

func (w *world) nextTicket() holdfast.Token {
	w.ticket += holdfast.Token(1 + w.IntN(3))
	return w.ticket
}

func (w *world) somebody() history.Who {
	return history.Who{
		Process: fmt.Sprint("p", w.IntN(3)),
		Client:  fmt.Sprint("c", w.IntN(2)),
		Owner:   fmt.Sprint("o", w.Uint64()),
	}
}

func (w *world) claim(name string) {
	who, ticket := w.somebody(), w.nextTicket()
	turns := holdfast.Token(1 + w.IntN(3))
	downgraded := w.IntN(3) == 0
	for turn := range turns {
		who.Owner = fmt.Sprint("o", w.Uint64())
		h := history.Hold{Who: who, Resource: name, Kind: history.Exclusive, Token: tok(ticket, turn)}
		h.Begin = w.pass()
		if w.IntN(3) == 0 { // it locks again what it holds
			again := h
			again.Kind = []history.Kind{history.Exclusive, history.Shared}[w.IntN(2)]
			w.now++
			again.Begin = w.now
			w.now++
			again.End = w.now
			w.holds = append(w.holds, again)
		}
		w.now++
		h.End = w.pass()
		h.Open = turn == turns-1 && !downgraded && w.IntN(3) == 0 // it was killed
		w.holds = append(w.holds, h)
	}
	if downgraded {
		h := history.Hold{Who: who, Resource: name, Kind: history.Shared, Token: shared(tok(ticket, turns-1))}
		h.Begin, h.End = w.pass(), w.pass()
		w.holds = append(w.holds, h)
	}
}

// readers begin in any order, and all of them are there together for a moment.
func (w *world) readers(name string) {
	first := len(w.holds)
	for range 1 + w.IntN(5) {
		w.holds = append(w.holds, history.Hold{
			Who: w.somebody(), Resource: name, Kind: history.Shared, Token: shared(tok(w.nextTicket(), 0)),
		})
	}
	crowd := w.holds[first:]
	for _, i := range w.Perm(len(crowd)) {
		crowd[i].Begin = w.pass()
	}
	w.now++
	for _, i := range w.Perm(len(crowd)) {
		crowd[i].End = w.pass()
	}
}

// semaphore grants and takes back at random, up to the limit.
func (w *world) semaphore(name string) {
	limit, used := 1+w.IntN(6), 0
	var held []int // indices of those that have not ended
	for range 60 {
		w.pass()
		if units := 1 + w.IntN(limit); used+units <= limit {
			used += units
			held = append(held, len(w.holds))
			w.holds = append(w.holds, history.Hold{
				Who: w.somebody(), Resource: name, Kind: history.Semaphore, Units: units, Limit: limit,
				Token: shared(tok(w.nextTicket(), 0)), Interval: history.Interval{Begin: w.now},
			})
		} else {
			i := w.IntN(len(held))
			w.holds[held[i]].End = w.now
			used -= w.holds[held[i]].Units
			held = slices.Delete(held, i, i+1)
		}
	}
	for _, i := range held {
		w.holds[i].End = w.pass()
	}
}

const seeds = 60

func TestCorrectHistories(t *testing.T) {
	for seed := range uint64(seeds) {
		holds := correctHistory(seed)
		if found := append(Overlap(holds), Tokens(holds)...); len(found) > 0 {
			t.Fatalf("seed %d: %d false alarms, the first is %v", seed, len(found), found[0])
		}
	}
}

// A mutant breaks one rule of a correct history, in one place. It says whether it found a place for that.
type mutant struct {
	name  string
	check func([]history.Hold) []Finding
	rule  Rule
	wreck func(w *rand.Rand, holds []history.Hold) ([]history.Hold, bool)
}

var mutants = []mutant{
	{"a hold lasts into the next", Overlap, Exclusion, func(_ *rand.Rand, hs []history.Hold) ([]history.Hold, bool) {
		i, j, ok := pair(hs, func(a, b history.Hold) bool {
			return a.Kind == history.Exclusive && a.End <= b.Begin && b.Begin < b.End
		})
		hs[i].End = hs[j].Begin + 1
		return hs, ok
	}},
	{
		"a hold begins during the one before",
		Overlap,
		Exclusion,
		func(_ *rand.Rand, hs []history.Hold) ([]history.Hold, bool) {
			i, j, ok := pair(hs, func(a, b history.Hold) bool {
				return b.Kind == history.Exclusive && a.End <= b.Begin && a.Begin < a.End
			})
			hs[j].Begin = hs[i].End - 1
			return hs, ok
		},
	},
	{"a reader becomes a writer", Overlap, Exclusion, func(_ *rand.Rand, hs []history.Hold) ([]history.Hold, bool) {
		i, _, ok := pair(hs, func(a, b history.Hold) bool {
			_, together := a.Overlap(b.Interval)
			return a.Kind == history.Shared && b.Kind == history.Shared && together
		})
		hs[i].Kind = history.Exclusive
		return hs, ok
	}},
	{
		"a semaphore with a limit of its own",
		Overlap,
		Exclusion,
		func(_ *rand.Rand, hs []history.Hold) ([]history.Hold, bool) {
			i, _, ok := pair(hs, func(a, b history.Hold) bool {
				_, together := a.Overlap(b.Interval)
				return a.Kind == history.Semaphore && together
			})
			hs[i].Limit += 100
			return hs, ok
		},
	},
	{"more units than there are", Overlap, Limit, func(w *rand.Rand, hs []history.Hold) ([]history.Hold, bool) {
		i := slices.IndexFunc(hs, func(h history.Hold) bool { return h.Kind == history.Semaphore && h.Begin+1 < h.End })
		if i < 0 {
			return hs, false
		}
		extra := hs[i]
		extra.Begin, extra.Owner = extra.Begin+1, "extra"
		extra.Units = extra.Limit - hs[i].Units + 1
		return append(hs, extra), true
	}},
	{"two tokens swapped", Tokens, Order, func(_ *rand.Rand, hs []history.Hold) ([]history.Hold, bool) {
		i, j, ok := pair(hs, func(a, b history.Hold) bool {
			return a.Kind == history.Exclusive && b.Kind == history.Exclusive && a.Begin < b.Begin
		})
		hs[i].Token, hs[j].Token = hs[j].Token, hs[i].Token
		return hs, ok
	}},
	{"a ticket given twice", Tokens, Unique, func(_ *rand.Rand, hs []history.Hold) ([]history.Hold, bool) {
		i, j, ok := pair(hs, func(a, b history.Hold) bool {
			return a.Process != b.Process && a.Kind == b.Kind && a.Kind != history.Exclusive
		})
		hs[j].Token = hs[i].Token
		return hs, ok
	}},
	{"a token lost", Tokens, Order, func(w *rand.Rand, hs []history.Hold) ([]history.Hold, bool) {
		hs[w.IntN(len(hs))].Token = 0
		return hs, true
	}},
	{"a mark forgotten", Tokens, Mark, func(_ *rand.Rand, hs []history.Hold) ([]history.Hold, bool) {
		i := slices.IndexFunc(hs, func(h history.Hold) bool { return h.Token.Shared() })
		hs[i].Token &^= 1 << 7
		return hs, true
	}},
	{"a mark too many", Tokens, Mark, func(_ *rand.Rand, hs []history.Hold) ([]history.Hold, bool) {
		i := slices.IndexFunc(hs, func(h history.Hold) bool { return h.Kind == history.Exclusive })
		hs[i].Token |= 1 << 7
		return hs, true
	}},
}

// pair finds two holds of one resource and different claims. The shuffled history makes it a random pair.
func pair(hs []history.Hold, fit func(a, b history.Hold) bool) (i, j int, ok bool) {
	for i, a := range hs {
		for j, b := range hs {
			if i != j && a.Resource == b.Resource && a.Who != b.Who && fit(a, b) {
				return i, j, true
			}
		}
	}
	return 0, 0, false
}

func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			tried := 0
			for seed := range uint64(seeds) {
				holds, ok := m.wreck(rand.New(rand.NewPCG(seed, 2)), correctHistory(seed))
				if !ok {
					continue
				}
				tried++
				if !slices.ContainsFunc(m.check(holds), func(f Finding) bool { return f.Rule == m.rule }) {
					t.Fatalf("seed %d: not found", seed)
				}
			}
			if tried < seeds/2 {
				t.Errorf("only %d of %d histories could be broken in this way", tried, seeds)
			}
		})
	}
}
