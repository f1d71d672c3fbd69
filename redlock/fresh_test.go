package redlock_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
)

var inQuarantine = regexp.MustCompile("nodes are in quarantine for another [1-4]s: run `holdfast redlock init` if they are new")

// TestFreshNodes: without Init the first lock waits for max-ttl, with an error that says so and what to do.
func TestFreshNodes(t *testing.T) {
	t.Parallel()
	f := newFreshFleet(t, 3)
	began := time.Now()
	s := f.open(t)
	c := claimOf("first")
	_, err := s.Join(t.Context(), c)
	if err == nil || store.Final(err) || !inQuarantine.MatchString(err.Error()) {
		t.Fatalf("the first lock: %v", err)
	}
	for _, h := range s.Health(t.Context()) {
		if h.State != redlock.Quarantined || h.Wait <= 0 || h.Wait > 4*time.Second {
			t.Errorf("%+v", h)
		}
	}
	eventually(t, "the quarantine is served", func() bool { _, err = s.Join(t.Context(), c); return err == nil })
	if waited := time.Since(began); waited < 4*time.Second {
		t.Errorf("it was granted after %v", waited)
	}
	eventually(t, "all vote", func() bool {
		return !slices.ContainsFunc(s.Health(t.Context()), func(h redlock.NodeHealth) bool { return h.State != redlock.Voting })
	})
}

// TestInit: it ends the wait, also after the first use, and changes nothing where nodes vote.
func TestInit(t *testing.T) {
	t.Parallel()
	f := newFreshFleet(t, 3)
	f.query = "timeout=2s" // and max-ttl is a minute
	health, err := redlock.Status(t.Context(), f.at(""))
	must(t, err)
	for _, h := range health {
		if h.State != redlock.Fresh || h.Wait != time.Minute || h.Version == "" {
			t.Errorf("%+v", h)
		}
	}
	s := f.open(t)
	c := claimOf("first")
	if _, err := s.Join(t.Context(), c); err == nil {
		t.Fatal("fresh nodes granted a lock")
	}
	f.init()
	hold(t, s, c)
	eventually(t, "nothing is on its way", func() bool { return do(t, f.nodes[1], "EXISTS", "first") == int64(1) })

	// A node that loses its data beside others that vote is not let in, neither before anybody has used it nor after.
	do(t, f.nodes[1], "FLUSHALL")
	for _, want := range []redlock.NodeState{redlock.Fresh, redlock.Quarantined} {
		health, err = redlock.Init(t.Context(), f.at(""))
		if err != nil || health[1].State != want || health[0].State != redlock.Voting {
			t.Errorf("%+v, %v", health, err)
		}
		hold(t, s, claimOf("second "+want.String())) // which begins its quarantine
		eventually(t, "the quarantine has begun", func() bool { return do(t, f.nodes[1], "EXISTS", redlock.RecordKey) == int64(1) })
	}
}

// TestInitOfAll: a deployment is not marked in part.
func TestInitOfAll(t *testing.T) {
	t.Parallel()
	f := newFreshFleet(t, 3)
	f.kill(2)
	health, err := redlock.Init(t.Context(), f.at(""))
	if err == nil || !strings.Contains(err.Error(), f.nodes[2].Addr()+": it cannot be reached") || health[0].State != redlock.Fresh {
		t.Errorf("%+v, %v", health, err)
	}
}

// TestTrust: a node that was declared goes on voting after a restart with its data, and another does not.
func TestTrust(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	health, err := redlock.Trust(t.Context(), f.at(""), f.nodes[0].Addr())
	if err != nil || health.State != redlock.Voting || health.Trusted < 9*time.Minute || health.Trusted > 10*time.Minute {
		t.Fatalf("%+v, %v", health, err)
	}
	if _, err := redlock.Trust(t.Context(), f.at(""), "elsewhere"); err == nil || !strings.Contains(err.Error(), f.nodes[1].Addr()) {
		t.Errorf("a node that is none: %v", err)
	}
	s := f.open(t)
	for _, i := range []int{0, 1} {
		must(t, f.nodes[i].Restart(true))
	}
	eventually(t, "a trusted node votes, and one that is not does not", func() bool {
		h := s.Health(t.Context())
		return h[0].State == redlock.Voting && h[0].Trusted == 0 && h[1].State == redlock.Quarantined
	})
}

// TestQuarantineOfOne: a node that lost its data has no vote until max-ttl has passed and a client has given it the mark of
// the others. Locks go on meanwhile.
func TestQuarantineOfOne(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	s := f.open(t)
	before := hold(t, s, claimOf("before")).Ticket
	began := time.Now()
	must(t, f.nodes[2].Restart(false))
	for {
		c := claimOf("meanwhile")
		if ticket := hold(t, s, c).Ticket; ticket <= before {
			t.Fatalf("ticket %d after %d", ticket, before)
		}
		must(t, s.Leave(t.Context(), c))
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
