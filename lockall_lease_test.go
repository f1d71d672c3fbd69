package holdfast_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestLockAllTokensAreInTheOrderOfTheArguments(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		names := []string{"c", "a", "d", "a", "b"}
		m := r.lockAll(mutexes(c, names...)...)
		for i, name := range names {
			queue, err := c.Inspect(t.Context(), name)
			if err != nil || len(queue.Entries) != 1 || queue.Entries[0].Token != m.Tokens()[i] {
				t.Errorf("%s has %+v, %v; token %d is %v", name, queue, err, i, m.Tokens()[i])
			}
		}
		tokens := m.Tokens()
		tokens[0] = 0
		if m.Tokens()[0] == 0 {
			t.Error("a caller can change them")
		}
	})
}

func TestLockAllEndsWithAnyPart(t *testing.T) {
	for _, name := range []string{"a", "b", "c"} {
		scene(t, name, func(t *testing.T, r *rig) {
			names := []string{"a", "b", "c"}
			m := r.lockAll(mutexes(r.client(), names...)...)
			derived, cancel := context.WithCancel(m.Context())
			defer cancel()
			if m.Err() != nil || derived.Err() != nil {
				t.Fatalf("it says %v", m.Err())
			}
			r.must(r.client().Break(t.Context(), name, m.Tokens()[slices.Index(names, name)]))
			synctest.Wait() // the store pushes at once
			select {
			case <-derived.Done():
			default:
				t.Fatal("the context goes on")
			}
			for _, ctx := range []context.Context{m.Context(), derived} {
				if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), holdfast.ErrLost) {
					t.Errorf("the context says %v", context.Cause(ctx))
				}
			}
			var e *holdfast.Error
			if err := m.Err(); !errors.Is(err, holdfast.ErrLost) || !errors.As(err, &e) || e.Name != name {
				t.Errorf("it says %v", err)
			}
			err := m.Unlock(t.Context())
			if !errors.Is(err, holdfast.ErrLost) || !errors.As(err, &e) || e.Name != name ||
				strings.Count(err.Error(), `"`) != 2 {
				t.Errorf("Unlock: %v", err)
			}
			r.free(names...)
			r.nothingRemains(names...)
		})
	}
}

// A gate is an Observer that lets a test do something in the middle of a client: Holding is called while the client
// can do nothing else, and so its keeper cannot run.
type gate struct {
	holdfast.NopObserver
	name string
	do   func()
}

func (g *gate) Holding(ctx context.Context, r holdfast.Request, _ holdfast.Token) (context.Context, func(error)) {
	if r.Name == g.name {
		g.do()
	}
	return ctx, nil
}

// TestLockAllReportsLossAtTheFirstCall: a part expires unnoticed, and the context is checked at
// that very instant.
func TestLockAllReportsLossAtTheFirstCall(t *testing.T) {
	for i, name := range []string{"a", "b", "c"} {
		for what, over := range map[string]func(m *holdfast.MultiLease) bool{
			"Err": func(m *holdfast.MultiLease) bool { return errors.Is(m.Err(), holdfast.ErrLost) },
			"Err of the context": func(m *holdfast.MultiLease) bool {
				return m.Context().Err() != nil && errors.Is(context.Cause(m.Context()), holdfast.ErrLost)
			},
			"Done of the context": func(m *holdfast.MultiLease) bool {
				select {
				case <-m.Context().Done():
					return errors.Is(context.Cause(m.Context()), holdfast.ErrLost)
				default:
					return false
				}
			},
		} {
			scene(t, name+"/"+what, func(t *testing.T, r *rig) {
				const fixed = 500 * time.Millisecond // before the keeper first looks at the clocks
				g := &gate{name: "gate"}
				c := r.client(holdfast.WithObserver(g))
				options := make([][]holdfast.Option, 3)
				options[i] = []holdfast.Option{holdfast.WithFixedTTL(fixed)}
				m := r.lockAll(c.Mutex("a", options[0]...), c.Mutex("b", options[1]...), c.Mutex("c", options[2]...))
				end := m.Until()
				if time.Until(end) != fixed {
					t.Fatalf("it is held for %v", time.Until(end))
				}
				asked := false
				g.do = func() {
					asked = true
					time.Sleep(time.Until(end) - time.Nanosecond)
					if m.Err() != nil || m.Context().Err() != nil {
						t.Error("it was over too early")
					}
					time.Sleep(time.Nanosecond)
					if !over(m) {
						t.Error("it was over, and did not say so")
					}
				}
				r.lock(c.Mutex("gate").Lock)
				if !asked {
					t.Fatal("there was no call")
				}
				var e *holdfast.Error
				if err := m.Err(); !errors.As(err, &e) || e.Name != name {
					t.Errorf("it says %v", err)
				}
			})
		}
	}
}

