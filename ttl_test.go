package holdfast_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// No ttl has to be set, also if the store allows less than the default.
func TestDefaultTTLFitsTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.around(&detour{can: func(a *store.Abilities) { a.MaxTTL = 5 * time.Second }})
		l := r.lock(c.Mutex("x").Lock)
		if left := time.Until(l.Until()); left > 5*time.Second || left < 4*time.Second {
			t.Errorf("it is held for %v", left)
		}
	})
}

// TestStoreWithASession: all claims have the ttl of the store's session, whatever was requested. It may be shorter or
// longer than the default.
func TestStoreWithASession(t *testing.T) {
	for _, session := range []time.Duration{ttl / 2, 2 * ttl} {
		t.Run(session.String(), func(t *testing.T) { testSession(t, session) })
	}
}

func testSession(t *testing.T, session time.Duration) {
	var asked atomic.Int64 // the ttl of the last claim that joined
	connect := func(r *rig, options ...holdfast.Option) *holdfast.Client {
		d := &detour{can: func(a *store.Abilities) { a.SessionTTL = session }}
		d.answer = func(_ store.Claim, s *store.Status) {
			if end := time.Now().Add(session); s.State != store.Gone && s.Until.After(end) {
				s.Until = end
			}
		}
		d.joined = func(c store.Claim, s *store.Status) error {
			asked.Store(int64(c.TTL))
			d.answer(c, s)
			return nil
		}
		return r.around(d, options...)
	}
	for what, options := range map[string][]holdfast.Option{
		"default": nil, "the same": {holdfast.WithTTL(session)}, "longer": {holdfast.WithTTL(10 * time.Minute)},
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			one, two := r.lock(connect(r, options...).Mutex("x").Lock), r.lock(connect(r).Mutex("y", options...).Lock)
			if asked.Load() != int64(session) {
				t.Fatalf("the store was asked for %v", time.Duration(asked.Load()))
			}
			r.pass(10 * time.Minute)
			if one.Err() != nil || two.Err() != nil {
				t.Fatalf("a store that is well, and they are %v and %v", one.Err(), two.Err())
			}
		})
	}
	scene(t, "shorter", func(t *testing.T, r *rig) {
		shorter := holdfast.WithTTL(session - 1)
		for _, m := range []*holdfast.Mutex{connect(r, shorter).Mutex("x"), connect(r).Mutex("x", shorter)} {
			r.refused("a ttl shorter than the session", m.TryLock, holdfast.ErrBadTTL)
		}
	})
}

func TestFixedTTL(t *testing.T) {
	for _, d := range []time.Duration{ttl / 10, 10 * ttl} {
		scene(t, d.String(), func(t *testing.T, r *rig) {
			c := r.client()
			before := r.lock(c.Mutex("x").Lock)
			waiter := r.begin(c.Mutex("x", holdfast.WithFixedTTL(d)).Lock)
			r.pass(5 * ttl) // waiting does not count
			r.unlock(before)
			r.pass(d - time.Millisecond)
			if !waiter.holds() {
				t.Fatalf("it was over too early: %v", waiter.lease.Err())
			}
			r.pass(time.Millisecond)
			if !errors.Is(waiter.lease.Err(), holdfast.ErrLost) {
				t.Fatalf("it goes on: %v", waiter.lease.Err())
			}
			r.lock(c.Mutex("x").TryLock) // and was released
		})
	}
}

func TestFixedTTLOfADeadHolderEndsWithTheTTL(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		r.lock(c.Mutex("x", holdfast.WithFixedTTL(time.Hour)).Lock)
		link.Kill()
		r.pass(ttl)
		r.lock(r.client().Mutex("x").TryLock)
	})
}
