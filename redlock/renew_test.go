package redlock_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// TestRenewalsTakeTurns: many locks are renewed with few requests, and a node has one of them at a time. So the last of
// many does not count as unanswered while a node is at work for the first.
func TestRenewalsTakeTurns(t *testing.T) {
	t.Parallel()
	f := newCalmFleet(t, 3)
	s := f.open(t)
	held := make([]store.Claim, 200)
	for i := range held {
		held[i] = claimOf("held" + strconv.Itoa(i))
		held[i].Ticket = hold(t, s, held[i]).Ticket
	}
	settled(t, s)
	before := f.scripts(t)
	resume := f.pause(f.nodes...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		standings, err := s.Keep(t.Context(), held)
		testkit.Check(t, err)
		for i, standing := range standings {
			if standing.State != store.Held {
				t.Errorf("lock %d: %+v", i, standing)
			}
		}
	}()
	testkit.Await(t, "the nodes are asked", func() bool { return s.Under(0) > 0 && s.Under(1) > 0 && s.Under(2) > 0 })
	var most int64
	for range 20 { // what should not come
		time.Sleep(time.Millisecond)
		most = max(most, s.Under(0), s.Under(1), s.Under(2))
	}
	resume()
	<-done
	if most > 1 {
		t.Errorf("%d requests were in progress at a node", most)
	}
	if n := f.scripts(t) - before; n > 3*4 {
		t.Errorf("200 locks were renewed with %d scripts at 3 nodes", n)
	}
}

// TestConnectsByItself: when a node is back the client is connected before it asks anything.
func TestConnectsByItself(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	s := f.open(t)
	testkit.Must(t, f.nodes[2].Kill())
	testkit.Await(t, "the connection has ended", func() bool { return !s.Connected(2) })
	testkit.Must(t, f.nodes[2].Start())
	testkit.Await(t, "there is another", func() bool { return s.Connected(2) })
}
