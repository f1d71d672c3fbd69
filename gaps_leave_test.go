package holdfast_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// countedLink is a client behind a link that can fail, whose calls are counted.
func (r *rig) countedLink(options ...holdfast.Option) (*holdfast.Client, *counter, *storetest.Pipe) {
	pipe := storetest.NewPipe()
	n := &counter{Store: r.server.Connect(memstore.Over(pipe))}
	c := holdfast.New(n, options...)
	r.Cleanup(func() { pipe.Kill(); c.Close() })
	return c, n, pipe
}

// TestReleaseIsRepeatedThroughTheGrace: the store keeps the place that long, so that it is worth telling it.
func TestReleaseIsRepeatedThroughTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.Grace(2 * ttl))
		l := r.lock(c.Mutex("x").Lock)
		link.Cut()
		if err := l.Unlock(t.Context()); err == nil {
			t.Fatal("the store cannot know")
		}
		r.pass(2 * ttl)
		link.Heal()
		r.pass(time.Second)
		r.lock(r.client().Mutex("x").TryLock)
	})
}

func TestReleaseIsGivenUpWhenTheStoreHasForgottenItAnyway(t *testing.T) {
	for what, unlock := range map[string]func(*rig, *holdfast.Lease) error{
		"Unlock":                  func(r *rig, l *holdfast.Lease) error { return l.Unlock(r.Context()) },
		"Unlock that cannot wait": func(r *rig, l *holdfast.Lease) error { return l.Unlock(r.cancelled()) },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				log := &logbook{}
				c, n, link := r.countedLink(log.option())
				l := r.lock(c.Mutex("x").Lock)
				link.Cut()
				if err := unlock(r, l); err == nil {
					t.Fatal("the store cannot know")
				}
				r.pass(ttl + 2*time.Second)
				tries := n.leaves.Load()
				if tries < 20 {
					t.Errorf("it was tried %d times", tries)
				}
				r.pass(10 * ttl)
				if n.leaves.Load() != tries {
					t.Errorf("it goes on after %d tries: %d", tries, n.leaves.Load())
				}
				if log.count("not given back") != 1 {
					t.Errorf("logged: %q", log.lines())
				}
			})
		})
	}
}

// TestReleaseThatIsRefusedIsNotRepeated: the same answer would come again.
func TestReleaseThatIsRefusedIsNotRepeated(t *testing.T) {
	for what, test := range map[string]struct {
		unlock func(*rig, *holdfast.Lease) error
		want   error
	}{
		"Unlock":                  {func(r *rig, l *holdfast.Lease) error { return l.Unlock(r.Context()) }, holdfast.ErrFormat},
		"Unlock that cannot wait": {func(r *rig, l *holdfast.Lease) error { return l.Unlock(r.cancelled()) }, context.Canceled},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				c, n := r.counted()
				l := r.lock(c.Mutex("x").Lock)
				r.server.PlantNewer("x")
				if err := test.unlock(r, l); !errors.Is(err, test.want) {
					t.Errorf("got %v", err)
				}
				r.pass(ttl)
				if n.leaves.Load() != 1 {
					t.Errorf("%d tries", n.leaves.Load())
				}
			})
		})
	}
}

// TestEveryoneIsForWaitingAndLeavingClaimsToo: the store is back, and nobody has to wait for the next try.
func TestEveryoneIsForWaitingAndLeavingClaimsToo(t *testing.T) {
	t.Run("waiting", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			c, link := r.linked()
			first := r.lock(r.client().Mutex("x").Lock)
			waiter := r.begin(c.Mutex("x").Lock)
			link.DropPushes(true)
			r.unlock(first)
			link.DropPushes(false)
			if synctest.Wait(); waiter.done() {
				t.Fatal("the push was not dropped")
			}
			r.server.Restart(true)
			if synctest.Wait(); !waiter.holds() {
				t.Fatal("it was not asked for")
			}
		})
	})
	t.Run("leaving", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			c, link := r.linked()
			l := r.lock(c.Mutex("x").Lock)
			link.Cut()
			l.Unlock(t.Context()) //nolint:errcheck // it cannot be told
			synctest.Wait()
			link.Heal()
			r.server.Restart(true)
			synctest.Wait()
			r.lock(r.client().Mutex("x").TryLock)
		})
	})
}

// TestAskedAgainWhenACallWasUnderWay: its answer may be older than what came up meanwhile.
func TestAskedAgainWhenACallWasUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n, link := r.countedLink()
		first := r.lock(r.client().Mutex("x").Lock)
		waiter := r.begin(c.Mutex("x").Lock)
		release := link.HoldReplies()
		r.pass(ttl/3 + time.Second)
		if n.keeps.Load() != 1 {
			t.Fatalf("%d keeps are under way", n.keeps.Load())
		}
		link.DropPushes(true)
		r.unlock(first)
		link.DropPushes(false)
		r.server.Restart(true) // while the answer is on its way, which says Waiting
		release()
		if synctest.Wait(); !waiter.holds() {
			t.Fatal("it was not asked again")
		}
		if n.keeps.Load() != 2 {
			t.Fatalf("%d keeps", n.keeps.Load())
		}
	})
}

// TestKeepThatIsAnsweredAfterUnlock: the answer is of no interest any more, and the release that is under way is not
// sent twice.
func TestKeepThatIsAnsweredAfterUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var keeps, leaves atomic.Int32
		kept, left := make(chan struct{}), make(chan struct{})
		d := &detour{}
		d.keep = func(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
			keeps.Add(1)
			<-kept
			return d.Store.Keep(ctx, cs)
		}
		d.leave = func(ctx context.Context, c store.Claim) error {
			leaves.Add(1)
			<-left
			return d.Store.Leave(ctx, c)
		}
		l := r.lock(r.around(d).Mutex("x").Lock)
		d.push(store.Everyone, store.Standing{})
		synctest.Wait()
		l.Unlock(r.cancelled()) //nolint:errcheck // the keeper gives it back
		synctest.Wait()
		close(kept)
		synctest.Wait()
		d.push(store.Everyone, store.Standing{})
		synctest.Wait()
		close(left)
		r.pass(ttl)
		if leaves.Load() != 1 || keeps.Load() != 1 || r.server.Residue("x") != 0 {
			t.Fatalf("%d leaves, %d keeps, %d things left", leaves.Load(), keeps.Load(), r.server.Residue("x"))
		}
	})
}
