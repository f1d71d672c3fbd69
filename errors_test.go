package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// TestMismatchSaysWhatIsInUse: a name is in use as one thing and asked for as another. The error says what it is in
// use as.
func TestMismatchSaysWhatIsInUse(t *testing.T) {
	for says, scene := range map[string]func(r *rig, c *holdfast.Client) error{
		"in use as a semaphore of 3": func(r *rig, c *holdfast.Client) error {
			r.lock(units(r.client().Semaphore("x", 3), 2))
			return errorOf(c.Semaphore("x", 5).Acquire(r.Context(), 1))
		},
		"in use as a semaphore of 4": func(r *rig, c *holdfast.Client) error {
			r.lock(units(r.client().Semaphore("x", 4), 2))
			return errorOf(c.Mutex("x").TryLock(r.Context()))
		},
		"in use as a lock": func(r *rig, c *holdfast.Client) error {
			r.lock(r.client().RWMutex("x").RLock)
			return errorOf(c.Semaphore("x", 5).Acquire(r.Context(), 1))
		},
	} {
		t.Run(says, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				err := scene(r, r.client())
				if !errors.Is(err, holdfast.ErrMismatch) || !strings.HasSuffix(err.Error(), says) {
					t.Errorf("got %v, want %q", err, says)
				}
			})
		})
	}
}

// TestDowngradeOfWhatIsNoWriters: a semaphore's and a reader's lease cannot be downgraded. That is the caller's
// mistake, and nothing that another store could do.
func TestDowngradeOfWhatIsNoWriters(t *testing.T) {
	for says, lock := range map[string]func(*holdfast.Client) locker{
		"semaphore's": func(c *holdfast.Client) locker { return units(c.Semaphore("x", 1), 1) },
		"reader's":    func(c *holdfast.Client) locker { return c.RWMutex("x").RLock },
	} {
		t.Run(says, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				l := r.lock(lock(r.client()))
				_, err := l.Downgrade(t.Context())
				if !errors.Is(err, holdfast.ErrDowngrade) || errors.Is(err, holdfast.ErrUnsupported) ||
					!strings.Contains(err.Error(), says) {
					t.Errorf("got %v", err)
				}
				if l.Err() != nil {
					t.Errorf("it cost the lease: %v", l.Err())
				}
			})
		})
	}
}

// TestReaderCannotBecomeAWriter: a reader that locks for writing under its lease would wait for itself, with or without
// Reentrant.
func TestReaderCannotBecomeAWriter(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		l := r.lock(c.RWMutex("x").RLock)
		for _, options := range [][]holdfast.Option{nil, {holdfast.Reentrant()}} {
			for what, lock := range map[string]locker{
				"Lock":     c.RWMutex("x", options...).Lock,
				"TryLock":  c.RWMutex("x", options...).TryLock,
				"Mutex":    c.Mutex("x", options...).Lock,
				"Election": c.Election("x", options...).Campaign,
			} {
				if _, err := lock(l.Context()); !errors.Is(err, holdfast.ErrUpgrade) || errors.Is(err, holdfast.ErrReentered) {
					t.Errorf("%s with %d options: %v", what, len(options), err)
				}
			}
		}
		if _, err := c.RWMutex("x").RLock(l.Context()); !errors.Is(err, holdfast.ErrReentered) {
			t.Errorf("a reader that reads again: %v", err)
		}
	})
}

// TestLockAllLosesAPartWhileItWaits: LockAll has one lock and waits for another. When the first is lost, it says so
// and names it, also to an observer: nobody has cancelled anything.
func TestLockAllLosesAPartWhileItWaits(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.lock(r.client().Mutex("second").Lock)
		c := r.client(holdfast.Observe(&lastWait{t: t}))
		waits := r.begin(func(ctx context.Context) (*holdfast.Lease, error) {
			return nil, errorOf(holdfast.LockAll(ctx, c.Mutex("first"), c.Mutex("second")))
		})
		r.breakLock("first")
		<-waits.returned
		if err := waits.err; !errors.Is(err, holdfast.ErrLost) || errors.Is(err, context.Canceled) ||
			!strings.Contains(err.Error(), `"first": lease lost`) || strings.Contains(err.Error(), "context") {
			t.Errorf("got %v", err)
		}
		r.free("first")
	})
}

// lastWait complains of a wait that ended with the error of a context.
type lastWait struct {
	holdfast.NopObserver
	t *testing.T
}

func (o *lastWait) Waiting(ctx context.Context, _ holdfast.Request) (context.Context, func(error)) {
	return ctx, func(err error) {
		if errors.Is(err, context.Canceled) {
			o.t.Errorf("the observer was told %v", err)
		}
	}
}

// TestLeaseLostToSilence: the store stops answering and the lease runs out. The error says that the store was
// silent, and not that some timer of this package has ended; whoever asks first, the lease or its keeper.
func TestLeaseLostToSilence(t *testing.T) {
	for _, how := range []string{"told by the keeper", "asked"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				c, pipe := r.linked()
				l := r.lock(c.Mutex("x").Lock)
				defer pipe.HoldRequests()()
				if how == "asked" {
					time.Sleep(time.Until(l.Until()))
				} else {
					<-l.Context().Done()
				}
				for what, err := range map[string]error{
					"Err": l.Err(), "Cause": context.Cause(l.Context()), "Unlock": l.Unlock(t.Context()),
				} {
					_, fault := errors.AsType[*store.Fault](err)
					if !errors.Is(err, holdfast.ErrLost) || errors.Is(err, context.DeadlineExceeded) || !fault ||
						!strings.Contains(err.Error(), `"x" on memory: lease lost: it could not be renewed: no answer in `) {
						t.Errorf("%s: %v", what, err)
					}
				}
			})
		})
	}
}

// TestDoThatLost: fn's error and the loss can both be found in Do's error, whatever fn makes of the loss.
func TestDoThatLost(t *testing.T) {
	broken := errors.New("no disk")
	const lost = `"x" on memory: lease lost: the store no longer has it`
	for what, scene := range map[string]struct {
		returns func(context.Context) error
		is      error
		says    string
	}{
		"nothing":   {func(context.Context) error { return nil }, nil, "holdfast: unlock " + lost},
		"its own":   {func(context.Context) error { return broken }, broken, "holdfast: unlock " + lost + "; no disk"},
		"ctx.Err":   {context.Context.Err, context.Canceled, "holdfast: unlock " + lost},
		"ctx.Cause": {context.Cause, nil, "holdfast: hold " + lost},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				err := r.client().Mutex("x").Do(t.Context(), func(ctx context.Context) error {
					r.breakLock("x")
					<-ctx.Done()
					return scene.returns(ctx)
				})
				if !errors.Is(err, holdfast.ErrLost) || scene.is != nil && !errors.Is(err, scene.is) || err.Error() != scene.says {
					t.Errorf("got %v, want %s", err, scene.says)
				}
			})
		})
	}
}

// TestUnlockOfManyLostLocks: the error of each can be found, and some of them are named.
func TestUnlockOfManyLostLocks(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		m := r.lockAll(mutexes(c, "a", "b", "c")...)
		for _, name := range []string{"a", "c"} {
			r.breakLock(name)
		}
		r.pass(ttl)
		err := m.Unlock(t.Context())
		const want = `holdfast: unlock "c" on memory: lease lost: the store no longer has it; also "a"`
		if !errors.Is(err, holdfast.ErrLost) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}
