package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// lockAll takes locks that are free.
func (r *rig) lockAll(parts ...holdfast.Part) *holdfast.MultiLease {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	m, err := holdfast.LockAll(ctx, parts...)
	if err != nil {
		r.Fatal(err)
	}
	return m
}

// all is a LockAll that begin can start. What it takes comes into m.
func all(m **holdfast.MultiLease, parts ...holdfast.Part) locker {
	return func(ctx context.Context) (_ *holdfast.Lease, err error) {
		*m, err = holdfast.LockAll(ctx, parts...)
		return nil, err
	}
}

// mutexes are mutexes of a client, as parts.
func mutexes(c *holdfast.Client, names ...string) []holdfast.Part {
	var parts []holdfast.Part
	for _, name := range names {
		parts = append(parts, c.Mutex(name))
	}
	return parts
}

// free checks that names can be taken at once, by somebody else.
func (r *rig) free(names ...string) {
	r.Helper()
	c := r.client()
	for _, name := range names {
		if l, err := c.Mutex(name).TryLock(r.Context()); err != nil {
			r.Errorf("%q is not free: %v", name, err)
		} else {
			r.unlock(l)
		}
	}
}

// noResidue checks that the server forgets names.
func (r *rig) noResidue(names ...string) {
	r.Helper()
	r.pass(2 * ttl)
	for _, name := range names {
		if n := r.server.Residue(name); n != 0 {
			r.Errorf("%d things are left of %q", n, name)
		}
	}
}

func TestLockAllIsAllOrNothing(t *testing.T) {
	for _, taken := range []string{"a", "b", "c"} {
		t.Run(taken, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				other := r.lock(r.client(holdfast.Label("nightly")).Mutex(taken).Lock)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				m, err := holdfast.LockAll(ctx, mutexes(r.client(), "c", "a", "b")...)
				var locked *holdfast.LockedError
				if m != nil || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrLocked) || !errors.As(err, &locked) {
					t.Fatalf("got %v, %v", m, err)
				}
				if locked.Name != taken || locked.Holder.Label != "nightly" || locked.Token != other.Token() || time.Since(began) != time.Minute {
					t.Errorf("after %v: %+v", time.Since(began), locked)
				}
				synctest.Wait()
				for _, name := range []string{"a", "b", "c"} {
					if name != taken {
						r.free(name)
					}
				}
				if other.Err() != nil {
					t.Errorf("the other lost it: %v", other.Err())
				}
				r.unlock(other)
				r.noResidue("a", "b", "c")
			})
		})
	}
}

// TestLockAllThatFailsSaysOneThing: the error is about the lock that was not got, in one line.
func TestLockAllThatFailsSaysOneThing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.lock(r.client().Mutex("c").Lock)
		_, err := holdfast.LockAll(t.Context(), r.client().Mutex("a"), r.client().Mutex("b"), r.client().Mutex("c", holdfast.Wait(time.Second)))
		if err == nil || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "unlock") || !strings.Contains(err.Error(), `"c"`) {
			t.Fatalf("it reads %v", err)
		}
	})
}

func TestLockAllCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.lock(r.client().Mutex("b").Lock)
		why := errors.New("the user went away")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		_, err := holdfast.LockAll(ctx, mutexes(r.client(), "a", "b")...)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || errors.Is(err, holdfast.ErrLocked) {
			t.Fatalf("got %v", err)
		}
		synctest.Wait()
		r.free("a")
		if _, err := holdfast.LockAll(ctx, mutexes(r.client(), "c", "d")...); !errors.Is(err, context.Canceled) {
			t.Fatalf("with a context that is done: %v", err)
		}
		r.noResidue("a", "c", "d")
	})
}

