package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func TestReadersShareAndWritersDoNot(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.client().RWMutex("x")
		one, two := r.lock(m.RLock), r.lock(m.TryRLock)
		r.refused("a writer beside readers", m.TryLock, holdfast.ErrLocked)
		if !one.Token().Shared() || !two.Token().Shared() || one.Token() == two.Token() {
			t.Fatalf("the readers have the tokens %v and %v", one.Token(), two.Token())
		}
		r.unlock(one)
		r.unlock(two)
		writer := r.lock(m.Lock)
		if writer.Token().Shared() || writer.Token() < two.Token() {
			t.Fatalf("the writer has the token %v", writer.Token())
		}
		r.refused("a reader beside a writer", m.TryRLock, holdfast.ErrLocked)
	})
}

func TestWaitingWriterStopsLaterReaders(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.client().RWMutex("x")
		early := r.lock(m.RLock)
		writer := r.begin(m.Lock)
		late, later := r.begin(m.RLock), r.begin(m.RLock)
		if writer.done() || late.done() {
			t.Fatal("a claim overtook the queue")
		}
		r.unlock(early)
		if synctest.Wait(); !writer.holds() || late.done() {
			t.Fatal("it was the writer's turn")
		}
		r.unlock(writer.lease)
		if synctest.Wait(); !late.holds() || !later.holds() {
			t.Fatal("both readers fit now")
		}
	})
}

func TestMutexIsTheWriteSide(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		l := r.lock(c.Mutex("x").Lock)
		r.refused("a reader beside a mutex", c.RWMutex("x").TryRLock, holdfast.ErrLocked)
		r.unlock(l)
		r.lock(c.RWMutex("x").RLock)
		r.refused("a mutex beside a reader", c.Mutex("x").TryLock, holdfast.ErrLocked)
	})
}

func TestRWDoAndRDo(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.client().RWMutex("x")
		shared := func(ctx context.Context) bool { token, _ := holdfast.TokenFrom(ctx); return token.Shared() }
		err := errors.Join(
			m.Do(t.Context(), func(ctx context.Context) error {
				if shared(ctx) {
					t.Error("Do was shared")
				}
				return nil
			}),
			m.RDo(t.Context(), func(ctx context.Context) error {
				if !shared(ctx) {
					t.Error("RDo was exclusive")
				}
				return nil
			}))
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestDowngrade(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.client().RWMutex("x")
		writer := r.lock(m.Lock)
		reader, next := r.begin(m.RLock), r.begin(m.Lock)
		shared := r.lease(writer.Downgrade(t.Context()))
		if synctest.Wait(); !reader.holds() || next.done() {
			t.Fatal("after a downgrade readers get in, and writers do not")
		}
		if !errors.Is(writer.Err(), holdfast.ErrNotHeld) || writer.Context().Err() == nil {
			t.Fatalf("the old lease says %v", writer.Err())
		}
		if !errors.Is(writer.Unlock(t.Context()), holdfast.ErrNotHeld) {
			t.Fatal("the old lease could still be unlocked")
		}
		if shared.Token().Ticket() != writer.Token().Ticket() || !shared.Token().Shared() || shared.Err() != nil {
			t.Fatalf("the new lease is %v, %v", shared.Token(), shared.Err())
		}
		if token, ok := holdfast.TokenFrom(shared.Context()); !ok || token != shared.Token() {
			t.Fatalf("the new context has %v", token)
		}
		if _, err := shared.Downgrade(t.Context()); !errors.Is(err, holdfast.ErrDowngrade) {
			t.Fatalf("a second downgrade: %v", err)
		}
		r.pass(10 * ttl) // renewal does not undo it
		if !reader.holds() || shared.Err() != nil || next.done() {
			t.Fatal("it did not stay shared")
		}
		r.unlock(shared)
		r.unlock(reader.lease)
		r.holds(next, "the writer that waited did not get it")
	})
}

func TestDowngradeWhileTheStoreIsOutOfReach(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		writer := r.lock(c.RWMutex("x").Lock)
		reader := r.begin(r.client().RWMutex("x").RLock)
		link.Cut()
		shared, err := writer.Downgrade(t.Context())
		if err != nil || shared.Err() != nil {
			t.Fatalf("an exclusive claim covers a shared one, known to the store or not: %v", err)
		}
		r.waits(reader, "the store cannot know yet")
		link.Heal()
		r.pass(ttl / 3)
		if !reader.holds() || shared.Err() != nil {
			t.Fatal("the keeper did not tell the store")
		}
	})
}

// TestDowngradeEndsTheOldLeaseBeforeTheStoreLearnsOfIt: from then on readers may be let in.
func TestDowngradeEndsTheOldLeaseBeforeTheStoreLearnsOfIt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var writer atomic.Pointer[holdfast.Lease]
		c := r.around(&detour{keep: func(_ context.Context, cs []store.Claim) error {
			if cs[0].Units == 1 && writer.Load().Err() == nil {
				t.Error("readers are let in beside a writer")
			}
			return nil
		}})
		writer.Store(r.lock(c.RWMutex("x").Lock))
		if _, err := writer.Load().Downgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.lock(r.client().RWMutex("x").TryRLock)
	})
}

// TestDowngradeIsRefused checks that a lease which is not a writer's, was pinned, or is lost cannot be downgraded, and
// that one which is held stays held.
func TestDowngradeIsRefused(t *testing.T) {
	for what, test := range map[string]struct {
		lease func(r *rig, c *holdfast.Client) *holdfast.Lease
		want  error
		says  string
	}{
		"semaphore": {func(r *rig, c *holdfast.Client) *holdfast.Lease {
			return r.lock(units(c.Semaphore("x", 1), 1))
		}, holdfast.ErrDowngrade, "semaphore's"},
		"reader": {func(r *rig, c *holdfast.Client) *holdfast.Lease {
			return r.lock(c.RWMutex("x").RLock)
		}, holdfast.ErrDowngrade, "reader's"},
		"pinned": {func(r *rig, c *holdfast.Client) *holdfast.Lease {
			l := r.lock(c.RWMutex("x").Lock)
			_, _, err := l.Pin()
			r.must(err)
			return l
		}, holdfast.ErrDowngrade, "pinned"},
		"lost": {func(r *rig, c *holdfast.Client) *holdfast.Lease {
			l := r.lock(c.RWMutex("x").Lock)
			r.server.Restart(false)
			r.pass(time.Second)
			return l
		}, holdfast.ErrLost, "lease lost"},
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			l := test.lease(r, r.client())
			_, err := l.Downgrade(t.Context())
			if !errors.Is(err, test.want) || errors.Is(err, holdfast.ErrUnsupported) ||
				!strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v", err)
			}
			if what != "lost" {
				r.unlock(l)
			}
		})
	}
}
