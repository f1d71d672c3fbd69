package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// A detour is a store where a test stands in the way of calls. What is not set goes straight through. It is all set
// before a client has it.
type detour struct {
	store.Store
	join  func(context.Context, store.Claim) (store.Standing, error)
	keep  func(context.Context, []store.Claim) ([]store.Standing, error)
	leave func(context.Context, store.Claim) error
	line  func(context.Context, string) (store.Line, error)
	can   func(*store.Abilities)
	deaf  bool // no push comes through
	push  func(store.ID, store.Standing)
}

func (d *detour) Join(ctx context.Context, c store.Claim) (store.Standing, error) {
	if d.join != nil {
		return d.join(ctx, c)
	}
	return d.Store.Join(ctx, c)
}

func (d *detour) Keep(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
	if d.keep != nil {
		return d.keep(ctx, cs)
	}
	return d.Store.Keep(ctx, cs)
}

func (d *detour) Leave(ctx context.Context, c store.Claim) error {
	if d.leave != nil {
		return d.leave(ctx, c)
	}
	return d.Store.Leave(ctx, c)
}

func (d *detour) Line(ctx context.Context, name string) (store.Line, error) {
	if d.line != nil {
		return d.line(ctx, name)
	}
	return d.Store.Line(ctx, name)
}

func (d *detour) Notify(fn func(store.ID, store.Standing)) {
	if d.push = fn; !d.deaf {
		d.Store.Notify(fn)
	}
}

func (d *detour) Abilities() store.Abilities {
	a := d.Store.Abilities()
	if d.can != nil {
		d.can(&a)
	}
	return a
}

// around is a client that goes over d, to the rig's server if d leads nowhere yet.
func (r *rig) around(d *detour, options ...holdfast.Option) *holdfast.Client {
	if d.Store == nil {
		d.Store = r.server.Connect()
	}
	c := holdfast.New(d, options...)
	r.Cleanup(func() { c.Close() })
	return c
}

// hang is a call that is never answered.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// cancelled is a context that is done.
func (r *rig) cancelled() context.Context {
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	return ctx
}

// tenYears is the greatest FixedTTL.
const tenYears = 10 * 365 * 24 * time.Hour

// TestAbsurdTimesAreRefused: sums of them with the time of day do not fit into 64 bits. Such a deadline would be in
// the past, and the lock free while it is held.
func TestAbsurdTimesAreRefused(t *testing.T) {
	for what, bad := range map[string]struct {
		option holdfast.Option
		want   error
	}{
		"TTL":               {holdfast.TTL(math.MaxInt64), holdfast.ErrBadTTL},
		"Grace":             {holdfast.Grace(math.MaxInt64), holdfast.ErrBadOption},
		"Grace, a little":   {holdfast.Grace(memstore.MaxTTL + 1), holdfast.ErrBadOption},
		"FixedTTL":          {holdfast.FixedTTL(math.MaxInt64), holdfast.ErrBadTTL},
		"FixedTTL a little": {holdfast.FixedTTL(tenYears + 1), holdfast.ErrBadTTL},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				for where, m := range map[string]*holdfast.Mutex{
					"client": r.client(bad.option).Mutex("x"), "lock": r.client().Mutex("x", bad.option),
				} {
					if l, err := m.TryLock(t.Context()); !errors.Is(err, bad.want) {
						t.Errorf("given to a %s: %v, %v", where, l, err)
					}
				}
				if r.server.Residue("x") != 0 {
					t.Error("something was changed")
				}
			})
		})
	}
	t.Run("the greatest", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			l := r.lock(r.client().Mutex("x", holdfast.TTL(memstore.MaxTTL), holdfast.Grace(memstore.MaxTTL),
				holdfast.FixedTTL(tenYears)).Lock)
			r.pass(time.Minute)
			if _, err := r.client().Mutex("x").TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) || l.Err() != nil {
				t.Fatalf("the lease says %v, another's TryLock %v", l.Err(), err)
			}
		})
	})
}