// TestLockAllNeverDeadlocks: whatever the order of the arguments, over two servers, by many goroutines of several
// processes. Everybody holds for long enough that deadlocks are searched for, and none may be reported.
func TestLockAllNeverDeadlocks(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const processes, goroutines, rounds, names = 3, 6, 4, 3
		servers := []*rig{r, {t, memstore.NewServer()}}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		var inside [2][names]atomic.Int32
		var wg sync.WaitGroup
		for p := range processes {
			clients := []*holdfast.Client{servers[0].client(), servers[1].client()}
			for g := range goroutines {
				chance := rand.New(rand.NewPCG(uint64(p), uint64(g)))
				wg.Go(func() {
					for range rounds {
						var parts []holdfast.Part
						var counts []*atomic.Int32
						for _, i := range chance.Perm(2 * names)[:2+chance.IntN(2*names-1)] {
							parts = append(parts, clients[i%2].Mutex(fmt.Sprint(i/2)))
							counts = append(counts, &inside[i%2][i/2])
						}
						m, err := holdfast.LockAll(ctx, parts...)
						if err != nil {
							t.Error(err)
							return
						}
						for _, n := range counts {
							if n.Add(1) != 1 {
								t.Error("two hold one")
							}
						}
						time.Sleep(time.Duration(chance.Int64N(int64(2 * time.Second))))
						for _, n := range counts {
							n.Add(-1)
						}
						if err := m.Unlock(ctx); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		for _, s := range servers {
			s.noResidue("0", "1", "2")
		}
	})
}

func TestLockAllReversed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		names := []string{"a", "b", "c", "d"}
		var wg sync.WaitGroup
		for range 2 {
			parts := mutexes(r.client(), names...)
			slices.Reverse(names)
			for range 20 {
				wg.Go(func() {
					m, err := holdfast.LockAll(ctx, parts...)
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Second)
					if err := m.Unlock(ctx); err != nil {
						t.Error(err)
					}
				})
			}
		}
		began := time.Now()
		wg.Wait()
		if d := time.Since(began); d > 41*time.Second {
			t.Errorf("40 that hold for a second each took %v", d)
		}
		r.noResidue(names...)
	})
}

// TestLockAllOrdersTenants: the same name of two tenants of one server is two locks, and these too are taken in one
// order by every process.
func TestLockAllOrdersTenants(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		tenant := func(prefix string) *holdfast.Client {
			c := holdfast.New(r.server.Connect(memstore.Prefix(prefix)))
			r.Cleanup(func() { c.Close() })
			return c
		}
		held := r.lock(tenant("one/").Mutex("x").Lock)
		firsts := map[bool]int{}
		for range 20 { // as many processes
			one, two := tenant("one/"), tenant("two/")
			var m *holdfast.MultiLease
			wait := r.begin(all(&m, one.Mutex("x"), two.Mutex("x")))
			line, err := two.Inspect(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			firsts[len(line.Places) > 0]++
			wait.end()
			synctest.Wait()
		}
		if len(firsts) != 1 {
			t.Errorf("the second tenant's came first for %d of 20 processes: two of them can wait for each other", firsts[true])
		}
		r.unlock(held)
	})
}

// TestLockAllOfOneLockByTwoClients: a lock that is named twice is taken once, also if two clients of one store name it.
func TestLockAllOfOneLockByTwoClients(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.client(), r.client()
		var m *holdfast.MultiLease
		twice := r.begin(all(&m, a.RWMutex("x").Reader(), b.Mutex("x")))
		r.pass(time.Minute)
		if !twice.done() || twice.err != nil {
			t.Fatalf("it waits for itself: %v, or has failed: %v", !twice.done(), twice.err)
		}
		line, err := a.Inspect(t.Context(), "x")
		if err != nil || len(line.Places) != 1 || line.Places[0].Units != store.MaxReaders {
			t.Fatalf("the line is %+v, %v", line, err)
		}
		if token := line.Places[0].Token; m.Tokens()[0] != token || m.Tokens()[1] != token {
			t.Errorf("the tokens are %v, want %v", m.Tokens(), token)
		}
		if err := m.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		r.noResidue("x")
	})
}

func TestLockAllMixed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, other := r.client(), r.client()
		pool := func(c *holdfast.Client) *holdfast.Semaphore { return c.Semaphore("pool", 5) }
		m := r.lockAll(c.Mutex("mutex"), c.RWMutex("write"), c.RWMutex("read").Reader(), pool(c).Units(3))
		for i, shared := range []bool{false, false, true, true} {
			if token := m.Tokens()[i]; token.Shared() != shared {
				t.Errorf("token %d is shared: %v", i, token.Shared())
			}
		}
		refused := func(what string, lock locker) {
			t.Helper()
			if _, err := lock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
				t.Errorf("%s: %v", what, err)
			}
		}
		refused("the mutex", other.Mutex("mutex").TryLock)
		refused("reading beside the writer", other.RWMutex("write").TryRLock)
		refused("writing beside the reader", other.RWMutex("read").TryLock)
		refused("three of five beside three", func(ctx context.Context) (*holdfast.Lease, error) { return pool(other).TryAcquire(ctx, 3) })
		second := r.lockAll(other.RWMutex("read").Reader(), pool(other).Units(2)) // there is room for these
		for _, m := range []*holdfast.MultiLease{m, second} {
			if err := m.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
		r.noResidue("mutex", "write", "read", "pool")
	})
}

