package holdfast_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

// TestHandOverParticipants has a holder and a waiter of one client, and checks whether the claim passed
// from one to the other.
func TestHandOverParticipants(t *testing.T) {
	with := func(options ...holdfast.Option) func(*holdfast.Client) locker {
		return func(c *holdfast.Client) locker { return c.Mutex("x", options...).Lock }
	}
	lock := with()
	try := func(c *holdfast.Client) locker { return c.Mutex("x").TryLock }
	write := func(c *holdfast.Client) locker { return c.RWMutex("x").Lock }
	read := func(c *holdfast.Client) locker { return c.RWMutex("x").RLock }
	both := func(c *holdfast.Client) locker { return units(c.Semaphore("x", 2), 2) }
	campaign := func(c *holdfast.Client) locker { return c.Election("x").Campaign }
	under := func(c *holdfast.Client) locker { // it has another lock already
		return func(ctx context.Context) (*holdfast.Lease, error) {
			outer, err := c.Mutex("outer").Lock(ctx)
			if err != nil {
				return nil, err
			}
			inner, cancel := context.WithCancel(outer.Context())
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			return c.Mutex("x").Lock(inner)
		}
	}
	above := func(c *holdfast.Client) locker { // it takes another lock under this one
		return func(ctx context.Context) (*holdfast.Lease, error) {
			l, err := c.Mutex("x").Lock(ctx)
			if err != nil {
				return nil, err
			}
			_, err = c.Mutex("inner").Lock(l.Context())
			return l, err
		}
	}
	downgraded := func(c *holdfast.Client) locker {
		return func(ctx context.Context) (*holdfast.Lease, error) {
			l, err := c.Mutex("x").Lock(ctx)
			if err != nil {
				return nil, err
			}
			return l.Downgrade(ctx)
		}
	}
	for name, test := range map[string]struct {
		first, next func(*holdfast.Client) locker
		passes      bool
	}{
		"mutex to mutex":                  {lock, lock, true},
		"mutex to writer":                 {lock, write, true},
		"writer to mutex":                 {write, lock, true},
		"other label":                     {lock, with(holdfast.WithLabel("x")), true},
		"bounded wait":                    {lock, with(holdfast.WithWait(ttl)), true},
		"writer to reader":                {lock, read, false},
		"reader to writer":                {read, lock, false},
		"from TryLock":                    {try, lock, false},
		"from WithFixedTTL":               {with(holdfast.WithFixedTTL(ttl)), lock, false},
		"to WithFixedTTL":                 {lock, with(holdfast.WithFixedTTL(ttl)), false},
		"from Campaign":                   {campaign, lock, false},
		"to Campaign":                     {lock, campaign, false},
		"from other TTL":                  {with(holdfast.WithTTL(ttl / 2)), lock, false},
		"to other TTL":                    {lock, with(holdfast.WithTTL(ttl / 2)), false},
		"to other Grace":                  {lock, with(holdfast.WithGrace(1)), false},
		"to HandOver off":                 {lock, with(holdfast.WithHandOver(0, 0)), false},
		"from HandOver off":               {with(holdfast.WithHandOver(0, 0)), lock, false},
		"to one who holds":                {lock, under, false},
		"from one who holds":              {under, lock, false},
		"from one who since took another": {above, lock, false},
		"from a downgraded one":           {downgraded, lock, false},
		"semaphore":                       {both, both, false},
	} {
		scene(t, name, func(t *testing.T, r *rig) {
			c, n := r.counted()
			first := r.lock(test.first(c))
			next := r.begin(test.next(c))
			before := n.joins.Load()
			if queue := r.queue(c, "x"); len(queue.Entries) != 2 {
				t.Fatalf("%d in the queue, want 2: a claim each, or a standby", len(queue.Entries))
			}
			r.unlock(first)
			r.holds(next, "the next does not hold it")
			passed := next.lease.Token().Ticket() == first.Token().Ticket()
			if passed != test.passes || passed != (turnOf(next.lease) == 1) {
				t.Errorf("handed over: %v, turn %d; want %v", passed, turnOf(next.lease), test.passes)
			}
			if n.joins.Load() != before || next.lease.Token() <= first.Token() {
				t.Errorf("%d joins more, token %v after %v", n.joins.Load()-before, next.lease.Token(), first.Token())
			}
			r.unlock(next.lease)
			synctest.Wait()
			if queue := r.queue(c, "x"); len(queue.Entries) != 0 {
				t.Errorf("%d are left in the queue", len(queue.Entries))
			}
		})
	}
}

// If the owner of a waiter acquired something else in the meantime, nothing is handed over to it either: others must
// see in the store which owner they wait for.
func TestHandOverNotToAnOwnerWithAnotherLock(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		named := holdfast.WithOwner("job")
		first := r.lock(c.Mutex("x").Lock)
		next := r.begin(c.Mutex("x", named).Lock)
		r.lock(c.Mutex("other", named).Lock)
		r.unlock(first)
		if synctest.Wait(); !next.holds() || turnOf(next.lease) != 0 {
			t.Fatalf("got %v, %v", next.lease, next.err)
		}
		if p := r.queue(c, "x").Holders()[0]; p.Token != next.lease.Token() {
			t.Errorf("the queue has %v", p.Token)
		}
	})
}

// A TryLock never gets a claim that is about to be handed over to a waiter.
func TestHandOverTryLockDoesNotOvertake(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		l := r.lock(c.Mutex("x").Lock)
		calls := r.beginMany(10, c.Mutex("x").Lock)
		for _, w := range calls {
			r.unlock(l)
			r.refused("another waits for it", c.Mutex("x").TryLock, holdfast.ErrLocked)
			synctest.Wait()
			l = w.lease
		}
		r.unlock(l)
		synctest.Wait()
		r.unlock(r.lock(c.Mutex("x").TryLock))
	})
}

// An owner with a given identity takes part like any other, as long as it holds and wants nothing else.
func TestHandOverBetweenNamedOwners(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		l := r.lock(c.Mutex("x", holdfast.WithOwner("0")).Lock)
		var calls []*call
		for i := range 3 {
			calls = append(calls, r.begin(c.Mutex("x", holdfast.WithOwner(fmt.Sprint(i+1))).Lock))
		}
		for i, w := range calls {
			r.unlock(l)
			if synctest.Wait(); !w.holds() {
				t.Fatalf("owner %d does not hold it", i+1)
			}
			if turnOf(w.lease) != i+1 {
				t.Errorf("owner %d got turn %d, want %d", i+1, turnOf(w.lease), i+1)
			}
			l = w.lease
		}
		r.unlock(l)
		r.nothingRemains("x")
	})
}

// Different ttls are different claims, that exclude each other.
func TestHandOverDifferentTTLsExclude(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n := r.counted()
		d := &diary{T: t}
		var wg sync.WaitGroup
		for i := range 12 {
			m := c.Mutex("x", holdfast.WithTTL(ttl/time.Duration(i%3+1)))
			wg.Go(func() {
				for range 20 {
					d.work(fmt.Sprint(i%3), m.Lock, 100*time.Microsecond)
				}
			})
		}
		wg.Wait()
		byTicket := map[uint64]string{}
		for i, token := range d.tokens {
			if who, ok := byTicket[token.Ticket()]; ok && who != d.who[i] {
				t.Fatal("a claim passed to one with another ttl")
			}
			byTicket[token.Ticket()] = d.who[i]
		}
		if n.joins.Load() >= 240 {
			t.Errorf("%d joins for 240 locks", n.joins.Load())
		}
		r.nothingRemains("x")
	})
}
