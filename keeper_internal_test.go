package holdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// stepOn makes a client see the wall clock an hour further on, as after a suspension. The monotonic clock, which the
// keeper's timer goes by, has not noticed.
func (c *Client) stepOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	const asleep = int64(time.Hour)
	for _, cl := range c.claims {
		cl.until.wall.Add(-asleep)
	}
	if c.keeper.ahead != 0 { // one that has never looked has nothing to compare with
		c.keeper.ahead -= asleep
	}
}

// inBubble runs f with a server and a client behind a link, in a bubble of fake time.
func inBubble(t *testing.T, options []Option, f func(t *testing.T, server *memstore.Server, c *Client,
	link *storetest.Pipe)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, link := memstore.NewServer(), storetest.NewPipe()
		c := New(server.Connect(memstore.WithNetwork(link)), options...)
		defer c.Close()
		defer link.Kill()
		f(t, server, c, link)
	})
}

// must is for calls that cannot fail.
func must[T any](t *testing.T) func(T, error) T {
	return func(x T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

// TestReportedLossStaysALoss: a caller was told that the lease is over. Whatever the store reports
// before the keeper notices it, nothing revives the lease, and the lock is granted to others.
func TestReportedLossStaysALoss(t *testing.T) {
	for what, revive := range map[string]func(server *memstore.Server, release func()){
		"the answer to a Keep": func(_ *memstore.Server, release func()) { release() },
		"a reconnect": func(server *memstore.Server, release func()) {
			server.Restart(true) // pushes Everyone
			release()
		},
	} {
		for _, reentered := range []bool{false, true} {
			name := what
			if reentered {
				name += ", re-entered"
			}
			t.Run(name, func(t *testing.T) {
				inBubble(t, nil, func(t *testing.T, server *memstore.Server, c *Client, link *storetest.Pipe) {
					other := New(server.Connect())
					defer other.Close()
					m := c.Mutex("x", WithReentrance())
					l := must[*Lease](t)(m.Lock(t.Context()))
					leases := []*Lease{l}
					if reentered {
						leases = append(leases, must[*Lease](t)(m.Lock(l.Context())))
					}
					time.Sleep(DefaultTTL/3 - 10*time.Millisecond)
					release := func() {}
					if what == "the answer to a Keep" {
						release = link.HoldReplies()
						time.Sleep(20 * time.Millisecond) // now it is kept
					}
					synctest.Wait()
					c.stepOn()
					last := leases[len(leases)-1] // one is checked, and all are over
					if !errors.Is(last.Err(), ErrLost) {
						t.Fatalf("it says %v", last.Err())
					}
					revive(server, release)
					synctest.Wait()
					for i, l := range leases {
						if !errors.Is(l.Err(), ErrLost) || !errors.Is(l.Unlock(t.Context()), ErrLost) {
							t.Errorf("lease %d was revived: %v", i, l.Err())
						}
					}
					synctest.Wait() // no time passes: the response is reason enough to release it
					if _, err := other.Mutex("x").TryLock(t.Context()); err != nil {
						t.Errorf("the lost lease is renewed: %v", err)
					}
				})
			})
		}
	}
}

// TestReportedLossIsReleased: nothing comes from the store, and the keeper's own pulse has to do it.
func TestReportedLossIsReleased(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, server *memstore.Server, c *Client, _ *storetest.Pipe) {
		l := must[*Lease](t)(c.Mutex("x").Lock(t.Context()))
		l.claim.until.wall.Add(-int64(time.Hour)) // and back again: no clock says so any more
		if !errors.Is(l.Err(), ErrLost) {
			t.Fatalf("it says %v", l.Err())
		}
		l.claim.until.wall.Add(int64(time.Hour))
		time.Sleep(2 * pulse)
		synctest.Wait()
		if n := server.Residue("x"); n != 0 || !errors.Is(l.Err(), ErrLost) {
			t.Fatalf("%d things are left, and it says %v", n, l.Err())
		}
	})
}

// TestReportedLossIsLoggedOnce, although the keeper did not find it first.
func TestReportedLossIsLoggedOnce(t *testing.T) {
	var log strings.Builder
	inBubble(t, []Option{WithLogger(slog.New(slog.NewTextHandler(&log, nil)))},
		func(t *testing.T, _ *memstore.Server, c *Client, _ *storetest.Pipe) {
			l := must[*Lease](t)(c.Mutex("x").Lock(t.Context()))
			c.stepOn()
			for range 3 {
				if !errors.Is(l.Err(), ErrLost) {
					t.Fatalf("it says %v", l.Err())
				}
				time.Sleep(2 * pulse)
				synctest.Wait()
			}
			if strings.Count(log.String(), `msg="holdfast: lease lost"`) != 1 {
				t.Fatalf("logged: %q", log.String())
			}
		})
}