func TestLockAllOverTwoServers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		here, there := r, &rig{t, memstore.NewServer()}
		a, b := here.client(), there.client()
		m := r.lockAll(a.Mutex("x"), b.Mutex("x"), a.Mutex("y"), b.Mutex("y"))
		for _, c := range []*holdfast.Client{here.client(), there.client()} {
			for _, name := range []string{"x", "y"} {
				if _, err := c.Mutex(name).TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		there.server.Restart(false) // one of two stores is enough
		synctest.Wait()
		if m.Context().Err() == nil || !errors.Is(m.Err(), holdfast.ErrLost) {
			t.Errorf("it says %v", m.Err())
		}
		if err := m.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock: %v", err)
		}
		here.free("x", "y")
		there.free("x", "y")
		here.noResidue("x", "y")
		there.noResidue("x", "y")
	})
}

func TestLockAllDuplicates(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n := r.counted()
		x := c.RWMutex("x")
		pool := c.Semaphore("pool", 5)
		for what, test := range map[string]struct {
			parts  []holdfast.Part
			name   string
			units  int
			shared bool
		}{
			"mutex twice":         {[]holdfast.Part{c.Mutex("x"), c.Mutex("x")}, "x", store.MaxReaders, false},
			"mutex and writer":    {[]holdfast.Part{c.Mutex("x"), x}, "x", store.MaxReaders, false},
			"write and read":      {[]holdfast.Part{x, x.Reader()}, "x", store.MaxReaders, false},
			"read and write":      {[]holdfast.Part{x.Reader(), x}, "x", store.MaxReaders, false},
			"read twice":          {[]holdfast.Part{x.Reader(), x.Reader()}, "x", 1, true},
			"units are added":     {[]holdfast.Part{pool.Units(2), pool.Units(1)}, "pool", 3, true},
			"units up to the sum": {[]holdfast.Part{pool.Units(2), pool.Units(2), pool.Units(1)}, "pool", 5, true},
		} {
			joins, leaves := n.joins.Load(), n.leaves.Load()
			m := r.lockAll(append(test.parts, c.Mutex("other"))...)
			line, err := c.Inspect(t.Context(), test.name)
			if err != nil || len(line.Holders()) != 1 || line.Places[0].Units != test.units {
				t.Fatalf("%s: the line is %+v, %v", what, line, err)
			}
			tokens := m.Tokens()
			if len(tokens) != len(test.parts)+1 || tokens[0].Shared() != test.shared {
				t.Errorf("%s: the tokens are %v", what, tokens)
			}
			for i := range test.parts {
				if tokens[i] != line.Places[0].Token {
					t.Errorf("%s: token %d is %v, want %v", what, i, tokens[i], line.Places[0].Token)
				}
			}
			if err := m.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
			if j, l := n.joins.Load()-joins, n.leaves.Load()-leaves; j != 2 || l != 2 {
				t.Errorf("%s: %d joins and %d leaves of two locks", what, j, l)
			}
		}
	})
}

