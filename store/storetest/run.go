package storetest

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// sideBySide are rules whose cases mostly wait for a ttl to pass, and restart nothing. In real time they run in parallel.
var sideBySide = []string{lifetime.name, until.name, identity.name, leaks.name, format.name, watching.name}

// Run runs the suite in real time. One harness serves all cases: starting a real server for each would take too long.
// The cases use names of their own. Those that mostly wait run in parallel, so the harness must be able to open several
// clients at once. A case that fails while the machine or a server stands still is played again, and that is logged.
func Run(t *testing.T, newHarness func(t testing.TB) Harness) { runRules(t, newHarness, suite) }

// RunSome is Run for some of the rules, by their names. It is for a server that is to be one that has passed them all,
// as another program that speaks the same protocol.
func RunSome(t *testing.T, newHarness func(t testing.TB) Harness, rules ...string) {
	runRules(t, newHarness, choose(t, rules))
}

// Rules returns the names of all rules, for tests that divide the suite among several servers.
func Rules() (names []string) {
	for _, r := range suite {
		names = append(names, r.name)
	}
	return names
}

// MustCatch is for a store that is broken on purpose: it plays the cases of these rules until one fails, several times if
// need be, and returns what that says. If none does, t fails. So the author of a store shows that the suite would
// notice a mistake that is easily made.
func MustCatch(t *testing.T, newHarness func(t testing.TB) Harness, rules ...string) (failure string) {
	t.Helper()
	h := newHarness(t)
	for range catchRounds {
		for _, r := range choose(t, rules) {
			for _, s := range r.cases {
				if o := s.play(t, h, realTime); len(o.failures) > 0 {
					return strings.Join(o.failures, "\n")
				}
			}
		}
	}
	t.Fatalf("the store is broken, and %q did not notice", rules)
	return ""
}

// catchRounds is how often MustCatch plays the cases.
const catchRounds = 5

// choose returns the rules of these names.
func choose(t *testing.T, names []string) []rule {
	chosen := slices.DeleteFunc(slices.Clone(suite), func(r rule) bool { return !slices.Contains(names, r.name) })
	if len(chosen) != len(names) || len(names) == 0 {
		t.Fatalf("%q: not all of them are names of rules, or one is there twice", names)
	}
	return chosen
}

func runRules(t *testing.T, newHarness func(t testing.TB) Harness, rules []rule) {
	h := newHarness(t)
	each(t, rules, func(t *testing.T, r rule, s scenario) outcome {
		if slices.Contains(sideBySide, r.name) {
			t.Parallel()
		}
		defer watch(t.Name(), realTime.watchdog)()
		return playSteadily(t, realTime.ttl, func() outcome { return s.play(t, h, realTime) }, func() (end func() time.Duration) {
			return withServers(h, realTime.ttl, steady())
		})
	})
}

// RunFake runs the suite in fake time: each case has a bubble of testing/synctest and a harness of its own. It is
// for stores that live in this process. All of their goroutines must end when the store is closed.
func RunFake(t *testing.T, newHarness func(t testing.TB) Harness) {
	each(t, suite, func(t *testing.T, _ rule, s scenario) outcome { return s.playFake(t, newHarness, fakeTime) })
}

// each makes a subtest of every case.
func each(t *testing.T, rules []rule, play func(*testing.T, rule, scenario) outcome) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, s := range r.cases {
				t.Run(s.name, func(t *testing.T) {
					o := play(t, r, s)
					switch {
					case len(o.failures) > 0:
						t.Error(r.explain(o.failures))
					case o.skipped != "":
						t.Skip(o.skipped)
					}
				})
			}
		})
	}
}

// playFake plays a case in a bubble.
func (s scenario) playFake(t *testing.T, newHarness func(t testing.TB) Harness, p pace) (o outcome) {
	defer watch(t.Name(), p.watchdog)()
	synctest.Test(t, func(t *testing.T) { o = s.play(t, newHarness(t), p) })
	return o
}

// watch ends the process if a case takes longer than limit in real time, and shows where every goroutine hangs.
// A case that hangs would otherwise say nothing until the test binary's own timeout, and then not which it was.
func watch(name string, limit time.Duration) (stop func() bool) {
	return time.AfterFunc(limit, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("storetest: %s has not ended in %v", name, limit))
	}).Stop
}
