package redlock_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// TestNoVoteForFullNodes: nodes have served their quarantine and cannot get their vote back, since their memory is
// full. Calls fail within the ttl, also while others ask too, with an error that says so, and they go on when there is
// room again.
func TestNoVoteForFullNodes(t *testing.T) {
	t.Parallel()
	f := newFreshFleet(t, 3)
	f.query = "max-ttl=1s"
	s := f.open(t)
	claim := func() store.Claim {
		c := claimOf("full")
		c.TTL = time.Second
		return c
	}
	c := claim()
	if _, err := s.Join(t.Context(), c); err == nil {
		t.Fatal("fresh nodes granted a lock")
	}
	for _, n := range f.nodes {
		testkit.Await(t, "its quarantine has begun",
			func() bool { return do(t, n, "EXISTS", redlock.RecordKey) == int64(1) })
		do(t, n, "CONFIG", "SET", "maxmemory", "1")
	}
	testkit.Await(t, "the quarantine is served",
		func() bool { return s.Health(t.Context())[0].State == redlock.Rejoining })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 4 {
				began := time.Now()
				if _, err := s.Join(t.Context(), claim()); err == nil || time.Since(began) > 10*c.TTL {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			}
		})
	}
	all.Wait()
	testkit.Await(t, "the error says what is the matter", func() bool {
		_, err := s.Join(t.Context(), c)
		return err != nil && strings.Count(err.Error(), "cannot be given its vote back: its memory is full") == 3
	})
	for _, n := range f.nodes {
		do(t, n, "CONFIG", "SET", "maxmemory", "0")
	}
	testkit.Await(t, "there is room again", func() bool { _, err := s.Join(t.Context(), c); return err == nil })
}