func TestLockAllUntilIsTheEarliest(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		for i := range 3 {
			ttls := []time.Duration{ttl, ttl, ttl}
			ttls[i] = ttl / 3
			m := r.lockAll(c.Mutex("a", holdfast.WithTTL(ttls[0])), c.Mutex("b", holdfast.WithTTL(ttls[1])),
				c.Mutex("c", holdfast.WithTTL(ttls[2])))
			if left := time.Until(m.Until()); left > ttl/3 || left < ttl/4 {
				t.Errorf("with the short one at %d it is %v", i, left)
			}
			r.pass(10 * ttl) // renewal goes on for all
			if m.Err() != nil || m.Context().Err() != nil || time.Until(m.Until()) <= 0 {
				t.Errorf("it was not renewed: %v", m.Err())
			}
			r.check(m.Unlock(t.Context()))
		}
	})
}

func TestLockAllUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		names := []string{"a", "b", "c"}
		m := r.lockAll(mutexes(r.client(), names...)...)
		var none context.Context
		if err := m.Unlock(none); !errors.Is(err, holdfast.ErrNilContext) || m.Err() != nil {
			t.Fatalf("with a nil context: %v, and it says %v", err, m.Err())
		}
		r.must(m.Unlock(t.Context()))
		if !errors.Is(m.Context().Err(), context.Canceled) ||
			!errors.Is(context.Cause(m.Context()), holdfast.ErrNotHeld) {
			t.Errorf("the context says %v", context.Cause(m.Context()))
		}
		next := r.lockAll(mutexes(r.client(), names...)...)
		if err := m.Unlock(t.Context()); !errors.Is(err, holdfast.ErrNotHeld) || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("twice: %v", err)
		}
		if synctest.Wait(); next.Err() != nil || !errors.Is(m.Err(), holdfast.ErrNotHeld) {
			t.Errorf("%v; the next says %v", m.Err(), next.Err())
		}
		r.check(next.Unlock(t.Context()))
		r.nothingRemains(names...)
	})
}

func TestLockAllUnlockIsSentWithAnEndedContext(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.lockAll(mutexes(r.client(), "a", "b")...)
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if err := m.Unlock(done); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		r.free("a", "b")
	})
}

func TestLockAllContext(t *testing.T) {
	type key struct{}
	bubble(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Minute)
		m, err := holdfast.LockAll(ctx, mutexes(r.client(), "a", "b")...)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if m.Context().Value(key{}) != "value" || m.Context().Err() != nil || m.Err() != nil {
			t.Fatalf("%v, %v", m.Context().Value(key{}), m.Context().Err())
		}
		if _, ok := m.Context().Deadline(); ok {
			t.Error("LockAll's deadline went on into the lease")
		}
	})
}

func TestLockAllWait(t *testing.T) {
	for what, parts := range map[string]func(c *holdfast.Client) []holdfast.Part{
		"of the part that is taken": func(c *holdfast.Client) []holdfast.Part {
			return []holdfast.Part{c.Mutex("a"), c.Mutex("b", holdfast.WithWait(time.Minute))}
		},
		"of another": func(c *holdfast.Client) []holdfast.Part {
			return []holdfast.Part{c.Mutex("a", holdfast.WithWait(time.Minute)), c.Mutex("b")}
		},
		"the shortest": func(c *holdfast.Client) []holdfast.Part {
			return []holdfast.Part{c.Mutex("a", holdfast.WithWait(time.Hour)),
				c.Mutex("b", holdfast.WithWait(time.Minute))}
		},
		"of a duplicate": func(c *holdfast.Client) []holdfast.Part {
			return []holdfast.Part{c.Mutex("a"), c.Mutex("b"), c.Mutex("b", holdfast.WithWait(time.Minute))}
		},
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			other := r.client()
			a, b := r.lock(other.Mutex("a").Lock), r.lock(other.Mutex("b").Lock)
			time.AfterFunc(40*time.Second, func() { r.unlock(a) }) // the wait for this one counts too
			ctx := r.within(2 * time.Hour)
			began := time.Now()
			_, err := holdfast.LockAll(ctx, parts(r.client())...)
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrLocked) ||
				time.Since(began) != time.Minute {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			synctest.Wait()
			r.free("a")
			r.unlock(b)
		})
	}
}

