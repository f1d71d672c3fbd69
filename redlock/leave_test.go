package redlock_test

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// TestLeaveWhileTrying: who leaves while its Keep tries again leaves nothing behind in this client, whichever of the
// two ends first. Nobody gives these locks back, so that no push would clear up after it.
func TestLeaveWhileTrying(t *testing.T) {
	t.Parallel()
	f := newCalmFleet(t, 3)
	s := f.open(t)
	var all sync.WaitGroup
	for i := range 20 {
		name := "taken" + strconv.Itoa(i)
		for _, n := range f.nodes {
			do(t, n, "SET", name, "somebody", "PX", "600000")
		}
		all.Go(func() {
			for range 50 {
				c := claimOf(name)
				if standing, err := s.Join(t.Context(), c); err != nil || standing.State != store.Waiting {
					t.Errorf("Join: %v, %v", standing.State, err)
				}
				var trying sync.WaitGroup
				trying.Go(func() { s.Keep(t.Context(), []store.Claim{c}) }) //nolint:errcheck // it may well have left
				time.Sleep(rand.N(3 * time.Millisecond))                    // so that they overlap in all ways
				testkit.Check(t, s.Leave(t.Context(), c))
				trying.Wait()
			}
		})
	}
	all.Wait()
	testkit.Await(t, "all is forgotten", func() bool { return s.Bids() == 0 })
	if n := s.Listening(); n > 0 {
		t.Errorf("%d claims that have left still listen", n)
	}
}
