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

// sideBySide has the rules whose cases mostly wait for a ttl to pass, and restart nothing. In real time they run in
// parallel.
var sideBySide = []string{lifetime.name, until.name, identity.name, leaks.name, format.name, detaching.name,
	watching.name}

// Run runs the suite in real time. One harness serves all cases: starting a real server for each would take too long.
// The cases use names of their own. Those that mostly wait run in parallel, so the harness must be able to open several
// clients at once. A case that fails while the machine or a server is stalled is repeated, and that is logged.
func Run(t *testing.T, newHarness func(t testing.TB) Harness) { runRules(t, newHarness, suite) }

// RunSome is Run for the rules with these names. It is for a variant of a server that passes the whole suite elsewhere,
// such as another program with the same protocol.
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

// MustCatch runs the cases of these rules, several times if needed, until one fails, and returns its failures. If none
// fails, t fails. It is for a store that is broken on purpose: with it, the author of a store shows that the suite
// would detect a likely bug.
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
	t.Fatalf("the store is broken, and %q did not detect it", rules)
	return ""
}

// catchRounds is how often MustCatch runs the cases.
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
	server := startProbe(t, h)
	each(t, rules, func(t *testing.T, r rule, s scenario) outcome {
		if slices.Contains(sideBySide, r.name) {
			t.Parallel()
		}
		play := func() outcome {
			defer watch(t.Name(), realTime.watchdog)() // each time it is played
			return s.play(t, h, realTime)
		}
		begin := func() (end func() time.Duration) {
			machine, server := steady(), server.observe()
			return func() time.Duration { return max(machine(), server()) }
		}
		return playSteadily(t, realTime.stall, play, begin)
	})
}

// RunFake runs the suite in fake time: each case has a bubble of testing/synctest and a harness of its own. It is for
// stores inside this process. All of their goroutines must end when the store is closed.
func RunFake(t *testing.T, newHarness func(t testing.TB) Harness) {
	each(t, suite, func(t *testing.T, _ rule, s scenario) outcome { return s.playFake(t, newHarness, fakeTime) })
}

// each runs every case as a subtest.
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

// playFake runs a case in a bubble.
func (s scenario) playFake(t *testing.T, newHarness func(t testing.TB) Harness, p pace) (o outcome) {
	defer watch(t.Name(), p.watchdog)()
	synctest.Test(t, func(t *testing.T) { o = s.play(t, newHarness(t), p) })
	return o
}

// watch ends the process if a case takes longer than limit in real time, and shows where every goroutine hangs.
// Otherwise a case that hangs would report nothing until the test binary's own timeout, and then not which case it was.
func watch(name string, limit time.Duration) (stop func() bool) {
	return time.AfterFunc(limit, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("storetest: %s has not ended in %v", name, limit))
	}).Stop
}
