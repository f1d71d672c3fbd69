package storetest_test

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A mutant is a store that breaks one rule, as real stores have done.
type mutant struct {
	name   string
	rule   int
	caught string // the case that is made for it
	also   []int  // the other rules that such a store breaks
	breaks func(*broken)
}

// mutants are all of them. Each rule has at least one.
var mutants = slices.Concat(
	brokenMethods, brokenExclusion, brokenOrder, brokenFloor, brokenTime, brokenUntil,
	brokenIdentity, brokenTruth, brokenUnknown, brokenLeaks, brokenNames, brokenErrors, brokenFormat,
	brokenDetaching, brokenWatching,
)

// TestBrokenStoresFail shows that the suite can fail. Every mutant fails its own rule, and no rule that it does
// not break. Every case is failed by some mutant of its rule: a check that cannot fail is a defect.
func TestBrokenStoresFail(t *testing.T) {
	var mu sync.Mutex
	failed := map[string]bool{} // every case, and whether a mutant of its rule failed it
	t.Run("mutants", func(t *testing.T) {
		for _, m := range mutants {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				verdicts := storetest.Judge(t, func(t testing.TB) storetest.Harness { return newBroken(t, m.breaks) })
				m.check(t, verdicts)
				mu.Lock()
				defer mu.Unlock()
				for _, v := range verdicts {
					failed[v.Case] = failed[v.Case] || v.Rule == m.rule && v.Failure != ""
				}
			})
		}
	})
	for name, ok := range failed {
		if !ok {
			t.Errorf("no mutant of its rule fails the case %q", name)
		}
	}
}

// check compares what failed with what had to.
func (m mutant) check(t *testing.T, verdicts []storetest.Verdict) {
	failed := map[int]bool{}
	caught := false
	for _, v := range verdicts {
		if v.Failure == "" {
			continue
		}
		if strings.HasPrefix(v.Case, "detaching/") && !strings.HasPrefix(m.caught, "detaching/") {
			continue // its cases rely on all other rules
		}
		failed[v.Rule] = true
		caught = caught || v.Case == m.caught
		if v.Rule != m.rule && !slices.Contains(m.also, v.Rule) {
			t.Errorf("fails rule %d, which it does not break, in %q:\n%s", v.Rule, v.Case, v.Failure)
		}
	}
	if !caught {
		t.Errorf("passes the case %q", m.caught)
	}
	for _, rule := range append(m.also, m.rule) {
		if !failed[rule] {
			t.Errorf("passes rule %d", rule)
		}
	}
}

// TestEveryRuleHasMutant guards against a rule whose check was never shown to fail.
func TestEveryRuleHasMutant(t *testing.T) {
	for rule := range 13 {
		if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.rule == rule }) {
			t.Errorf("rule %d has no mutant", rule)
		}
	}
}

// TestHonestWrapperPasses shows that the bugs fail, rather than the wrapper that they are put into.
func TestHonestWrapperPasses(t *testing.T) {
	storetest.RunFake(t, func(t testing.TB) storetest.Harness {
		return newBroken(t, func(h *broken) { h.bug = func(*bug) {} })
	})
}

// TestAskingTwicePasses has a store without a queue whose claim blocks itself for a moment after a release, as one of
// Redlock may: the second Keep returns Held.
func TestAskingTwicePasses(t *testing.T) {
	storetest.RunFake(t, func(t testing.TB) storetest.Harness {
		return newBroken(t, func(h *broken) {
			h.bug = func(b *bug) {
				var waits notes[store.ID, bool]
				b.abilities = func(able *store.Abilities) { able.Queue, able.Shared = false, false }
				b.answers = func(c store.Claim, s *store.Status) {
					if s.State == store.Held && waits.get(c.ID) {
						waits.set(c.ID, false)
						s.State, s.Ticket, s.RecheckAt = store.Waiting, 0, time.Now().Add(time.Millisecond)
					} else if s.State == store.Waiting {
						waits.set(c.ID, true)
						s.Ticket = 0
					}
				}
			}
		})
	})
}

// TestFailuresExplainThemselves checks the text of a failure.
func TestFailuresExplainThemselves(t *testing.T) {
	floorless := brokenFloor[0]
	verdicts := storetest.Judge(t, func(t testing.TB) storetest.Harness { return newBroken(t, floorless.breaks) })
	failed := slices.DeleteFunc(verdicts, func(v storetest.Verdict) bool { return v.Failure == "" })
	want := regexp.MustCompile(`^rule 3, floor: A ticket is greater than .*
floor\.go:\d+: floor\.go:\d+: ticket \d+ was drawn for a floor of \d+`)
	if got := failed[0].Failure; !want.MatchString(got) {
		t.Errorf("the failure reads\n%s\nwant it to match\n%v", got, want)
	}
}