// TestHungCallsDoNotHoldUpOthers: four calls about claims with a long ttl hang, which is all that may be under way at
// once. They are given up soon enough for a lock with a short ttl, which the store would answer for.
func TestHungCallsDoNotHoldUpOthers(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var hung atomic.Int32
		d := &detour{}
		d.keep = func(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
			if cs[0].TTL == time.Hour && hung.Add(1) <= 4 {
				return nil, hang(ctx)
			}
			return d.Store.Keep(ctx, cs)
		}
		c := r.around(d)
		for i := range 4 {
			r.lock(c.Mutex(fmt.Sprint(i), holdfast.TTL(time.Hour)).Lock)
			d.push(store.Everyone, store.Standing{})
			synctest.Wait()
		}
		if hung.Load() != 4 {
			t.Fatalf("%d calls hang", hung.Load())
		}
		short := r.lock(c.Mutex("short", holdfast.TTL(12*time.Second)).Lock) // due after 4 s
		r.pass(6 * time.Second)
		if left := time.Until(short.Until()); short.Err() != nil || left < 10*time.Second {
			t.Fatalf("it was not kept: %v left, %v", left, short.Err())
		}
		r.pass(time.Minute)
		if short.Err() != nil {
			t.Fatalf("the store answers for it, and it was lost: %v", short.Err())
		}
	})
}

// TestPartlySilentStore: a Keep is answered for one claim, and for others only says that its time is over. That time is
// the keeper's own: whoever is told of it learns that the store was silent, and not that a deadline of his has passed.
func TestPartlySilentStore(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d := &detour{}
		d.keep = func(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
			<-ctx.Done()
			standings, err := d.Store.Keep(t.Context(), cs)
			for i := range cs {
				if cs[i].Name != "answered" {
					standings[i] = store.Standing{Err: ctx.Err()}
				}
			}
			return standings, err
		}
		c := r.around(d)
		r.lock(r.client().Mutex("taken").Lock)
		answered, silent := r.lock(c.Mutex("answered").Lock), r.lock(c.Mutex("silent").Lock)
		ctx, cancel := context.WithCancel(t.Context())
		waiter := r.begin(func(context.Context) (*holdfast.Lease, error) { return c.Mutex("taken").Lock(ctx) })
		r.pass(ttl * 3 / 4)
		cancel()
		r.pass(ttl)
		if answered.Err() != nil {
			t.Errorf("what is answered for is lost: %v", answered.Err())
		}
		for err, want := range map[error]error{silent.Err(): holdfast.ErrLost, waiter.err: context.Canceled} {
			if !errors.Is(err, want) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer in") {
				t.Errorf("%v, want %v", err, want)
			}
		}
	})
}

// TestStoreWithASession: all claims have the ttl of the store's session, whatever was asked for. It may be shorter or
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
		within := func(s *store.Standing) {
			if end := time.Now().Add(session); s.State != store.Gone && s.Until.After(end) {
				s.Until = end
			}
		}
		d.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
			asked.Store(int64(c.TTL))
			s, err := d.Store.Join(ctx, c)
			within(&s)
			return s, err
		}
		d.keep = func(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
			standings, err := d.Store.Keep(ctx, cs)
			for i := range standings {
				within(&standings[i])
			}
			return standings, err
		}
		return r.around(d, options...)
	}
	for what, options := range map[string][]holdfast.Option{
		"default": nil, "the same": {holdfast.TTL(session)}, "longer": {holdfast.TTL(10 * time.Minute)},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				one, two := r.lock(connect(r, options...).Mutex("x").Lock), r.lock(connect(r).Mutex("y", options...).Lock)
				if asked.Load() != int64(session) {
					t.Fatalf("the store was asked for %v", time.Duration(asked.Load()))
				}
				r.pass(10 * time.Minute)
				if one.Err() != nil || two.Err() != nil {
					t.Fatalf("a store that is well, and they are %v and %v", one.Err(), two.Err())
				}
			})
		})
	}
	t.Run("shorter", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			shorter := holdfast.TTL(session - 1)
			for _, m := range []*holdfast.Mutex{connect(r, shorter).Mutex("x"), connect(r).Mutex("x", shorter)} {
				if _, err := m.TryLock(t.Context()); !errors.Is(err, holdfast.ErrBadTTL) {
					t.Errorf("got %v", err)
				}
			}
		})
	})
}

// TestHungKeepIsRepeatedInTime: nothing is cut, and no error comes. A call is just never answered.
func TestHungKeepIsRepeatedInTime(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, ttl, time.Hour} {
		t.Run(ttl.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				var asked []time.Time // by one call after the other
				d := &detour{}
				d.keep = func(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
					if asked = append(asked, time.Now()); len(asked) == 1 {
						return nil, hang(ctx)
					}
					return d.Store.Keep(ctx, cs)
				}
				l := r.lock(r.around(d, holdfast.TTL(ttl)).Mutex("x").Lock)
				r.pass(ttl + time.Millisecond)
				if l.Err() != nil {
					t.Fatalf("one hung call cost the lease: %v", l.Err())
				}
				patience := min(ttl/4, 5*time.Second)
				if took := asked[1].Sub(asked[0]); took < patience || took > patience+min(ttl/48, time.Second) {
					t.Fatalf("it was repeated after %v", took)
				}
			})
		})
	}
}