func TestLockAllBadInput(t *testing.T) {
	var none context.Context
	ctx := context.Background()
	for what, bad := range map[string]struct {
		ctx   context.Context
		parts func(c *holdfast.Client) []holdfast.Part
		want  error
	}{
		"no parts":    {ctx, func(*holdfast.Client) []holdfast.Part { return nil }, holdfast.ErrBadOption},
		"nil part":    {ctx, func(c *holdfast.Client) []holdfast.Part { return []holdfast.Part{c.Mutex("x"), nil} }, holdfast.ErrBadOption},
		"nil context": {none, func(c *holdfast.Client) []holdfast.Part { return mutexes(c, "x") }, holdfast.ErrNilContext},
		"bad name":    {ctx, func(c *holdfast.Client) []holdfast.Part { return mutexes(c, "x", "") }, holdfast.ErrBadName},
		"bad option": {ctx, func(c *holdfast.Client) []holdfast.Part {
			return []holdfast.Part{c.Mutex("x"), c.Mutex("y", holdfast.Wait(-1))}
		}, holdfast.ErrBadOption},
		"bad ttl": {ctx, func(c *holdfast.Client) []holdfast.Part {
			return []holdfast.Part{c.Mutex("x"), c.RWMutex("y", holdfast.TTL(-1)).Reader()}
		}, holdfast.ErrBadTTL},
		"no units": {ctx, func(c *holdfast.Client) []holdfast.Part {
			return []holdfast.Part{c.Mutex("x"), c.Semaphore("y", 5).Units(0)}
		}, holdfast.ErrBadUnits},
		"too many units": {ctx, func(c *holdfast.Client) []holdfast.Part {
			return []holdfast.Part{c.Mutex("x"), c.Semaphore("y", 5).Units(6)}
		}, holdfast.ErrBadUnits},
		"too many units together": {ctx, func(c *holdfast.Client) []holdfast.Part {
			return []holdfast.Part{c.Mutex("x"), c.Semaphore("y", 5).Units(3), c.Semaphore("y", 5).Units(3)}
		}, holdfast.ErrBadUnits},
		"bad limit": {ctx, func(c *holdfast.Client) []holdfast.Part {
			return []holdfast.Part{c.Mutex("x"), c.Semaphore("y", 0).Units(1)}
		}, holdfast.ErrBadUnits},
		"two kinds": {ctx, func(c *holdfast.Client) []holdfast.Part {
			return []holdfast.Part{c.Mutex("x"), c.Mutex("y"), c.Semaphore("y", 5).Units(1)}
		}, holdfast.ErrMismatch},
		"two limits": {ctx, func(c *holdfast.Client) []holdfast.Part {
			return []holdfast.Part{c.Mutex("x"), c.Semaphore("y", 4).Units(1), c.Semaphore("y", 5).Units(1)}
		}, holdfast.ErrMismatch},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				c, n := r.counted()
				m, err := holdfast.LockAll(bad.ctx, bad.parts(c)...)
				if m != nil || !errors.Is(err, bad.want) {
					t.Fatalf("got %v, %v, want %v", m, err, bad.want)
				}
				if !strings.HasPrefix(err.Error(), "holdfast: lock all: ") || strings.Contains(err.Error(), "\n") {
					t.Errorf("it reads %q", err)
				}
				if n.joins.Load() != 0 {
					t.Errorf("%d were joined", n.joins.Load())
				}
			})
		})
	}
}

func TestLockAllOfAClosedClient(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		open, closed := r.client(), r.client()
		closed.Close()
		if _, err := holdfast.LockAll(t.Context(), open.Mutex("a"), closed.Mutex("b")); !errors.Is(err, holdfast.ErrClosed) {
			t.Fatalf("got %v", err)
		}
		r.free("a")
		m := r.lockAll(open.Mutex("a"), r.client().Mutex("b"))
		open.Close()
		if m.Context().Err() == nil || !errors.Is(m.Err(), holdfast.ErrClosed) || !errors.Is(context.Cause(m.Context()), holdfast.ErrClosed) {
			t.Fatalf("it says %v", m.Err())
		}
		if err := m.Unlock(t.Context()); !errors.Is(err, holdfast.ErrClosed) {
			t.Errorf("Unlock: %v", err)
		}
		r.free("a", "b")
	})
}

func TestLockAllMismatchInTheLine(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		r.lock(r.client().Mutex("b").Lock)
		if _, err := holdfast.LockAll(t.Context(), c.Mutex("a"), c.Semaphore("b", 5).Units(1)); !errors.Is(err, holdfast.ErrMismatch) {
			t.Fatalf("got %v", err)
		}
		r.free("a")
	})
}

