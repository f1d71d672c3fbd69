package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// TestMismatchNamesWhatIsInUse: a name is in use as one thing and requested as another. The error says what it is in
// use as, nothing is left behind, and then the name is free for another use.
func TestMismatchNamesWhatIsInUse(t *testing.T) {
	for what, test := range map[string]struct {
		held, asked func(c *holdfast.Client) locker
		says        string
	}{
		"other limit": {
			func(c *holdfast.Client) locker { return units(c.Semaphore("x", 3), 2) },
			func(c *holdfast.Client) locker { return units(c.Semaphore("x", 5), 1) }, "in use as a semaphore of 3",
		},
		"mutex": {
			func(c *holdfast.Client) locker { return units(c.Semaphore("x", 4), 2) },
			func(c *holdfast.Client) locker { return c.Mutex("x").Lock }, "in use as a semaphore of 4",
		},
		"try": {
			func(c *holdfast.Client) locker { return units(c.Semaphore("x", 4), 2) },
			func(c *holdfast.Client) locker { return c.Mutex("x").TryLock }, "in use as a semaphore of 4",
		},
		"reader": {
			func(c *holdfast.Client) locker { return units(c.Semaphore("x", 4), 1) },
			func(c *holdfast.Client) locker { return c.RWMutex("x").RLock }, "in use as a semaphore of 4",
		},
		"semaphore": {
			func(c *holdfast.Client) locker { return c.RWMutex("x").RLock },
			func(c *holdfast.Client) locker { return units(c.Semaphore("x", 5), 1) }, "in use as a lock",
		},
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			l := r.lock(test.held(r.client()))
			_, err := test.asked(r.client())(t.Context())
			if !errors.Is(err, holdfast.ErrMismatch) || errors.Is(err, holdfast.ErrLocked) ||
				!strings.HasSuffix(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
			r.unlock(l)
			r.lock(r.client().Mutex("x").TryLock)
		})
	}
}

// TestLockAllLosesAPartWhileItWaits: LockAll has two locks and waits for another. When one of the two is lost, it says
// so and names it, also to an observer: no context was cancelled.
func TestLockAllLosesAPartWhileItWaits(t *testing.T) {
	for what, lose := range map[string]func(r *rig){
		"broken":  func(r *rig) { r.breakLock("first") },
		"expired": func(r *rig) { r.pass(ttl) },
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			held := r.lock(r.client().Mutex("third").Lock)
			c := r.client(holdfast.WithObserver(&lastWait{t: t}))
			var m *holdfast.MultiLease
			waits := r.begin(all(&m, c.Mutex("third"), c.Mutex("second"), c.Mutex("first", holdfast.WithFixedTTL(ttl))))
			r.waits(waits, "the third is taken")
			lose(r)
			synctest.Wait()
			if err := waits.err; !waits.done() || !errors.Is(err, holdfast.ErrLost) ||
				errors.Is(err, context.Canceled) ||
				errors.Is(err, holdfast.ErrLocked) || !strings.Contains(err.Error(), `"first": lease lost`) ||
				strings.Contains(err.Error(), "context") {
				t.Fatalf("it has returned: %v, with %v", waits.done(), err)
			}
			r.free("first", "second")
			r.unlock(held)
			r.nothingRemains("first", "second", "third")
		})
	}
}

// lastWait complains of a wait that ended with the error of a context.
type lastWait struct {
	holdfast.NopObserver
	t *testing.T
}

func (o *lastWait) Waiting(ctx context.Context, _ holdfast.Request) (context.Context, func(error)) {
	return ctx, func(err error) {
		if errors.Is(err, context.Canceled) {
			o.t.Errorf("the observer got %v", err)
		}
	}
}

// TestLeaseLostToSilence: the store stops responding and the lease expires. The error says that the store was
// silent, and not that some timer of this package has ended; whether the lease or its keeper notices it first.
func TestLeaseLostToSilence(t *testing.T) {
	for _, how := range []string{"told by the keeper", "asked"} {
		scene(t, how, func(t *testing.T, r *rig) {
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
					!strings.Contains(err.Error(),
						`"x" on memory: lease lost: it could not be renewed: no response in `) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

// TestDoThatLost: fn's error and the loss can both be found in Do's error, whatever fn makes of the loss.
func TestDoThatLost(t *testing.T) {
	broken := errors.New("no disk")
	const lost = `"x" on memory: lease lost: the store no longer has it`
	for what, test := range map[string]struct {
		returns func(context.Context) error
		is      error
		says    string
	}{
		"nothing":   {func(context.Context) error { return nil }, nil, "holdfast: unlock " + lost},
		"its own":   {func(context.Context) error { return broken }, broken, "holdfast: unlock " + lost + "; no disk"},
		"ctx.Err":   {context.Context.Err, context.Canceled, "holdfast: unlock " + lost},
		"ctx.Cause": {context.Cause, nil, "holdfast: hold " + lost},
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			err := r.client().Mutex("x").Do(t.Context(), func(ctx context.Context) error {
				r.breakLock("x")
				<-ctx.Done()
				return test.returns(ctx)
			})
			if !errors.Is(err, holdfast.ErrLost) || test.is != nil && !errors.Is(err, test.is) ||
				err.Error() != test.says {
				t.Errorf("got %v, want %s", err, test.says)
			}
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

func TestErrorsWithoutAStoreNameNone(t *testing.T) {
	c := holdfast.New(nil)
	defer c.Close()
	if _, err := c.Mutex("x").Lock(t.Context()); !errors.Is(err, holdfast.ErrBadOption) ||
		strings.Contains(err.Error(), " on ") {
		t.Fatalf("it reads %q", err)
	}
}
