package redlock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// TestGraceOutlivesAKeep: a Keep is in progress when the holder's time expires. Its place is kept for the grace all the
// same, since what it set going may still run, until it says that this has ended.
func TestGraceOutlivesAKeep(t *testing.T) {
	t.Parallel()
	f := newFreshFleet(t, 3)
	f.query = "max-ttl=30s&node-timeout=1500ms" // within which a ttl that is nearly over ends
	f.init()
	s, other := f.open(t), f.open(t)
	c := claimOf("grace")
	c.TTL, c.Grace = 2*time.Second, 25*time.Second // of which a tenth is looked at: a busy machine does not use it up
	until := hold(t, s, c).Until
	resume := f.pause(f.nodes[1:]...)
	time.Sleep(time.Until(until) - 200*time.Millisecond)
	all, err := s.Keep(t.Context(), []store.Claim{c})
	resume()
	if time.Now().Before(until) {
		t.Fatalf("Keep ended too early: %v, %v", all, err)
	}
	if err == nil && all[0].State == store.Held {
		t.Fatalf("Keep: %+v", all)
	}
	try := claimOf("grace")
	try.TTL = c.TTL
	for try.Try = true; time.Since(until) < 2*time.Second; try.ID[0]++ {
		if standing, err := other.Join(t.Context(), try); err == nil && standing.State == store.Held {
			t.Fatalf("another client has it %v after the holder's time, and the grace is %v", time.Since(until),
				c.Grace)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, err := s.Keep(t.Context(), []store.Claim{c}); err == nil ||
		!strings.Contains(err.Error(), "the lock has expired") {
		t.Errorf("Keep in the grace: %v", err)
	}
	testkit.Must(t, s.Leave(t.Context(), c))
	try.ID[1]++
	testkit.Await(t, "the grace ends when the holder leaves", func() bool {
		standing, err := other.Join(t.Context(), try)
		try.ID[1]++
		return err == nil && standing.State == store.Held
	})
}
