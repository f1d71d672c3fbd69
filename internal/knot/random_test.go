package knot_test

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/knot"
	"github.com/holdfast-go/holdfast/store"
)

// find looks for a knot around every claim that waits.
func find(t testing.TB, s *system) map[store.ID]knot.Knot {
	t.Helper()
	found := make(map[store.ID]knot.Knot)
	for _, c := range s.waiting() {
		k, err := knot.Find(context.Background(), s.read, c.Name, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		found[c.ID] = k
	}
	return found
}

// wellFormed checks that a cycle is one in these queues, and begins with the victim.
func wellFormed(lines []store.Queue, k knot.Knot) error {
	if len(k.Cycle) < 2 || k.Cycle[0].Waits.ID != k.Victim {
		return fmt.Errorf("the cycle does not begin with the victim %s", k.Victim)
	}
	var met []string
	for i, s := range k.Cycle {
		next := k.Cycle[(i+1)%len(k.Cycle)]
		l := lines[slices.IndexFunc(lines, func(l store.Queue) bool { return l.Name == s.Name })]
		at := func(id store.ID) int {
			return slices.IndexFunc(l.Entries, func(p store.Entry) bool { return p.ID == id })
		}
		waits, blocker := at(s.Waits.ID), at(s.Blocker.ID)
		switch {
		case slices.Contains(met, s.OwnerID):
			return fmt.Errorf("%s is in the cycle twice", s.OwnerID)
		case s.Waits.State != store.Waiting || ownerOf(s.Waits) != s.OwnerID:
			return fmt.Errorf("step %d: %s does not wait", i, s.OwnerID)
		case blocker < 0 || blocker >= waits || ownerOf(s.Blocker) != next.OwnerID:
			return fmt.Errorf("step %d: %s is not blocked by %s", i, s.OwnerID, next.OwnerID)
		}
		met = append(met, s.OwnerID)
	}
	return nil
}

func sameCycle(a, b knot.Knot) bool {
	return slices.EqualFunc(a.Cycle, b.Cycle, func(x, y knot.Step) bool {
		return x.OwnerID == y.OwnerID && x.Waits.ID == y.Waits.ID && x.Blocker.ID == y.Blocker.ID && x.Name == y.Name
	})
}

// check compares what Find says of a system in which everything is written with the oracle. It says how many
// claims wait in knots.
func check(t testing.TB, s *system) (knots int) {
	t.Helper()
	o := newOracle(s.lines)
	want, ever, found := o.knots(), o.ever(), find(t, s)
	byOwner := make(map[string]knot.Knot)
	for _, c := range s.waiting() {
		k := found[c.ID]
		i := slices.Index(o.owners, ownerOf(store.Entry{Claim: c}))
		if k.Found() != (want[i] != 0) {
			t.Fatalf("%s in %s: found %v, want a knot of %b\n%s", o.owners[i], c.Name, k.Cycle, want[i], s)
		}
		if !k.Found() {
			continue
		}
		knots++
		if want[i]&ever != 0 {
			t.Fatalf("%s can go on\n%s", o.owners[i], s)
		}
		if err := wellFormed(s.lines, k); err != nil {
			t.Fatalf("%v\n%s", err, s)
		}
		for _, step := range k.Cycle {
			if want[i]&(1<<slices.Index(o.owners, step.OwnerID)) == 0 {
				t.Fatalf("%s is not in the knot %b\n%s", step.OwnerID, want[i], s)
			}
		}
		if !slices.ContainsFunc(s.waiting(), func(c store.Claim) bool { return c.ID == k.Victim }) {
			t.Fatalf("the victim %s does not wait\n%s", k.Victim, s)
		}
		byOwner[o.owners[i]] = k
	}
	for i, set := range want {
		for rest := set; rest != 0; rest &= rest - 1 {
			a, b := byOwner[o.owners[i]], byOwner[o.owners[bits.TrailingZeros(rest)]]
			if !a.Equal(b) || !sameCycle(a, b) {
				t.Fatalf("two members disagree: %v, %v\n%s", a.Cycle, b.Cycle, s)
			}
		}
	}
	return knots
}

// TestAgainstOracle: Find finds all knots and nothing else, and all members agree.
func TestAgainstOracle(t *testing.T) {
	for name, r := range map[string]rules{
		"one wait each":     {phantoms: true},
		"several waits":     {several: true, onAll: true, phantoms: true},
		"in order":          {ordered: true, phantoms: true},
		"nothing but truth": {prompt: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, knots, naive := 0, 0, 0
			for seed := range uint64(randomSystems) {
				s := newSystem(rand.New(rand.NewPCG(seed, 2)), r)
				for range 10 + s.src.IntN(60) {
					s.step()
				}
				s.writeAll()
				n := check(t, s)
				knots += n
				states += len(s.waiting())
				if n == 0 {
					o := newOracle(s.lines)
					for _, c := range s.waiting() {
						if o.naive(c) {
							naive++
						}
					}
				}
			}
			t.Logf("%d waiting claims, %d in knots; the naive rule has %d false alarms", states, knots, naive)
			if (knots == 0) != r.ordered || states < randomSystems/2 {
				t.Errorf("these programs test nothing: %d knots of %d claims", knots, states)
			}
			if r.phantoms && naive == 0 {
				t.Error("the naive rule passes, so the test cannot fail")
			}
		})
	}
}

// TestLateEdges: while not all waits are published yet, there is no false alarm.
func TestLateEdges(t *testing.T) {
	knots := 0
	for seed := range uint64(randomSystems) {
		s := newSystem(rand.New(rand.NewPCG(seed, 3)), rules{phantoms: true})
		for range 10 + s.src.IntN(60) {
			s.step()
		}
		o := newOracle(s.lines)
		want := o.knots()
		for id, k := range find(t, s) {
			if !k.Found() {
				continue
			}
			knots++
			for _, step := range k.Cycle {
				if want[slices.Index(o.owners, step.OwnerID)] == 0 {
					t.Fatalf("seed %d: %s is in no knot, but %s found %v\n%s", seed, step.OwnerID, id, k.Cycle, s)
				}
			}
		}
	}
	if knots == 0 {
		t.Error("these programs test nothing")
	}
}

// TestWrittenOnHeldOnly: an owner that waits with several claims, and writes it only on what it holds, is in no
// cycle out of which a grant could lead, unless it then takes other waits back.
func TestWrittenOnHeldOnly(t *testing.T) {
	knots := 0
	for seed := range uint64(randomSystems) {
		s := newSystem(rand.New(rand.NewPCG(seed, 4)), rules{several: true, phantoms: true})
		for range 10 + s.src.IntN(60) {
			s.step()
		}
		s.writeAll()
		never := newOracle(s.lines).patient()
		for id, k := range find(t, s) {
			for _, step := range k.Cycle {
				knots++
				if !never[step.Waits.ID] {
					t.Fatalf("seed %d: %s will be granted, but %s found %v\n%s", seed, step.Waits.ID, id, k.Cycle, s)
				}
			}
		}
	}
	if knots == 0 {
		t.Error("these programs test nothing")
	}
}
