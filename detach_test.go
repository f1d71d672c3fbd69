package holdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// detached detaches a lease for d.
func (r *rig) detached(l *holdfast.Lease, d time.Duration) holdfast.Detached {
	r.Helper()
	x, err := l.Detach(r.Context(), d)
	r.must(err)
	return x
}

// TestDetachAndAttach passes a lease on to another process, as text. It is held all the time, by one process or none,
// and has one token.
func TestDetachAndAttach(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		one, two := r.client(holdfast.WithTTL(ttl)), r.client(holdfast.WithTTL(ttl))
		l := r.lock(one.Mutex("job").Lock)
		waiter := r.begin(r.client().Mutex("job").Lock)
		x := r.detached(l, 5*ttl)
		if err := l.Err(); !errors.Is(err, holdfast.ErrNotHeld) || l.Context().Err() == nil {
			t.Errorf("after Detach the lease reports %v", err)
		}
		if err := l.Unlock(t.Context()); !errors.Is(err, holdfast.ErrNotHeld) {
			t.Errorf("Unlock after Detach: %v", err)
		}
		r.must(one.Close())
		r.pass(4 * ttl)
		r.waits(waiter, "the detached lease has not expired")

		text, err := json.Marshal(map[string]holdfast.Detached{"lease": x})
		r.must(err)
		var sent struct{ Lease holdfast.Detached }
		r.must(json.Unmarshal(text, &sent))
		again := r.lease(two.Attach(t.Context(), sent.Lease, holdfast.WithLabel("worker")))
		if again.Token() != l.Token() || x.Token() != l.Token() || x.Name() != "job" {
			t.Errorf("the tokens are %v, %v and %v", l.Token(), x.Token(), again.Token())
		}
		r.pass(10 * ttl)
		r.waits(waiter, "the attached lease is renewed")
		q, err := two.Inspect(t.Context(), "job")
		r.must(err)
		if q.Entries[0].Owner.Label != "worker" || q.Entries[0].Token != l.Token() {
			t.Errorf("the queue shows %+v", q.Entries[0])
		}
		r.unlock(again)
		r.holds(waiter, "the attached lease was unlocked")
	})
}

// TestAttachOnce has several processes attach one lease. One succeeds, and later ones fail for ever.
func TestAttachOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		x := r.detached(r.lock(r.client().Mutex("job").Lock), ttl)
		attach := func(ctx context.Context) (*holdfast.Lease, error) { return r.client().Attach(ctx, x) }
		first := r.lease(attach(t.Context()))
		r.refused("the second", attach, holdfast.ErrLost)
		r.unlock(first)
		r.refused("after its Unlock", attach, holdfast.ErrLost)
		if _, err := r.client().Extend(t.Context(), x, ttl); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Extend of an attached lease: %v", err)
		}
		if err := r.client().Release(t.Context(), x); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Release of an attached lease: %v", err)
		}
	})
}

// TestDetachedExpires detaches a lease that is never attached. Its lock is free when its time has passed, not before.
func TestDetachedExpires(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		x := r.detached(r.lock(c.Mutex("job").Lock), 3*ttl)
		r.pass(2 * ttl)
		until, err := c.Extend(t.Context(), x, 3*ttl)
		r.must(err)
		if d := time.Until(until); d > 3*ttl || d < 3*ttl-time.Second {
			t.Errorf("extended for %v, by %v", 3*ttl, d)
		}
		r.pass(3*ttl - time.Second)
		r.refused("before its end", r.client().Mutex("job").TryLock, holdfast.ErrLocked)
		r.pass(2 * time.Second)
		attach := func(ctx context.Context) (*holdfast.Lease, error) { return c.Attach(ctx, x) }
		r.refused("attached after its end", attach, holdfast.ErrLost)
		r.lock(r.client().Mutex("job").TryLock)
	})
}

