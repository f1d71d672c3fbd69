package holdfast

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// What two goroutines do at the same moment, one of them between two steps that tests from outside cannot part.

// TestGrantAtTheVeryMomentItsContextEnds: the caller has turned away, and before it can say so it is given the lock.
// It goes to the next of the process, or back to the store, and is not renewed for ever.
func TestGrantAtTheVeryMomentItsContextEnds(t *testing.T) {
	for _, another := range []bool{false, true} {
		t.Run(map[bool]string{false: "alone", true: "another waits"}[another], func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, server *memstore.Server, c *Client, link *storetest.Pipe) {
				other := New(server.Connect())
				defer other.Close()
				first := must[*Lease](t)(other.Mutex("x").Lock(t.Context()))
				link.DropPushes(true)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				failed, next := make(chan error, 1), make(chan *Lease, 1)
				go func() {
					_, err := c.Mutex("x").Lock(ctx)
					failed <- err
				}()
				synctest.Wait()
				if another {
					go func() {
						l, _ := c.Mutex("x").Lock(t.Context()) // nil is not what is expected either
						next <- l
					}()
					synctest.Wait()
				}
				if err := first.Unlock(t.Context()); err != nil { // the store grants it, and the push is lost
					t.Fatal(err)
				}
				c.begin()
				cancel() // its select is decided, and it waits for mu
				granted := c.queues["x"].claim
				c.pushedGrant(granted)
				c.end()
				if err := <-failed; !errors.Is(err, context.Canceled) {
					t.Fatalf("got %v", err)
				}
				if another {
					select {
					case l := <-next:
						if l == nil || l.Err() != nil || l.claim != granted {
							t.Fatal("the next did not get this very claim")
						}
					case <-time.After(DefaultTTL):
						t.Fatal("the next does not get it")
					}
					return
				}
				if synctest.Wait(); len(c.claims) != 0 || server.Residue("x") != 0 {
					t.Fatalf("%d claims, and %d things in the store", len(c.claims), server.Residue("x"))
				}
			})
		})
	}
}

// TestFailureAtTheVeryMomentItsContextEnds: the caller learns of the failure too.
func TestFailureAtTheVeryMomentItsContextEnds(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *memstore.Server, c *Client, _ *storetest.Pipe) {
		must[*Lease](t)(c.Mutex("x", WithTTL(time.Hour)).Lock(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := c.RWMutex("x").RLock(ctx)
			failed <- err
		}()
		synctest.Wait()
		c.begin()
		cancel() // its select is decided, and it waits for mu
		for _, cl := range c.claims {
			if cl.phase == waiting {
				c.withdraw(cl)
				cl.queue.claimFailed(cl, ErrFormat)
			}
		}
		c.end()
		if err := <-failed; !errors.Is(err, context.Canceled) || !errors.Is(err, ErrFormat) {
			t.Fatalf("got %v", err)
		}
	})
}

// TestGrantThatIsOverBeforeItsCallerRuns: the process was paused in between. The caller goes on waiting instead of
// getting a lease that is over.
func TestGrantThatIsOverBeforeItsCallerRuns(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, server *memstore.Server, c *Client, link *storetest.Pipe) {
		other := New(server.Connect())
		defer other.Close()
		first := must[*Lease](t)(other.Mutex("x").Lock(t.Context()))
		link.DropPushes(true)
		next := make(chan *Lease, 1)
		go func() {
			l, _ := c.Mutex("x").Lock(t.Context()) // nil is not what is expected either
			next <- l
		}()
		synctest.Wait()
		if err := first.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.begin()
		granted := c.queues["x"].claim
		granted.until.wall.Add(int64(time.Hour)) // it is granted, and then an hour passes
		c.pushedGrant(granted)
		granted.until.wall.Add(-2 * int64(time.Hour))
		c.end()
		select {
		case l := <-next:
			if l == nil || l.Err() != nil || l.claim == granted {
				t.Fatal("it got what was over")
			}
		case <-time.After(DefaultTTL):
			t.Fatal("it does not go on")
		}
	})
}

// TestUnlockOfWhatTheKeeperHasJustLost: it is released once, by the keeper.
func TestUnlockOfWhatTheKeeperHasJustLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaves := 0 // one call after the other
		c := New(&silent{Store: memstore.New(), leave: func(context.Context) bool { leaves++; return false }})
		defer c.Close()
		l := must[*Lease](t)(c.Mutex("x").Lock(t.Context()))
		c.begin()
		l.end(&errUnlocked) // Unlock has come this far
		c.lose(l.claim, errExpired)
		c.end()
		synctest.Wait()
		if err := c.release(t.Context(), l, time.Now()); err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); leaves != 1 {
			t.Fatalf("%d leaves", leaves)
		}
	})
}

// TestWhatIsOverIsNotHandedOn: the process was paused after Unlock had read the clocks.
func TestWhatIsOverIsNotHandedOn(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *memstore.Server, c *Client, _ *storetest.Pipe) {
		l := must[*Lease](t)(c.Mutex("x").Lock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go c.Mutex("x").Lock(ctx) //nolint:errcheck // it only has to wait
		synctest.Wait()
		c.begin()
		defer c.end()
		l.claim.until.wall.Add(-int64(time.Hour))
		if l.claim.queue.handOver(l.claim, time.Now()) {
			t.Fatal("it was handed on")
		}
	})
}

// TestNotReenteredDuringUnlock: Unlock has just ended the lease, and the claim still stands.
func TestNotReenteredDuringUnlock(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *memstore.Server, c *Client, _ *storetest.Pipe) {
		m := c.Mutex("x", WithReentrance())
		l := must[*Lease](t)(m.Lock(t.Context()))
		l.end(&errUnlocked)
		again, err := (&request{lock: &m.lock, ctx: l.Context(), demand: wholeLock}).enterAgain(l)
		if again != nil || err != nil {
			t.Fatalf("got %v, %v", again, err)
		}
	})
}
