package redlock_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// TestOneRoundTrip: a lock that no other client wants costs one script at each node, its token with it; to release it
// costs one. Many locks are renewed with one.
func TestOneRoundTrip(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options     []redlock.Option
		least, most int // for a lock, at all three nodes
	}{
		"unsaved": {[]redlock.Option{redlock.WithUnsavedTokens()}, 3, 3},
		"saved":   {nil, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newCalmFleet(t, 3)
			s := f.open(t, c.options...)
			runs := func(what string, least, most int, call func()) {
				t.Helper()
				before := f.scripts(t)
				call()
				settled(t, s)
				time.Sleep(20 * time.Millisecond) // what should not come
				if n := f.scripts(t) - before; n < least || n > most {
					t.Errorf("%s ran %d scripts, want %d", what, n, most)
				}
			}
			names := 0
			lock := func() (c store.Claim) {
				names++
				c = claimOf("cost" + strconv.Itoa(names))
				c.Ticket = hold(t, s, c).Ticket
				return c
			}
			for range 3 { // the nodes do not know the scripts yet
				held := lock()
				settled(t, s)
				_, err := s.Keep(t.Context(), []store.Claim{held})
				testkit.Must(t, err)
				settled(t, s)
				testkit.Must(t, s.Leave(t.Context(), held))
				settled(t, s)
			}
			testkit.Await(t, "all is released", func() bool { return s.Bids() == 0 })
			var held []store.Claim
			for range 5 {
				runs("Lock", c.least, c.most, func() { held = append(held, lock()) })
			}
			runs("Keep", 3, 3, func() {
				_, err := s.Keep(t.Context(), held)
				testkit.Must(t, err)
			})
			for _, c := range held {
				runs("Unlock", 3, 3, func() { testkit.Must(t, s.Leave(t.Context(), c)) })
			}
		})
	}
}

// Those who carry requests are used again, and few are kept after many were needed at once.
func TestCarriersRest(t *testing.T) {
	t.Parallel()
	f := newCalmFleet(t, 3)
	s := f.open(t)
	var wg sync.WaitGroup
	for i := range 4 * redlock.MostResting {
		wg.Go(func() {
			c := claimOf("rest" + strconv.Itoa(i))
			if _, err := s.Join(t.Context(), c); err != nil {
				t.Error(err)
			}
			testkit.Check(t, s.Leave(t.Context(), c))
		})
	}
	wg.Wait()
	settled(t, s)
	// One who comes back and finds enough of them is counted for a moment.
	testkit.Await(t, "a few rest", func() bool { n := s.Resting(); return n > 0 && n <= redlock.MostResting })
}

// settled waits until all that a store has sent was answered. When a call returns, a slow node may have yet to run its
// script.
func settled(t testing.TB, s *redlock.Store) {
	t.Helper()
	testkit.Await(t, "all is settled", func() bool { return !s.Busy() })
}

// scripts is how many scripts the nodes have run.
func (f *fleet) scripts(t testing.TB) (total int) {
	t.Helper()
	for _, n := range f.nodes {
		total += evals(t, n)
	}
	return total
}

func evals(t testing.TB, n *servers.RedisServer) (total int) {
	t.Helper()
	for line := range strings.Lines(do(t, n, "INFO", "commandstats").(string)) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_eval"); ok {
			_, rest, _ = strings.Cut(rest, "calls=")
			calls, _, _ := strings.Cut(rest, ",")
			count, err := strconv.Atoi(calls)
			testkit.Must(t, err)
			total += count
		}
	}
	return total
}