func TestReleaseDetached(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		x := r.detached(r.lock(r.client().Mutex("job").Lock), 3*ttl)
		waiter := r.begin(r.client().Mutex("job").Lock)
		r.must(r.client().Release(t.Context(), x))
		r.holds(waiter, "the detached lease was released")
	})
}

// TestDetachShared detaches a reader's lease and units of a semaphore: the others see them as before.
func TestDetachShared(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		reader := r.detached(r.lock(c.RWMutex("book").RLock), 3*ttl)
		r.lock(c.RWMutex("book").RLock)
		r.refused("a writer", c.RWMutex("book").TryLock, holdfast.ErrLocked)
		if l := r.lease(c.Attach(t.Context(), reader)); !l.Token().Shared() {
			t.Errorf("token %v is not marked as shared", l.Token())
		}
		pool := r.detached(r.lock(units(c.Semaphore("pool", 3), 2)), 3*ttl)
		r.refused("two of one", func(ctx context.Context) (*holdfast.Lease, error) {
			return c.Semaphore("pool", 3).TryAcquire(ctx, 2)
		}, holdfast.ErrLocked)
		r.unlock(r.lease(c.Attach(t.Context(), pool)))
		r.lock(units(c.Semaphore("pool", 3), 3))
	})
}

// TestDetachAfterHandOver detaches a lease that was handed over inside its process, while others wait there: its token
// has the turn, and the waiters of the process wait for the store.
func TestDetachAfterHandOver(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		first := r.lock(c.Mutex("job").Lock)
		second, third := r.begin(c.Mutex("job").Lock), r.begin(c.Mutex("job").Lock)
		r.unlock(first)
		r.holds(second, "it was handed over")
		x := r.detached(second.lease, 3*ttl)
		synctest.Wait()
		r.waits(third, "the detached lease is held")
		if x.Token() != second.lease.Token() || x.Token() <= first.Token() {
			t.Errorf("tokens %v, then %v, detached %v", first.Token(), second.lease.Token(), x.Token())
		}
		again := r.lease(r.client().Attach(t.Context(), x))
		if again.Token() != x.Token() {
			t.Errorf("attached with token %v, want %v", again.Token(), x.Token())
		}
		r.unlock(again)
		r.holds(third, "the attached lease was unlocked")
	})
}

// TestDetachRefused has leases that cannot be detached: they are held as before.
func TestDetachRefused(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		refuse := func(what string, l *holdfast.Lease, d time.Duration, why error) {
			t.Helper()
			if _, err := l.Detach(t.Context(), d); !errors.Is(err, why) {
				t.Errorf("%s: %v, want %v", what, err, why)
			}
			if l.Err() != nil {
				t.Errorf("%s: the lease is over: %v", what, l.Err())
			}
		}
		m := c.Mutex("entered", holdfast.WithReentrance())
		outer := r.lock(m.Lock)
		inner := r.lease(m.Lock(outer.Context()))
		refuse("re-entered", outer, ttl, holdfast.ErrDetach)
		r.unlock(inner)
		refuse("no time", outer, 0, holdfast.ErrBadTTL)
		refuse("for ever", outer, 1000*24*time.Hour, holdfast.ErrBadTTL)
		pinned := r.lock(c.Mutex("pinned").Lock)
		_, _, err := pinned.Pin()
		r.must(err)
		refuse("pinned", pinned, ttl, holdfast.ErrDetach)
	})
}

// TestDetachUnknown: the response to Detach is lost. The lease is over, no other has it, and the lock is released.
func TestDetachUnknown(t *testing.T) {
	for name, lose := range map[string]func(linkFaults) func(){
		"request late":  func(l linkFaults) func() { return l.HoldRequests() },
		"response late": func(l linkFaults) func() { return l.HoldReplies() },
	} {
		scene(t, name, func(t *testing.T, r *rig) {
			c, link := r.linked(holdfast.WithTTL(ttl))
			l := r.lock(c.Mutex("job").Lock)
			release := lose(link)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := l.Detach(ctx, 100*ttl); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("without a response: %v", err)
			}
			if !errors.Is(l.Err(), holdfast.ErrNotHeld) {
				t.Errorf("the lease reports %v", l.Err())
			}
			release()
			r.pass(ttl)
			r.lock(r.client().Mutex("job").TryLock)
		})
	}
}