func TestLockAllIsOneOwner(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, there := r.client(), &rig{t, memstore.NewServer()}
		owners := func(m *holdfast.MultiLease, s store.Store, names ...string) (ids []string) {
			t.Helper()
			for _, name := range names {
				queue, err := s.Queue(t.Context(), name)
				if err != nil || len(queue.Entries) != 1 {
					t.Fatalf("%+v, %v", queue, err)
				}
				id := queue.Entries[0].Owner.ID
				if id == "" {
					id = queue.Entries[0].ID.String()
				}
				ids = append(ids, id)
			}
			r.must(m.Unlock(t.Context()))
			return ids
		}
		look := r.server.Connect()
		defer look.Close()
		ids := owners(r.lockAll(mutexes(c, "c", "b", "a")...), look, "a", "b", "c")
		if len(slices.Compact(ids)) != 1 {
			t.Errorf("the owners are %q", ids)
		}
		given := holdfast.WithOwner("request 7")
		ids = owners(r.lockAll(c.Mutex("a", given), c.Mutex("b"), c.Mutex("c", given)), look, "a", "b", "c")
		if len(slices.Compact(ids)) != 1 || ids[0] != "request 7" {
			t.Errorf("with a given one they are %q", ids)
		}
		lookThere := there.server.Connect()
		defer lookThere.Close()
		m := r.lockAll(c.Mutex("a", given), there.client(given).Mutex("a"))
		queue, err := look.Queue(t.Context(), "a")
		if err != nil || queue.Entries[0].Owner.ID != "request 7" {
			t.Errorf("%+v, %v", queue, err)
		}
		if ids := owners(m, lookThere, "a"); ids[0] != "request 7" {
			t.Errorf("over two stores it is %q", ids)
		}
		if n := c.Owners(); n != 0 {
			t.Errorf("%d owners are left behind", n)
		}
	})
}

func TestLockAllUnderALease(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n := r.counted()
		again := holdfast.WithReentrance()
		outer := r.lock(c.Mutex("b", again).Lock)
		if _, err := holdfast.LockAll(outer.Context(), mutexes(c, "a", "b", "c")...); !errors.Is(err,
			holdfast.ErrReentered) {
			t.Fatalf("without Reentrant: %v", err)
		}
		r.free("a", "c")
		joins, leaves := n.joins.Load(), n.leaves.Load()
		m, err := holdfast.LockAll(outer.Context(), c.Mutex("a", again), c.Mutex("b", again), c.RWMutex("c", again))
		if err != nil {
			t.Fatal(err)
		}
		if m.Tokens()[1] != outer.Token() || n.joins.Load()-joins != 2 {
			t.Errorf("token %v under %v, %d joins", m.Tokens()[1], outer.Token(), n.joins.Load()-joins)
		}
		inner, err := holdfast.LockAll(m.Context(), c.RWMutex("c", again).Reader(), c.Mutex("a", again))
		if err != nil {
			t.Fatal(err)
		}
		if n.joins.Load()-joins != 2 {
			t.Errorf("what it has was asked for again")
		}
		for _, m := range []*holdfast.MultiLease{inner, m} {
			r.must(m.Unlock(t.Context()))
		}
		if outer.Err() != nil || n.leaves.Load()-leaves != 2 {
			t.Errorf("the outer lease says %v, %d leaves", outer.Err(), n.leaves.Load()-leaves)
		}
		r.unlock(outer)
		r.free("b")
		if n := c.Owners(); n != 0 {
			t.Errorf("%d owners are left behind", n)
		}
	})
}

// TestLockAllUnderALeaseCanDeadlock: a lock that is held around it is not part of its order. Such a deadlock is found
// like any other.
func TestLockAllUnderALeaseCanDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.client(), r.client()
		x, y := r.lock(a.Mutex("x").Lock), r.lock(b.Mutex("y").Lock)
		var one, two *holdfast.MultiLease
		calls := []*call{
			r.begin(under(x, all(&one, mutexes(a, "p", "y")...))),
			r.begin(under(y, all(&two, mutexes(b, "q", "x")...))),
		}
		r.pass(2 * time.Second)
		victim := slices.IndexFunc(calls, (*call).done)
		if victim < 0 || calls[1-victim].done() || !errors.Is(calls[victim].err, holdfast.ErrDeadlock) {
			t.Fatalf("%d is the victim: %v, %v", victim, calls[0].err, calls[1].err)
		}
		r.free([]string{"p", "q"}[victim]) // it has released what it held by then
		r.unlock([]*holdfast.Lease{x, y}[victim])
		if synctest.Wait(); !calls[1-victim].done() || calls[1-victim].err != nil {
			t.Fatalf("the other does not go on: %v", calls[1-victim].err)
		}
	})
}