// TestSuspendedMachine: after a suspension nothing is due by the monotonic clock, which the keeper's timer goes by. It
// must notice by itself, for callers that only wait for Done: also if the clocks were never compared before, and the
// first on the agenda is not the one that is over.
func TestSuspendedMachine(t *testing.T) {
	for _, awake := range []time.Duration{0, 2 * pulse} {
		t.Run(awake.String(), func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, _ *memstore.Server, c *Client, _ *storetest.Pipe) {
				l := must[*Lease](t)(c.Mutex("x").Lock(t.Context()))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go c.Mutex("x", WithTTL(DefaultTTL/2)).Lock(ctx) //nolint:errcheck // it only has to wait
				synctest.Wait()
				c.mu.Lock()
				top, _ := c.keeper.agenda.First()
				c.mu.Unlock()
				if top == l.claim {
					t.Fatal("the waiter is not on top")
				}
				done := l.Context().Done()
				time.Sleep(awake)
				synctest.Wait()
				c.stepOn()
				time.Sleep(2 * pulse)
				synctest.Wait()
				select {
				case <-done:
				default:
					t.Fatal("the keeper did not notice that the wall clock had passed the lease's end")
				}
				if !errors.Is(l.Err(), ErrLost) {
					t.Fatalf("it says %v", l.Err())
				}
			})
		})
	}
}

// A silent store never responds to some of the calls.
type silent struct {
	store.Store
	keep, leave func(context.Context) bool // whether it is silent
}

func (s *silent) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	if s.keep != nil && s.keep(ctx) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Store.Keep(ctx, cs)
}

func (s *silent) Leave(ctx context.Context, c store.Claim) error {
	if s.leave != nil && s.leave(ctx) {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Store.Leave(ctx, c)
}

// TestReleasesDoNotPileUp: a store is silent, and more claims are to be released than calls can be made. What it has
// forgotten by itself is not worth telling.
func TestReleasesDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl, every = 10 * time.Second, 100 * time.Millisecond
		c := New(&silent{Store: memstore.New(), leave: func(context.Context) bool { return true }}, WithTTL(ttl))
		defer c.Close()
		done, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2000 {
			must[*Lease](t)(c.RWMutex("x").RLock(t.Context())).Unlock(done) //nolint:errcheck // it cannot be told
			time.Sleep(every)
		}
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		if n, most := len(c.claims), 2*int(ttl/every); n > most || len(c.keeper.leaves.queue) > most {
			t.Errorf("%d claims, %d of them queued; the store has forgotten all but %d", n, len(c.keeper.leaves.queue),
				ttl/every)
		}
	})
}

// TestCallIsBoundByTheShortestTTL of those that it is about, wherever that stands.
func TestCallIsBoundByTheShortestTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(&silent{Store: memstore.New(), keep: func(context.Context) bool { return true }})
		defer c.Close()
		var batch []*claim
		for name, ttl := range map[string]time.Duration{"long": time.Hour, "short": 4 * time.Second,
			"longer": 2 * time.Hour} {
			l := must[*Lease](t)(c.Mutex(name, WithTTL(ttl)).Lock(t.Context()))
			if name == "short" {
				batch = append(batch, l.claim)
			} else {
				batch = append([]*claim{l.claim}, batch...)
			}
		}
		began := time.Now()
		c.keeper.keep(t.Context(), batch, nil)
		if took := time.Since(began); took != time.Second {
			t.Fatalf("it was given up after %v", took)
		}
	})
}

// TestNamesOfThePastAreForgotten: a process may use a new name for every job.
func TestNamesOfThePastAreForgotten(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *memstore.Server, c *Client, _ *storetest.Pipe) {
		for i := range 10 * idleQueues {
			l := must[*Lease](t)(c.Mutex(fmt.Sprint(i), WithOwner(fmt.Sprint(i))).Lock(t.Context()))
			if err := l.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if len(c.queues) > idleQueues || len(c.claims)+len(c.owners)+len(c.keeper.agenda) != 0 {
			t.Fatalf("%d queues, %d claims, %d owners, %d on the agenda",
				len(c.queues), len(c.claims), len(c.owners), len(c.keeper.agenda))
		}
	})
}
