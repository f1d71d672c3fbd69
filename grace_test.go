package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store/storetest"
)

const grace = 4 * time.Second

// loseByTime cuts a client off until its lease is lost, and heals the link at that moment.
func (r *rig) loseByTime(link *storetest.Pipe, l *holdfast.Lease) {
	r.Helper()
	link.Cut()
	<-l.Context().Done()
	link.Heal()
	if err := l.Err(); !errors.Is(err, holdfast.ErrLost) {
		r.Fatalf("got %v", err)
	}
}

// TestGraceAfterALoss: a holder that lost its lease by time may still have work under way. The store keeps the claim
// for the grace, though the client could now remove it. By Unlock or Close the holder declares that its work has
// ended.
func TestGraceAfterALoss(t *testing.T) {
	for what, test := range map[string]struct {
		then func(r *rig, c *holdfast.Client, l *holdfast.Lease)
		kept bool // what then does not end the grace
	}{
		"nothing more": {func(*rig, *holdfast.Client, *holdfast.Lease) {}, true},
		"a reconnect, after which all is said once more": {func(r *rig, _ *holdfast.Client, _ *holdfast.Lease) {
			r.server.Restart(true)
		}, true},
		"Unlock": {func(r *rig, _ *holdfast.Client, l *holdfast.Lease) {
			if err := l.Unlock(r.Context()); !errors.Is(err, holdfast.ErrLost) {
				r.Fatalf("got %v", err)
			}
			r.pass(time.Millisecond)
		}, false},
		"Close": {func(r *rig, c *holdfast.Client, _ *holdfast.Lease) { r.must(c.Close()) }, false},
		"Close, then Unlock": {func(r *rig, c *holdfast.Client, l *holdfast.Lease) {
			r.must(c.Close())
			if err := l.Unlock(r.Context()); !errors.Is(err, holdfast.ErrLost) {
				r.Fatalf("got %v", err)
			}
		}, false},
	} {
		scene(t, what, func(_ *testing.T, r *rig) {
			c, link := r.linked(holdfast.WithGrace(grace))
			l := r.lock(c.Mutex("x").Lock)
			r.loseByTime(link, l)
			test.then(r, c, l)
			next := r.client().Mutex("x")
			if test.kept {
				r.pass(grace - 100*time.Millisecond)
				r.refused("the grace is not over", next.TryLock, holdfast.ErrLocked)
				r.pass(200 * time.Millisecond)
			}
			r.lock(next.TryLock)
		})
	}
}

// TestDoEndsTheGrace: when the function of Do has returned, nothing of it is under way.
func TestDoEndsTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.WithGrace(grace))
		next := r.client().Mutex("x")
		err := c.Mutex("x").Do(t.Context(), func(ctx context.Context) error {
			link.Cut()
			<-ctx.Done()
			link.Heal()
			time.Sleep(grace / 2)
			r.refused("while it runs", next.TryLock, holdfast.ErrLocked)
			return nil
		})
		if !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("got %v", err)
		}
		r.pass(time.Millisecond)
		r.lock(next.TryLock)
	})
}

// TestGraceOfAReenteredLock ends with the last of its leases.
func TestGraceOfAReenteredLock(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.WithGrace(grace), holdfast.WithReentrance())
		first := r.lock(c.Mutex("x").Lock)
		second := r.lease(c.Mutex("x").Lock(first.Context()))
		r.loseByTime(link, first)
		next := r.client().Mutex("x")
		for _, l := range []*holdfast.Lease{first, first} { // twice is once
			if err := l.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
				t.Fatalf("got %v", err)
			}
		}
		r.pass(time.Millisecond)
		r.refused("one of two leases was unlocked", next.TryLock, holdfast.ErrLocked)
		if err := second.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("got %v", err)
		}
		r.pass(time.Millisecond)
		r.lock(next.TryLock)
	})
}

func TestGrace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.WithGrace(ttl))
		l := r.lock(c.Mutex("x").Lock)
		link.Kill()
		r.pass(ttl)
		if l.Err() == nil {
			t.Fatal("its owner believes in the grace")
		}
		r.refused("the place was not kept", r.client().Mutex("x").TryLock, holdfast.ErrLocked)
		r.pass(ttl)
		r.lock(r.client().Mutex("x").TryLock)
	})
}