func TestLockAllTokensAreInTheOrderOfTheArguments(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		names := []string{"c", "a", "d", "a", "b"}
		m := r.lockAll(mutexes(c, names...)...)
		for i, name := range names {
			line, err := c.Inspect(t.Context(), name)
			if err != nil || len(line.Places) != 1 || line.Places[0].Token != m.Tokens()[i] {
				t.Errorf("%s has %+v, %v; token %d is %v", name, line, err, i, m.Tokens()[i])
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
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				names := []string{"a", "b", "c"}
				m := r.lockAll(mutexes(r.client(), names...)...)
				derived, cancel := context.WithCancel(m.Context())
				defer cancel()
				if m.Err() != nil || derived.Err() != nil {
					t.Fatalf("it says %v", m.Err())
				}
				if err := r.client().Break(t.Context(), name, m.Tokens()[slices.Index(names, name)]); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // the store tells at once
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
				if !errors.Is(err, holdfast.ErrLost) || !errors.As(err, &e) || e.Name != name || strings.Count(err.Error(), `"`) != 2 {
					t.Errorf("Unlock: %v", err)
				}
				r.free(names...)
				r.noResidue(names...)
			})
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

// TestLockAllTellsTheTruthWhenAsked: the time of a part runs out, nobody has noticed, and the context is asked at
// that very instant.
func TestLockAllTellsTheTruthWhenAsked(t *testing.T) {
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
			t.Run(name+"/"+what, func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					const fixed = 500 * time.Millisecond // before the keeper first looks at the clocks
					g := &gate{name: "gate"}
					c := r.client(holdfast.Observe(g))
					options := make([][]holdfast.Option, 3)
					options[i] = []holdfast.Option{holdfast.FixedTTL(fixed)}
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
						t.Fatal("nobody asked")
					}
					var e *holdfast.Error
					if err := m.Err(); !errors.As(err, &e) || e.Name != name {
						t.Errorf("it says %v", err)
					}
				})
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
			m := r.lockAll(c.Mutex("a", holdfast.TTL(ttls[0])), c.Mutex("b", holdfast.TTL(ttls[1])), c.Mutex("c", holdfast.TTL(ttls[2])))
			if left := time.Until(m.Until()); left > ttl/3 || left < ttl/4 {
				t.Errorf("with the short one at %d it is %v", i, left)
			}
			r.pass(10 * ttl) // renewal goes on for all
			if m.Err() != nil || m.Context().Err() != nil || time.Until(m.Until()) <= 0 {
				t.Errorf("it was not renewed: %v", m.Err())
			}
			if err := m.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
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
		if err := m.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(m.Context().Err(), context.Canceled) || !errors.Is(context.Cause(m.Context()), holdfast.ErrNotHeld) {
			t.Errorf("the context says %v", context.Cause(m.Context()))
		}
		next := r.lockAll(mutexes(r.client(), names...)...)
		if err := m.Unlock(t.Context()); !errors.Is(err, holdfast.ErrNotHeld) || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("twice: %v", err)
		}
		if synctest.Wait(); next.Err() != nil || !errors.Is(m.Err(), holdfast.ErrNotHeld) {
			t.Errorf("%v; the next says %v", m.Err(), next.Err())
		}
		if err := next.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		r.noResidue(names...)
	})
}

func TestLockAllUnlockIsSentWhateverItsContextSays(t *testing.T) {
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
			return []holdfast.Part{c.Mutex("a"), c.Mutex("b", holdfast.Wait(time.Minute))}
		},
		"of another": func(c *holdfast.Client) []holdfast.Part {
			return []holdfast.Part{c.Mutex("a", holdfast.Wait(time.Minute)), c.Mutex("b")}
		},
		"the shortest": func(c *holdfast.Client) []holdfast.Part {
			return []holdfast.Part{c.Mutex("a", holdfast.Wait(time.Hour)), c.Mutex("b", holdfast.Wait(time.Minute))}
		},
		"of a duplicate": func(c *holdfast.Client) []holdfast.Part {
			return []holdfast.Part{c.Mutex("a"), c.Mutex("b"), c.Mutex("b", holdfast.Wait(time.Minute))}
		},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				other := r.client()
				a, b := r.lock(other.Mutex("a").Lock), r.lock(other.Mutex("b").Lock)
				time.AfterFunc(40*time.Second, func() { r.unlock(a) }) // the wait for this one counts too
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				began := time.Now()
				_, err := holdfast.LockAll(ctx, parts(r.client())...)
				if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrLocked) || time.Since(began) != time.Minute {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				synctest.Wait()
				r.free("a")
				r.unlock(b)
			})
		})
	}
}