// TestAttachUnknown: the response to Attach is lost. No process has the lease, and its lock is free after its time.
func TestAttachUnknown(t *testing.T) {
	for name, lose := range map[string]func(linkFaults) func(){
		"request late":  func(l linkFaults) func() { return l.HoldRequests() },
		"response late": func(l linkFaults) func() { return l.HoldReplies() },
	} {
		scene(t, name, func(t *testing.T, r *rig) {
			x := r.detached(r.lock(r.client().Mutex("job").Lock), 5*ttl)
			c, link := r.linked(holdfast.WithTTL(ttl))
			release := lose(link)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := c.Attach(ctx, x); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("without a response: %v", err)
			}
			release()
			r.pass(6 * ttl)
			r.lock(r.client().Mutex("job").TryLock)
		})
	}
}

// TestDetachedText: what ParseDetached accepts, it has written; anything else is ErrBadDetached.
func TestDetachedText(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		x := r.detached(r.lock(c.Mutex("a \x01\u202eb/ç").Lock), ttl)
		text := x.String()
		if parsed, err := holdfast.ParseDetached(text); err != nil || parsed != x {
			t.Errorf("%q: %v and %v", text, parsed, err)
		}
		if strings.ContainsAny(text, " \n\"'$`\\*") {
			t.Errorf("%q needs quotes in a shell", text)
		}
		for _, s := range []string{
			"", "hf1.", "hf2" + text[3:], text + "A", text[:len(text)-4], strings.Repeat("x", 1<<20), "hf1.e30",
		} {
			if _, err := holdfast.ParseDetached(s); !errors.Is(err, holdfast.ErrBadDetached) {
				t.Errorf("%.40q: %v", s, err)
			}
		}
		if (holdfast.Detached{}).String() != "" {
			t.Error("an empty one has a text")
		}
		_, err := holdfast.New(memstore.New()).Attach(t.Context(), x)
		if !errors.Is(err, holdfast.ErrBadDetached) {
			t.Errorf("of another store: %v", err)
		}
		_, err = r.client().Attach(t.Context(), holdfast.Detached{})
		if !errors.Is(err, holdfast.ErrBadDetached) {
			t.Errorf("an empty one: %v", err)
		}
	})
}

// FuzzParseDetached: no text makes it panic, and what it accepts it can write again.
func FuzzParseDetached(f *testing.F) {
	f.Add("hf1.e30")
	f.Fuzz(func(t *testing.T, s string) {
		x, err := holdfast.ParseDetached(s)
		if err != nil {
			return
		}
		if again, err := holdfast.ParseDetached(x.String()); err != nil || again != x {
			t.Errorf("%q was accepted, and its text is not: %v", s, err)
		}
	})
}

// TestDetachUnsupported: a store that cannot detach says so, and the lease is held as before.
func TestDetachUnsupported(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := holdfast.New(&detour{Store: r.server.Connect()})
		defer c.Close()
		l := r.lock(c.Mutex("job").Lock)
		if _, err := l.Detach(t.Context(), ttl); !errors.Is(err, holdfast.ErrUnsupported) || l.Err() != nil {
			t.Errorf("Detach: %v, and the lease: %v", err, l.Err())
		}
		_, err := c.Once(t.Context(), "job", "today", ttl, func(context.Context) error { return nil })
		if !errors.Is(err, holdfast.ErrUnsupported) {
			t.Errorf("Once: %v", err)
		}
		r.refused("at least", c.Mutex("x", holdfast.WithAtLeast(ttl)).TryLock, holdfast.ErrUnsupported)
	})
}

