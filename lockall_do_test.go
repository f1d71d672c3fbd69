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
)

// TestTryLockAll checks that all locks are acquired, or none, with an error that names the one that is not free.
func TestTryLockAll(t *testing.T) {
	for _, taken := range []string{"", "a", "b", "c"} {
		scene(t, "taken:"+taken, func(t *testing.T, r *rig) {
			c := r.client()
			if taken != "" {
				r.lock(r.client(holdfast.WithLabel("nightly")).Mutex(taken).Lock)
			}
			began := time.Now()
			m, err := holdfast.TryLockAll(t.Context(), c.Semaphore("c", 2).Units(2), c.RWMutex("b").Reader(),
				c.Mutex("a"))
			if took := time.Since(began); took != 0 {
				t.Errorf("it waited for %v", took)
			}
			if taken == "" {
				r.must(err)
				if tokens := m.Tokens(); len(tokens) != 3 || tokens[2].Shared() || !tokens[0].Shared() ||
					m.Err() != nil {
					t.Errorf("tokens %v, error %v", tokens, m.Err())
				}
				r.must(m.Unlock(t.Context()))
				r.nothingRemains("a", "b", "c")
				return
			}
			if taken == "c" { // a lock, and here a semaphore
				if m != nil || !errors.Is(err, holdfast.ErrMismatch) {
					t.Errorf("got %v, %v", m, err)
				}
			} else if locked := (*holdfast.LockedError)(nil); m != nil || !errors.As(err, &locked) ||
				locked.Name != taken || locked.Holder.Label != "nightly" ||
				!strings.Contains(err.Error(), `"`+taken+`"`) {
				t.Errorf("got %v, %v", m, err)
			}
			for _, name := range []string{"a", "b", "c"} {
				if name != taken {
					r.free(name)
				}
			}
		})
	}
}

// TestTryLockAllOfALostConnection checks that a failure of the store is not reported as contention, and that what was
// acquired before it is released.
func TestTryLockAllOfALostConnection(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		here := r.client()
		there, pipe := r.linked()
		pipe.Cut()
		m, err := holdfast.TryLockAll(t.Context(), here.Mutex("a"), there.Mutex("b"))
		var fault *holdfast.Fault
		if m != nil || !errors.As(err, &fault) || errors.Is(err, holdfast.ErrLocked) {
			t.Errorf("got %v, %v", m, err)
		}
		r.free("a")
	})
}

// TestDoAll checks that fn runs while all locks are held, with their tokens in the order of the arguments, and that the
// locks are released whatever fn returns.
func TestDoAll(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		failure := errors.New("failed")
		err := holdfast.DoAll(t.Context(), func(ctx context.Context, tokens []holdfast.Token) error {
			var want []holdfast.Token
			for _, name := range []string{"b", "a"} {
				want = append(want, r.queue(c, name).Holders()[0].Token)
			}
			if !slices.Equal(tokens, want) {
				t.Errorf("tokens %v, want %v", tokens, want)
			}
			if token, ok := holdfast.TokenFrom(ctx); ok {
				t.Errorf("TokenFrom chose %v among two", token)
			}
			return failure
		}, mutexes(c, "b", "a")...)
		if !errors.Is(err, failure) {
			t.Errorf("it returned %v", err)
		}
		r.must(holdfast.DoAll(t.Context(), func(ctx context.Context, tokens []holdfast.Token) error {
			if token, ok := holdfast.TokenFrom(ctx); !ok || token != tokens[0] {
				t.Errorf("of one lock, TokenFrom found %v, %v", token, ok)
			}
			return nil
		}, c.Mutex("a")))
		r.nothingRemains("a", "b")
	})
}

// TestDoAllReleasesAfterAPanic checks that a panic of fn leaves no lock held.
func TestDoAllReleasesAfterAPanic(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			holdfast.DoAll(t.Context(), func(context.Context, []holdfast.Token) error { //nolint:errcheck // it panics
				panic("no")
			}, mutexes(c, "a", "b")...)
		}()
		r.free("a", "b")
	})
}

// TestDoAllEndsWithAnyPart checks that the context of fn ends when any lock is lost, and that the error names it once.
func TestDoAllEndsWithAnyPart(t *testing.T) {
	for _, lost := range []string{"a", "b", "c"} {
		for what, result := range map[string]func(context.Context) error{
			"nil":   func(context.Context) error { return nil },
			"cause": context.Cause,
			"other": func(context.Context) error { return errRefused },
		} {
			scene(t, lost+"/"+what, func(t *testing.T, r *rig) {
				c := r.client()
				err := holdfast.DoAll(t.Context(), func(ctx context.Context, _ []holdfast.Token) error {
					r.breakLock(lost)
					select {
					case <-ctx.Done():
					case <-time.After(ttl):
						t.Error("the context did not end")
					}
					return result(ctx)
				}, mutexes(c, "c", "a", "b")...)
				if !errors.Is(err, holdfast.ErrLost) || strings.Count(err.Error(), `"`+lost+`"`) != 1 {
					t.Errorf("it returned %v", err)
				}
				if what == "other" && !errors.Is(err, errRefused) {
					t.Errorf("the error of fn is missing: %v", err)
				}
				r.nothingRemains("a", "b", "c")
			})
		}
	}
}

// TestDoAllIsBoundByItsContext checks that ctx bounds the wait, with its own error, and fn.
func TestDoAllIsBoundByItsContext(t *testing.T) {
	why := errors.New("shutting down")
	scene(t, "wait", func(t *testing.T, r *rig) {
		c := r.client()
		r.lock(r.client().Mutex("b").Lock)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		err := holdfast.DoAll(ctx, func(context.Context, []holdfast.Token) error {
			t.Error("it ran")
			return nil
		}, mutexes(c, "a", "b")...)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("it returned %v", err)
		}
		synctest.Wait() // the release is sent in the background, since ctx has ended
		r.free("a")
	})
	scene(t, "function", func(t *testing.T, r *rig) {
		c := r.client()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		err := holdfast.DoAll(ctx, func(ctx context.Context, _ []holdfast.Token) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, mutexes(c, "a", "b")...)
		if !errors.Is(err, why) || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("it returned %v", err)
		}
		r.nothingRemains("a", "b")
	})
	scene(t, "bad input", func(t *testing.T, r *rig) {
		c := r.client()
		fn := func(context.Context, []holdfast.Token) error { t.Error("it ran"); return nil }
		if err := holdfast.DoAll(t.Context(), fn); !errors.Is(err, holdfast.ErrBadOption) {
			t.Errorf("without parts: %v", err)
		}
		if err := holdfast.DoAll(t.Context(), nil, c.Mutex("a")); err == nil {
			t.Error("it accepted a nil function")
		}
		var none context.Context
		if err := holdfast.DoAll(none, fn, c.Mutex("a")); !errors.Is(err, holdfast.ErrNilContext) {
			t.Errorf("without a context: %v", err)
		}
		if _, err := holdfast.TryLockAll(none, c.Mutex("a")); !errors.Is(err, holdfast.ErrNilContext) {
			t.Errorf("without a context: %v", err)
		}
	})
}
