package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func TestUnlockTwice(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		l := r.lock(r.client().Mutex("x").Lock)
		r.unlock(l)
		next := r.lock(r.client().Mutex("x").Lock)
		if err := l.Unlock(t.Context()); !errors.Is(err, holdfast.ErrNotHeld) || errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("got %v", err)
		}
		if synctest.Wait(); next.Err() != nil {
			t.Fatal("a second Unlock took the lock from the next holder")
		}
	})
}

func TestUnlockIsSentWithAnEndedContext(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		done, cancel := context.WithCancel(t.Context())
		cancel()
		l := r.lock(c.Mutex("x").Lock)
		if err := l.Unlock(done); !errors.Is(err, context.Canceled) || l.Err() == nil {
			t.Fatalf("got %v; the lease says %v", err, l.Err())
		}
		synctest.Wait()
		l = r.lock(c.Mutex("x").TryLock) // it was sent

		link.Cut()
		if err := l.Unlock(t.Context()); err == nil || errors.Is(err, holdfast.ErrLost) || l.Err() == nil {
			t.Fatalf("got %v; the lease says %v", err, l.Err())
		}
		r.pass(ttl / 10)
		link.Heal()
		r.pass(ttl / 10)
		r.lock(r.client().Mutex("x").TryLock) // it was repeated
	})
}

// TestReleaseIsRepeatedThroughTheGrace: the store keeps the claim that long, so that a release is worth a call.
func TestReleaseIsRepeatedThroughTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.WithGrace(2 * ttl))
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

// unlockContexts has the context of an Unlock that waits for the store's response, and of one that cannot.
var unlockContexts = map[string]func(*rig) context.Context{
	"Unlock":                  func(r *rig) context.Context { return r.Context() },
	"Unlock that cannot wait": (*rig).cancelled,
}

func TestReleaseEndsWhenTheClaimHasExpired(t *testing.T) {
	for what, ctx := range unlockContexts {
		scene(t, what, func(t *testing.T, r *rig) {
			log := &logbook{}
			c, n, link := r.countedLink(log.option())
			l := r.lock(c.Mutex("x").Lock)
			link.Cut()
			if err := l.Unlock(ctx(r)); err == nil {
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
			if log.count("not released") != 1 {
				t.Errorf("logged: %q", log.lines())
			}
		})
	}
}

// TestReleaseThatIsRefusedIsNotRepeated: the same error would be returned again.
func TestReleaseThatIsRefusedIsNotRepeated(t *testing.T) {
	for what, ctx := range unlockContexts {
		scene(t, what, func(t *testing.T, r *rig) {
			c, n := r.counted()
			l := r.lock(c.Mutex("x").Lock)
			r.server.PlantNewer("x")
			want := ctx(r).Err()
			if want == nil {
				want = holdfast.ErrFormat
			}
			if err := l.Unlock(ctx(r)); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			r.pass(ttl)
			if n.leaves.Load() != 1 {
				t.Errorf("%d tries", n.leaves.Load())
			}
		})
	}
}

func TestHungLeaveIsRepeatedInTime(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, ttl, time.Hour} {
		scene(t, ttl.String(), func(t *testing.T, r *rig) {
			d := &detour{}
			d.leave = func(ctx context.Context, _ store.Claim) error {
				if d.leaves.Load() == 1 {
					return hang(ctx)
				}
				return nil
			}
			l := r.lock(r.around(d, holdfast.WithTTL(ttl)).Mutex("x").Lock)
			l.Unlock(r.cancelled()) //nolint:errcheck // the keeper is to give it back
			r.pass(min(ttl/4, 5*time.Second) + min(ttl/48, time.Second))
			r.lock(r.client().Mutex("x").TryLock)
		})
	}
}

// TestKeepThatReturnsAfterUnlock: the response no longer matters, and the release that is under way is not
// sent twice.
func TestKeepThatReturnsAfterUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		kept, left := make(chan struct{}), make(chan struct{})
		d := &detour{
			keep:  func(context.Context, []store.Claim) error { <-kept; return nil },
			leave: func(context.Context, store.Claim) error { <-left; return nil },
		}
		l := r.lock(r.around(d).Mutex("x").Lock)
		d.push(store.Everyone, store.Status{})
		synctest.Wait()
		l.Unlock(r.cancelled()) //nolint:errcheck // the keeper gives it back
		synctest.Wait()
		close(kept)
		synctest.Wait()
		d.push(store.Everyone, store.Status{})
		synctest.Wait()
		close(left)
		r.pass(ttl)
		if d.leaves.Load() != 1 || d.keeps.Load() != 1 || r.server.Residue("x") != 0 {
			t.Fatalf("%d leaves, %d keeps, %d things left", d.leaves.Load(), d.keeps.Load(), r.server.Residue("x"))
		}
	})
}
