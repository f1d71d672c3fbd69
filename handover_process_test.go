package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

func TestHandOverIsSeenInTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		first := r.lock(c.Mutex("x", holdfast.WithLabel("one")).Lock)
		next := r.begin(c.Mutex("x", holdfast.WithLabel("two"), holdfast.WithOwner("job")).Lock)
		last := r.begin(c.Mutex("x", holdfast.WithLabel("three")).Lock)
		seen := func(want string, l *holdfast.Lease) {
			t.Helper()
			c.KeepAll()
			p := r.queue(c, "x").Holders()[0]
			if p.Owner.Label != want || p.Token != l.Token() {
				t.Errorf("the queue has %q with %v, want %q with %v", p.Owner.Label, p.Token, want, l.Token())
			}
		}
		seen("one", first)
		r.unlock(first)
		synctest.Wait()
		seen("two", next.lease)
		if p := r.queue(c, "x").Holders()[0]; p.Owner.ID != "job" {
			t.Errorf("its owner is %q", p.Owner.ID)
		}
		r.unlock(next.lease)
		synctest.Wait()
		seen("three", last.lease)
		if p := r.queue(c, "x").Holders()[0]; p.Owner.ID != "" {
			t.Errorf("its owner is %q", p.Owner.ID)
		}
	})
}

// The regular renewal reports it, at the latest after a third of the ttl.
func TestHandOverIsSeenByTheNextRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		first := r.lock(c.Mutex("x", holdfast.WithLabel("one")).Lock)
		next := r.begin(c.Mutex("x", holdfast.WithLabel("two")).Lock)
		r.unlock(first)
		r.pass(ttl/3 + time.Second)
		p := r.queue(c, "x").Holders()[0]
		if p.Owner.Label != "two" || p.Token != next.lease.Token() || turnOf(next.lease) != 1 {
			t.Errorf("the queue has %q with %v, the lease %v", p.Owner.Label, p.Token, next.lease.Token())
		}
	})
}

func TestHandOverClose(t *testing.T) {
	for name, holder := range map[string]func(a, b *holdfast.Client) *holdfast.Client{
		"held here":  func(a, _ *holdfast.Client) *holdfast.Client { return a },
		"held there": func(_, b *holdfast.Client) *holdfast.Client { return b },
	} {
		scene(t, name, func(t *testing.T, r *rig) {
			a, b := r.client(), r.client()
			first := r.lock(holder(a, b).Mutex("x").Lock)
			calls := r.beginMany(5, a.Mutex("x").Lock)
			r.must(a.Close())
			synctest.Wait()
			for i, w := range calls {
				if !w.done() || !errors.Is(w.err, holdfast.ErrClosed) {
					t.Errorf("waiter %d: %v", i, w.err)
				}
			}
			if err := first.Unlock(t.Context()); holder(a, b) == a && !errors.Is(err, holdfast.ErrClosed) {
				t.Errorf("the holder's Unlock: %v", err)
			}
			r.nothingLeft("x")
		})
	}
}

// Close comes while leases are handed over at full speed.
func TestHandOverCloseInTheMiddle(t *testing.T) {
	for range 50 {
		bubble(t, func(t *testing.T, r *rig) {
			c := r.client()
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for {
						l, err := c.Mutex("x").Lock(t.Context())
						if err == nil {
							time.Sleep(time.Microsecond)
							err = l.Unlock(t.Context())
						}
						if errors.Is(err, holdfast.ErrClosed) {
							return
						}
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			time.Sleep(100 * time.Microsecond)
			r.check(c.Close())
			wg.Wait()
			r.nothingLeft("x")
		})
	}
}

func TestHandOverIsFairBetweenProcesses(t *testing.T) {
	for _, waiters := range [][2]int{{8, 8}, {8, 2}, {32, 8}} {
		scene(t, fmt.Sprint(waiters), func(t *testing.T, r *rig) {
			d := &diary{T: t}
			end := time.Now().Add(time.Second)
			var wg sync.WaitGroup
			for i, who := range []string{"a", "b"} {
				c := r.client()
				for range waiters[i] {
					wg.Go(func() {
						for time.Now().Before(end) {
							d.work(who, c.Mutex("x").Lock, time.Millisecond)
						}
					})
				}
			}
			wg.Wait()
			if waiters[0] != waiters[1] {
				// One with few may have none that waits when its turn would come again.
				for who, held := range d.held {
					if held < 200*time.Millisecond {
						t.Errorf("%s held it for %v of a second", who, held)
					}
				}
				return
			}
			for who, held := range d.held {
				if held < 400*time.Millisecond {
					t.Errorf("%s held it for %v of a second", who, held)
				}
			}
		})
	}
}

// A wait that goes on after its outer lease was lost is another owner's. What it then holds counts for deadlocks.
func TestHandOverOwnerAfterALoss(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, other := r.client(), r.client()
		r.lock(other.Mutex("b").Lock)
		outer := r.lock(c.Mutex("a").Lock)
		detached := context.WithoutCancel(outer.Context()) // it waits on, whatever becomes of the outer lease
		inner := r.begin(func(context.Context) (*holdfast.Lease, error) { return c.Mutex("b").Lock(detached) })
		r.server.Restart(false) // both lose what they hold
		r.pass(5 * time.Second)
		r.holds(inner, "it does not go on")
		// It holds b and wants d. Another holds d and wants b.
		bounded := func(under *holdfast.Lease, c *holdfast.Client, name string) *call {
			return r.begin(func(context.Context) (*holdfast.Lease, error) {
				return c.Mutex(name, holdfast.WithWait(ttl)).Lock(under.Context())
			})
		}
		d := r.lock(other.Mutex("d").Lock)
		wantsB, wantsD := bounded(d, other, "b"), bounded(inner.lease, c, "d")
		r.pass(5 * time.Second)
		if !wantsB.done() && !wantsD.done() {
			t.Error("the deadlock was not found")
		}
		r.pass(ttl)
	})
}

// The claim's ID stands for an owner without a name. When the claim passes on, it must not make two owners one:
// the one that was before may hold other things.
func TestHandOverMakesAnotherOwner(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, second := r.client(), r.client() // of one store
		x := r.lock(c.Mutex("x").Lock)
		next := r.begin(c.Mutex("x").Lock)
		y := r.lock(func(context.Context) (*holdfast.Lease, error) { return second.Mutex("y").Lock(x.Context()) })
		r.unlock(x)
		r.holds(next, "the next does not hold it")
		// y is still held by the first. The next one takes z and waits for y: there is no deadlock.
		z := r.lock(func(context.Context) (*holdfast.Lease,
			error) {
			return second.Mutex("z").Lock(next.lease.Context())
		})
		waits := r.begin(func(context.Context) (*holdfast.Lease, error) { return second.Mutex("y").Lock(z.Context()) })
		r.pass(5 * time.Second)
		if waits.done() {
			t.Fatalf("got %v, %v", waits.lease, waits.err)
		}
		r.unlock(y)
		r.holds(waits, "it does not hold it")
	})
}
