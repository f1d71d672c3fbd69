package redlock_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// faults are what befalls a node, and what it is said to have then.
var faults = map[string]struct {
	befall func(t testing.TB, n *servers.RedisServer)
	want   string
	counts bool // a lock that it has is renewed all the same
}{
	"down": {func(t testing.TB, n *servers.RedisServer) { testkit.Must(t, n.Kill()) }, "it cannot be reached", false},
	"silent": {func(t testing.TB, n *servers.RedisServer) {
		testkit.Must(t, n.Pause())
		t.Cleanup(func() { testkit.Must(t, n.Continue()) })
	}, "no response in", false},
	"read-only": {func(t testing.TB, n *servers.RedisServer) {
		testkit.Must(t, n.Follow(servers.Redis(t)))
	}, "it is a replica", false},
	"out of memory": {func(t testing.TB, n *servers.RedisServer) {
		do(t, n, "CONFIG", "SET", "maxmemory", "1")
	}, "its memory is full", true},
	"wrong password": {func(t testing.TB, n *servers.RedisServer) {
		conn, err := n.Dial()
		testkit.Must(t, err)
		defer conn.Close()
		_, err = conn.Do("CONFIG", "SET", "requirepass", "another")
		testkit.Must(t, err)
		_, err = conn.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		testkit.Must(t, err)
		_, err = conn.Do("CLIENT", "KILL", "TYPE", "pubsub")
		testkit.Must(t, err)
	}, "it wants a password, and none was given", false},
}

func do(t testing.TB, n *servers.RedisServer, args ...string) any {
	t.Helper()
	answer, err := n.Do(args...)
	testkit.Must(t, err)
	return answer
}

// TestMinorityFaults: two of five nodes fail while a lock is held. It is renewed, others are taken and released about
// as fast as before, and a client that comes now can open.
func TestMinorityFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newCalmFleet(t, 5)
			f.query = "max-ttl=1m&node-timeout=6s" // which nobody may wait for
			s := f.open(t)
			held := testkit.Held(t, s, claimOf("held"))
			settled(t, s) // a node that is full prolongs what it has, and takes nothing more
			for _, i := range []int{1, 3} {
				fault.befall(t, f.nodes[i])
			}
			var took []time.Duration
			for i := range 20 {
				began := time.Now()
				c := testkit.Held(t, s, claimOf("free"+strconv.Itoa(i)))
				testkit.Must(t, s.Leave(t.Context(), c))
				took = append(took, time.Since(began))
			}
			// Who waits for the two does so until they are given up, once or twice. A busy machine alone holds up one
			// at most.
			if slices.Sort(took); took[len(took)-2] > 2*time.Second {
				t.Errorf("with two nodes of five Lock and Unlock take %v", took)
			}
			testkit.Keep(t, s, held, store.Held)
			testkit.Await(t, "two nodes did not count for the renewal", func() bool {
				missed := 0
				if fault.counts {
					missed = 2
				}
				for _, h := range s.Health(t.Context()) {
					if h.MissedRenewal {
						missed++
					}
					if failing := h.State == redlock.Failing; failing != (h.Err != nil) {
						t.Errorf("%+v", h)
					}
				}
				return missed == 2
			})
			testkit.Must(t, s.Leave(t.Context(), held))
		})
	}
}

// TestMajorityFaults: three of five fail. Nothing is granted, the error comes within the timeout and names each of them
// with what it said, and nothing is held afterwards.
func TestMajorityFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 5)
			f.query = "max-ttl=4s&node-timeout=300ms"
			s := f.open(t)
			for _, i := range []int{0, 2, 3} {
				fault.befall(t, f.nodes[i])
			}
			var err error
			// The first may still be served, or find a connection that ends.
			for deadline := time.Now().Add(30 * time.Second); ; {
				c := briefClaimOf("lost")
				began := time.Now()
				// What nobody answers is given up after ten.
				if _, err = s.Join(t.Context(), c); time.Since(began) > 9*time.Second {
					t.Errorf("it took %v", time.Since(began))
				}
				testkit.Must(t, errors.Join(leaveBy(t, s, c)))
				if err != nil && strings.Count(err.Error(), fault.want) == 3 || time.Now().After(deadline) {
					break
				}
			}
			found, ok := errors.AsType[*store.Fault](err)
			if !ok || !strings.Contains(err.Error(), " of 5 nodes succeeded, and 3 are needed") ||
				strings.Count(err.Error(), fault.want) != 3 {
				t.Fatalf("%v, want a fault that says %q of three nodes", err, fault.want)
			}
			if wantFinal := name == "wrong password"; found.Final != wantFinal {
				t.Errorf("final is %v: %v", found.Final, err)
			}
			for _, i := range []int{0, 2, 3} {
				if !strings.Contains(err.Error(), f.nodes[i].Addr()+": ") {
					t.Errorf("%v does not name %s", err, f.nodes[i].Addr())
				}
			}
			for _, i := range []int{1, 4} {
				testkit.Await(t, "the key is released",
					func() bool { return do(t, f.nodes[i], "EXISTS", "lost") == int64(0) })
			}
		})
	}
}

// leaveBy leaves, which may fail where nodes do.
func leaveBy(t testing.TB, s store.Store, c store.Claim) error {
	t.Helper()
	if err := s.Leave(t.Context(), c); err != nil {
		if _, fault := errors.AsType[*store.Fault](err); !fault {
			return err
		}
	}
	return nil
}

// TestHungNodeCollectsNothing: requests to a node that hangs do not pile up, and when it goes on it has none of the
// locks that were released meanwhile.
func TestHungNodeCollectsNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.query = "max-ttl=4s&node-timeout=2s"
	s := f.open(t)
	settled(t, s)
	resume := f.pause(f.nodes[2])
	lock := func() {
		c := testkit.Held(t, s, briefClaimOf("hung"))
		testkit.Must(t, s.Leave(t.Context(), c))
	}
	// Until it is known that the node hangs: a few may wait there, and nothing is answered for longer than it may take.
	for began := time.Now(); time.Since(began) < 3*time.Second || s.Under(2) <= redlock.FewUnder; lock() {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("%d requests are in progress to a node that hangs", s.Under(2))
		}
	}
	before := s.Under(2)
	const locks = 100 // each of which is one request there at least
	for range locks {
		lock()
	}
	if n := s.Under(2); n > before+locks/2 { // one or two may just be turned away
		t.Errorf("%d requests are in progress to a node that hangs, and there were %d when that was known", n, before)
	}
	resume()
	testkit.Await(t, "nothing is left of the claims", func() bool { return s.Bids() == 0 })
	testkit.Await(t, "the node that hung has no lock",
		func() bool { return do(t, f.nodes[2], "EXISTS", "hung") == int64(0) })
}