func TestHungLeaveIsRepeatedInTime(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, ttl, time.Hour} {
		t.Run(ttl.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				var asked atomic.Int32
				d := &detour{}
				d.leave = func(ctx context.Context, c store.Claim) error {
					if asked.Add(1) == 1 {
						return hang(ctx)
					}
					return d.Store.Leave(ctx, c)
				}
				l := r.lock(r.around(d, holdfast.TTL(ttl)).Mutex("x").Lock)
				l.Unlock(r.cancelled()) //nolint:errcheck // the keeper is to give it back
				r.pass(min(ttl/4, 5*time.Second) + min(ttl/48, time.Second))
				r.lock(r.client().Mutex("x").TryLock)
			})
		})
	}
}

// TestShortTTLLeavesTimeToAnswer: a quarter of a very short ttl is less than a busy machine takes.
func TestShortTTLLeavesTimeToAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d := &detour{}
		d.keep = func(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
			standings, err := d.Store.Keep(ctx, cs)
			select {
			case <-time.After(40 * time.Millisecond):
				return standings, err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		l := r.lock(r.around(d, holdfast.TTL(100*time.Millisecond)).Mutex("x").Lock)
		r.pass(time.Second)
		if l.Err() != nil {
			t.Fatalf("every call was answered, and it was lost: %v", l.Err())
		}
	})
}

// TestDowngradeEndsTheOldLeaseBeforeTheStoreHearsOfIt: from then on readers may be let in.
func TestDowngradeEndsTheOldLeaseBeforeTheStoreHearsOfIt(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var writer atomic.Pointer[holdfast.Lease]
		d := &detour{}
		d.keep = func(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
			if cs[0].Units == 1 && writer.Load().Err() == nil {
				t.Error("readers are let in beside a writer")
			}
			return d.Store.Keep(ctx, cs)
		}
		writer.Store(r.lock(r.around(d).RWMutex("x").Lock))
		if _, err := writer.Load().Downgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.lock(r.client().RWMutex("x").TryRLock)
	})
}

// TestSecondCloseWaitsForTheFirst: whoever has closed a client may rely on its locks being given back.
func TestSecondCloseWaitsForTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d := &detour{}
		d.leave = func(ctx context.Context, c store.Claim) error {
			time.Sleep(time.Second) // a slow store
			return d.Store.Leave(ctx, c)
		}
		c := r.around(d)
		r.lock(c.Mutex("x").Lock)
		go c.Close()
		synctest.Wait()
		c.Close()
		if r.server.Residue("x") != 0 {
			t.Fatal("it returned before the lock was given back")
		}
	})
}

// TestCloseDuringAJoinThatLandsUnanswered: nobody knows whether it stands, so it is taken out.
func TestCloseDuringAJoinThatLandsUnanswered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		land := make(chan struct{})
		lost := errors.New("the answer was lost")
		d := &detour{}
		d.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
			<-land
			if _, err := d.Store.Join(ctx, c); err != nil {
				t.Error(err)
			}
			return store.Standing{}, &store.Fault{Store: "it", Err: lost}
		}
		c := r.around(d)
		unknown := r.begin(c.Mutex("x").Lock)
		closed := make(chan struct{})
		go func() { c.Close(); close(closed) }()
		synctest.Wait()
		close(land)
		<-closed
		if synctest.Wait(); !errors.Is(unknown.err, lost) && !errors.Is(unknown.err, holdfast.ErrClosed) {
			t.Errorf("got %v", unknown.err)
		}
		if n := r.server.Residue("x"); n != 0 {
			t.Errorf("%d things are left behind", n)
		}
	})
}

// TestWaitDoesNotBoundTryLock: it does not wait for the lock, and how long the store takes is another matter.
func TestWaitDoesNotBoundTryLock(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		d := &detour{}
		d.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
			select {
			case <-time.After(time.Second / 2):
				return d.Store.Join(ctx, c)
			case <-ctx.Done():
				return store.Standing{}, ctx.Err()
			}
		}
		r.lock(r.around(d).Mutex("x", holdfast.Wait(time.Millisecond)).TryLock)
	})
}
