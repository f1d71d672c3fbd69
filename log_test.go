package holdfast_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// TestFirstFailingRenewalOfAnOutageIsLogged: an operator should know before the leases are lost, and once is enough. An
// outage of half a ttl costs no lease: renewals are retried.
func TestFirstFailingRenewalOfAnOutageIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		log := &logbook{}
		c, link := r.linked(log.option())
		l := r.lock(c.Mutex("x").Lock)
		for outage := range 20 {
			link.Cut()
			r.pass(ttl / 2)
			if log.count("not renewed") != outage+1 || log.count("the link is cut") != outage+1 ||
				log.count("name=x") != outage+1 {
				t.Fatalf("in outage %d: %q", outage+1, log.lines())
			}
			link.Heal()
			r.pass(ttl / 4)
		}
		if l.Err() != nil || log.count("lease lost") != 0 {
			t.Fatalf("the lease is %v: %q", l.Err(), log.lines())
		}
		link.Cut()
		r.pass(2 * ttl)
		if log.count("lease lost name=x token="+l.Token().String()) != 1 || log.count("could not be renewed") != 1 {
			t.Fatalf("the loss: %q", log.lines())
		}
	})
}

// TestLogHandlerMayUseTheClient: it is called while the client finds a loss. Here time is real: a deadlock of mutexes
// would stop that of a bubble.
func TestLogHandlerMayUseTheClient(t *testing.T) {
	log := &logbook{}
	var c *holdfast.Client
	told := make(chan error, 2) // Enabled, Handle
	log.before = func() {
		l, err := c.Mutex("other").TryLock(context.Background())
		if err == nil {
			err = l.Unlock(context.Background())
		}
		told <- err
	}
	c = holdfast.New(memstore.New(), log.option())
	l, err := c.Mutex("x").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go c.Break(context.Background(), "x", l.Token()) //nolint:errcheck // the log says it
	for range 2 {
		select {
		case err := <-told:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("it waits for itself")
		}
	}
	c.Close() // waits for the log, too
	if log.count("lease lost") != 1 {
		t.Errorf("logged: %q", log.lines())
	}
}