// TestAttachUnderLease attaches a lease of a semaphore under another lease of it, with WithReentrance: it is attached,
// and is not the lease around it once more.
func TestAttachUnderLease(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client(holdfast.WithReentrance())
		pool := c.Semaphore("pool", 2)
		x := r.detached(r.lock(units(pool, 1)), 3*ttl)
		outer := r.lock(units(pool, 1))
		inner := r.lease(c.Attach(outer.Context(), x))
		if inner.Token() != x.Token() {
			t.Errorf("attached with token %v, want %v", inner.Token(), x.Token())
		}
		reader := r.detached(r.lock(c.RWMutex("book").RLock), 3*ttl)
		plain := r.client()
		outer = r.lock(plain.RWMutex("book").RLock)
		r.unlock(r.lease(plain.Attach(outer.Context(), reader)))
	})
}

// TestDetachWhileEnding: a lease that is unlocked, or whose client is closed, at the moment of Detach was not lost.
func TestDetachWhileEnding(t *testing.T) {
	for what, end := range map[string]func(*holdfast.Client, *holdfast.Lease) error{
		"Unlock": func(_ *holdfast.Client, l *holdfast.Lease) error { return l.Unlock(context.Background()) },
		"Close":  func(c *holdfast.Client, _ *holdfast.Lease) error { return c.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			server := memstore.NewServer()
			for range 300 {
				c := holdfast.New(server.Connect())
				l, err := c.Mutex("job").Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan error)
				go func() { ended <- end(c, l) }()
				x, detachErr := l.Detach(t.Context(), ttl)
				endErr := <-ended
				if errors.Is(detachErr, holdfast.ErrLost) || errors.Is(endErr, holdfast.ErrLost) {
					t.Fatalf("Detach: %v; %s: %v", detachErr, what, endErr)
				}
				c.Close()
				if other := holdfast.New(server.Connect()); detachErr == nil {
					if err := other.Release(t.Context(), x); err != nil {
						t.Fatal(err)
					}
					other.Close()
				}
			}
		})
	}
}

// TestCloseDuringDetach: the client is closed while Detach has no response. No client has the lease, so its lock must
// not stay taken for as long as it was to be detached.
func TestCloseDuringDetach(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked(holdfast.WithTTL(ttl))
		l := r.lock(c.Mutex("job").Lock)
		release := link.HoldReplies()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		closed := make(chan error)
		go func() {
			time.Sleep(time.Second / 2)
			closed <- c.Close()
		}()
		time.AfterFunc(2*time.Second, release)
		if _, err := l.Detach(ctx, 100*ttl); err == nil {
			t.Fatal("without a response Detach succeeded")
		}
		r.must(<-closed)
		r.pass(2 * ttl)
		r.lock(r.client().Mutex("job").TryLock)
	})
}

// TestExtendWhileClosing: calls for detached leases may be in progress when the client is closed.
func TestExtendWhileClosing(t *testing.T) {
	server := memstore.NewServer()
	for range 100 {
		c := holdfast.New(server.Connect())
		l, err := c.Mutex("job").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		x, err := l.Detach(t.Context(), ttl)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if _, err := c.Extend(t.Context(), x, ttl); err != nil && !errors.Is(err, holdfast.ErrClosed) {
				t.Error(err)
			}
		}()
		c.Close()
		<-done
		other := holdfast.New(server.Connect())
		if err := other.Release(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		other.Close()
	}
}

// TestDetachedTextOfLongNames: every name and prefix that is possible can be written and parsed again.
func TestDetachedTextOfLongNames(t *testing.T) {
	long := strings.Repeat("\x01", store.MaxName)
	s := memstore.NewServer().Connect(memstore.WithPrefix(long))
	c := holdfast.New(s)
	defer c.Close()
	l, err := c.Mutex(long).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x, err := l.Detach(t.Context(), ttl)
	if err != nil {
		t.Fatal(err)
	}
	if parsed, err := holdfast.ParseDetached(x.String()); err != nil || parsed != x {
		t.Errorf("a text of %d bytes: %v", len(x.String()), err)
	}
}
