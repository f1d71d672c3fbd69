package redlock_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
)

var inQuarantine = regexp.MustCompile(
	"nodes are in quarantine for another (1m0s|[1-5][0-9]s): run `holdfast redlock init` if they are new",
)

// TestFreshNodes: without Init there is no lock for max-ttl, with an error that says so and what to do.
func TestFreshNodes(t *testing.T) {
	t.Parallel()
	f := newFreshFleet(t, 3)
	f.query = calm
	s := f.open(t)
	_, err := s.Join(t.Context(), claimOf("first"))
	if err == nil || store.Final(err) || !inQuarantine.MatchString(err.Error()) {
		t.Fatalf("the first lock: %v", err)
	}
	testkit.Await(t, "all are in quarantine", func() bool {
		return !slices.ContainsFunc(s.Health(t.Context()), func(h redlock.NodeHealth) bool {
			return h.State != redlock.Quarantined || h.NoVoteFor <= 0 || h.NoVoteFor > time.Minute
		})
	})
}

// TestQuarantineOfAll: fresh nodes vote when max-ttl is over, and not before.
func TestQuarantineOfAll(t *testing.T) {
	t.Parallel()
	f := newFreshFleet(t, 3)
	began := time.Now()
	s := f.open(t)
	c := briefClaimOf("first")
	testkit.Await(t, "the quarantine is served", func() bool { _, err := s.Join(t.Context(), c); return err == nil })
	if waited := time.Since(began); waited < 4*time.Second {
		t.Errorf("it was granted after %v", waited)
	}
	testkit.Await(t, "all vote", func() bool { return allVote(s.Health(t.Context())) })
}

// TestInit: it ends the wait, also after the first use, and changes nothing where nodes vote.
func TestInit(t *testing.T) {
	t.Parallel()
	f := newFreshFleet(t, 3)
	f.query = calm
	testkit.Await(t, "all are fresh", func() bool {
		health, err := redlock.Status(t.Context(), f.url(""))
		testkit.Must(t, err)
		return !slices.ContainsFunc(health, func(h redlock.NodeHealth) bool {
			return h.State != redlock.Fresh || h.NoVoteFor != time.Minute || h.Version == ""
		})
	})
	s := f.open(t)
	c := claimOf("first")
	if _, err := s.Join(t.Context(), c); err == nil {
		t.Fatal("fresh nodes granted a lock")
	}
	f.init()
	hold(t, s, c)
	settled(t, s) // or what is on its way would use the node that is to be fresh

	// A node that loses its data beside others that vote is not let in, neither before anybody has used it nor after.
	do(t, f.nodes[1], "FLUSHALL")
	for _, want := range []redlock.NodeState{redlock.Fresh, redlock.Quarantined} {
		testkit.Await(t, "the node is "+want.String(), func() bool {
			health, err := redlock.Init(t.Context(), f.url(""))
			return err == nil && health[1].State == want && health[0].State == redlock.Voting
		})
		hold(t, s, claimOf("second "+want.String())) // which begins its quarantine
		testkit.Await(t, "the quarantine has begun",
			func() bool { return do(t, f.nodes[1], "EXISTS", redlock.RecordKey) == int64(1) })
	}
}

// TestInitOfAll: a deployment is not marked in part.
func TestInitOfAll(t *testing.T) {
	t.Parallel()
	f := newFreshFleet(t, 3)
	f.kill(2)
	testkit.Await(t, "it is refused, and the others stay fresh", func() bool {
		health, err := redlock.Init(t.Context(), f.url(""))
		return err != nil && strings.Contains(err.Error(), f.nodes[2].Addr()+": it cannot be reached") &&
			health[0].State == redlock.Fresh
	})
}

// TestInitWaitsForAll: one node is far slower than the others, who are a majority. It is waited for all the same.
func TestInitWaitsForAll(t *testing.T) {
	t.Parallel()
	f := newFreshFleet(t, 3)
	far := testkit.Proxy(t, f.nodes[2].Addr())
	far.Delay(proxy.All, 100*time.Millisecond)
	at := "redlock://" + f.nodes[0].Addr() + "," + f.nodes[1].Addr() + "," + far.Addr()
	testkit.Await(t, "all vote", func() bool {
		health, err := redlock.Init(t.Context(), at)
		return err == nil && allVote(health)
	})
}

// TestTrust: a node that was declared goes on voting after a restart with its data, and another does not.
func TestTrust(t *testing.T) {
	t.Parallel()
	f := newCalmFleet(t, 3)
	health, err := redlock.Trust(t.Context(), f.url(""), f.nodes[0].Addr())
	// How much longer is as exact as the node's clock is known, which is to within the time of a message.
	if err != nil || health.State != redlock.Voting || health.TrustedFor < 9*time.Minute ||
		health.TrustedFor > 11*time.Minute {
		t.Fatalf("%+v, %v", health, err)
	}
	if _, err := redlock.Trust(t.Context(), f.url(""), "elsewhere"); err == nil ||
		!strings.Contains(err.Error(), f.nodes[1].Addr()) {
		t.Errorf("a node that is none: %v", err)
	}
	s := f.open(t)
	for _, i := range []int{0, 1} {
		testkit.Must(t, f.nodes[i].Restart(true))
	}
	testkit.Await(t, "a trusted node votes, and one that is not does not", func() bool {
		h := s.Health(t.Context())
		return h[0].State == redlock.Voting && h[0].TrustedFor == 0 && h[1].State == redlock.Quarantined
	})
}

// TestQuarantineOfOne: a node that lost its data has no vote until max-ttl has passed and a client has given it the
// mark of the others. Locks go on meanwhile.
func TestQuarantineOfOne(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	f.query = "max-ttl=4s&node-timeout=2s"
	s := f.open(t)
	before := hold(t, s, briefClaimOf("before")).Ticket
	began := time.Now()
	testkit.Must(t, f.nodes[2].Restart(false))
	for i := 0; ; i++ {
		// Another each time: a take may be slow, and in the way of the next.
		c := briefClaimOf("meanwhile" + strconv.Itoa(i))
		if ticket := hold(t, s, c).Ticket; ticket <= before {
			t.Fatalf("ticket %d after %d", ticket, before)
		}
		testkit.Must(t, s.Leave(t.Context(), c))
		h := s.Health(t.Context())[2]
		if h.State == redlock.Voting {
			break
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("%+v", h)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if waited := time.Since(began); waited < 4*time.Second {
		t.Errorf("it votes again after %v", waited)
	}
}