func TestLockAllStopsWaitingWhenAPartIsLost(t *testing.T) {
	for what, lose := range map[string]func(r *rig, token holdfast.Token){
		"broken": func(r *rig, token holdfast.Token) {
			if err := r.client().Break(r.Context(), "a", token); err != nil {
				r.Fatal(err)
			}
		},
		"run out": func(r *rig, _ holdfast.Token) { r.pass(ttl) },
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				c, other := r.client(), r.client()
				held := r.lock(other.Mutex("c").Lock)
				var m *holdfast.MultiLease
				wait := r.begin(all(&m, c.Mutex("c"), c.Mutex("b"), c.Mutex("a", holdfast.FixedTTL(ttl))))
				line, err := other.Inspect(t.Context(), "a")
				if err != nil || wait.done() || len(line.Holders()) != 1 {
					t.Fatalf("%+v, %v", line, err)
				}
				lose(r, line.Places[0].Token)
				if synctest.Wait(); !wait.done() || !errors.Is(wait.err, holdfast.ErrLost) || errors.Is(wait.err, holdfast.ErrLocked) {
					t.Fatalf("it has returned: %v, with %v", wait.done(), wait.err)
				}
				r.free("a", "b")
				r.unlock(held)
				r.noResidue("a", "b", "c")
			})
		})
	}
}

func TestLockAllCostsOneCallEach(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, n := r.counted()
		var parts []holdfast.Part
		for i := range 10 {
			parts = append(parts, c.Mutex(fmt.Sprint(i)))
		}
		m := r.lockAll(parts...)
		if err := m.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.pass(ttl)
		if n.joins.Load() != 10 || n.leaves.Load() != 10 || n.keeps.Load() != 0 {
			t.Fatalf("%d joins, %d leaves, %d keeps for 10 locks", n.joins.Load(), n.leaves.Load(), n.keeps.Load())
		}
	})
}

func TestLockAllIsOneOwner(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, there := r.client(), &rig{t, memstore.NewServer()}
		owners := func(m *holdfast.MultiLease, s store.Store, names ...string) (ids []string) {
			t.Helper()
			for _, name := range names {
				line, err := s.Line(t.Context(), name)
				if err != nil || len(line.Places) != 1 {
					t.Fatalf("%+v, %v", line, err)
				}
				id := line.Places[0].Owner.ID
				if id == "" {
					id = line.Places[0].ID.String()
				}
				ids = append(ids, id)
			}
			if err := m.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			return ids
		}
		look := r.server.Connect()
		defer look.Close()
		ids := owners(r.lockAll(mutexes(c, "c", "b", "a")...), look, "a", "b", "c")
		if len(slices.Compact(ids)) != 1 {
			t.Errorf("the owners are %q", ids)
		}
		given := holdfast.Owner("request 7")
		ids = owners(r.lockAll(c.Mutex("a", given), c.Mutex("b"), c.Mutex("c", given)), look, "a", "b", "c")
		if len(slices.Compact(ids)) != 1 || ids[0] != "request 7" {
			t.Errorf("with a given one they are %q", ids)
		}
		lookThere := there.server.Connect()
		defer lookThere.Close()
		m := r.lockAll(c.Mutex("a", given), there.client(given).Mutex("a"))
		line, err := look.Line(t.Context(), "a")
		if err != nil || line.Places[0].Owner.ID != "request 7" {
			t.Errorf("%+v, %v", line, err)
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
		again := holdfast.Reentrant()
		outer := r.lock(c.Mutex("b", again).Lock)
		if _, err := holdfast.LockAll(outer.Context(), mutexes(c, "a", "b", "c")...); !errors.Is(err, holdfast.ErrReentered) {
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
			if err := m.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
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

// TestLockAllUnderALeaseCanDeadlock: what is held around it has no place in its order. It is found like any other.
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
		r.free([]string{"p", "q"}[victim]) // it gave back what it had by then
		r.unlock([]*holdfast.Lease{x, y}[victim])
		if synctest.Wait(); !calls[1-victim].done() || calls[1-victim].err != nil {
			t.Fatalf("the other does not go on: %v", calls[1-victim].err)
		}
	})
}
