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

// TestGraceOutlastsALoss: a holder that lost its lease by time may still have work under way. The store keeps the
// place for the grace, though the client could now tell it to forget.
func TestGraceOutlastsALoss(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.Grace(grace))
		l := r.lock(c.Mutex("x").Lock)
		r.loseByTime(link, l)
		next := r.client().Mutex("x")
		r.pass(grace - 100*time.Millisecond)
		if _, err := next.TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
			t.Fatalf("the grace is not over, and the lock was given to the next: %v", err)
		}
		r.pass(200 * time.Millisecond)
		r.lock(next.TryLock)
	})
}

// TestUnlockEndsTheGrace: by Unlock the holder says that its work has ended.
func TestUnlockEndsTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.Grace(grace))
		l := r.lock(c.Mutex("x").Lock)
		r.loseByTime(link, l)
		if err := l.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("got %v", err)
		}
		r.pass(time.Millisecond)
		r.lock(r.client().Mutex("x").TryLock)
	})
}

// TestDoEndsTheGrace: when the function of Do has returned, nothing of it is under way.
func TestDoEndsTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.Grace(grace))
		next := r.client().Mutex("x")
		err := c.Mutex("x").Do(t.Context(), func(ctx context.Context) error {
			link.Cut()
			<-ctx.Done()
			link.Heal()
			time.Sleep(grace / 2)
			if _, err := next.TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
				t.Errorf("while it runs: %v", err)
			}
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
		c, link := r.linked(holdfast.Grace(grace), holdfast.Reentrant())
		first := r.lock(c.Mutex("x").Lock)
		second, err := c.Mutex("x").Lock(first.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.loseByTime(link, first)
		next := r.client().Mutex("x")
		for _, l := range []*holdfast.Lease{first, first} { // twice is once
			if err := l.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
				t.Fatalf("got %v", err)
			}
		}
		r.pass(time.Millisecond)
		if _, err := next.TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
			t.Fatalf("one of two leases was given back: %v", err)
		}
		if err := second.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("got %v", err)
		}
		r.pass(time.Millisecond)
		r.lock(next.TryLock)
	})
}

// TestNewsDoesNotEndTheGrace: after a reconnect everything is said to the store once more, but not this.
func TestNewsDoesNotEndTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.Grace(grace))
		l := r.lock(c.Mutex("x").Lock)
		r.loseByTime(link, l)
		r.server.Restart(true)
		r.pass(grace / 2)
		if _, err := r.client().Mutex("x").TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
			t.Fatalf("got %v", err)
		}
	})
}

// TestCloseEndsTheGrace: a client that is closed has nothing under way.
func TestCloseEndsTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.Grace(grace))
		r.loseByTime(link, r.lock(c.Mutex("x").Lock))
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		r.lock(r.client().Mutex("x").TryLock)
	})
}
