package holdfast_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func TestMutexExcludes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var wg sync.WaitGroup
		inside, most, rounds := 0, 0, 0
		var last holdfast.Token
		for range 4 {
			locks := r.client()
			for range 8 {
				wg.Go(func() {
					for range 10 {
						err := locks.Mutex("x").Do(t.Context(), func(ctx context.Context) error {
							token, ok := holdfast.TokenFrom(ctx)
							if !ok || token <= last {
								t.Errorf("token %v came after %v", token, last)
							}
							last = token
							inside++ // the lock is what keeps this from being a data race
							most = max(most, inside)
							time.Sleep(time.Millisecond)
							inside--
							rounds++
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		if most != 1 || rounds != 320 {
			t.Fatalf("%d were inside at once, %d rounds of 320", most, rounds)
		}
	})
}

func TestMutexIsFair(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		strictly := holdfast.WithHandOver(0, 0)
		a, b := r.client(strictly), r.client(strictly)
		first := r.lock(a.Mutex("x").Lock)
		var order []int
		var wg sync.WaitGroup
		for i := range 10 {
			locks := []*holdfast.Client{a, b}[i%2]
			wg.Go(func() {
				if err := locks.Mutex("x").Do(t.Context(), func(context.Context) error {
					order = append(order, i)
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		r.unlock(first)
		wg.Wait()
		for i, got := range order {
			if i != got {
				t.Fatalf("served in the order %v", order)
			}
		}
	})
}

func TestTryLockNamesTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		held := r.lock(r.client().Mutex("x", holdfast.WithLabel("nightly")).Lock)
		since := time.Now()
		r.pass(time.Second)
		_, err := r.client().Mutex("x").TryLock(t.Context())
		var locked *holdfast.LockedError
		if !errors.Is(err, holdfast.ErrLocked) || !errors.As(err, &locked) {
			t.Fatalf("got %v", err)
		}
		if locked.Token != held.Token() || locked.Holder.Label != "nightly" || !locked.Since.Equal(since) ||
			locked.Left != ttl-time.Second || locked.Ahead != 1 {
			t.Fatalf("got %+v", locked)
		}
		if !strings.Contains(err.Error(), `holdfast: trylock "x" on memory: locked by nightly on`) {
			t.Fatalf("it reads %q", err)
		}
		r.unlock(held)
		r.unlock(r.lock(r.client().Mutex("x").TryLock))
	})
}

func TestLockThatReachesItsDeadline(t *testing.T) {
	for name, lock := range map[string]func(*holdfast.Client) error{
		"context": func(c *holdfast.Client) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_, err := c.Mutex("x").Lock(ctx)
			return err
		},
		"Wait": func(c *holdfast.Client) error {
			_, err := c.Mutex("x", holdfast.WithWait(time.Minute)).Lock(context.Background())
			return err
		},
		"Do": func(c *holdfast.Client) error {
			return c.Mutex("x", holdfast.WithWait(time.Minute)).Do(context.Background(), func(context.Context) error {
				return errors.New("called without the lock")
			})
		},
	} {
		scene(t, name, func(t *testing.T, r *rig) {
			held := r.lock(r.client().Mutex("x").Lock)
			other := r.begin(r.client().Mutex("x").Lock)
			began := time.Now()
			err := lock(r.client())
			var locked *holdfast.LockedError
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, holdfast.ErrLocked) ||
				!errors.As(err, &locked) {
				t.Fatalf("got %v", err)
			}
			if locked.Token != held.Token() || locked.Ahead != 2 || time.Since(began) != time.Minute {
				t.Fatalf("after %v: %+v", time.Since(began), locked)
			}
			synctest.Wait()
			if queue, err := r.client().Inspect(t.Context(), "x"); err != nil || len(queue.Entries) != 2 {
				t.Fatalf("it left a claim behind: %+v, %v", queue, err)
			}
			r.unlock(held)
			r.holds(other, "the next in queue did not get it")
		})
	}
}

func TestDo(t *testing.T) {
	boom := errors.New("boom")
	bubble(t, func(t *testing.T, r *rig) {
		m := r.client().Mutex("x")
		fails := func(context.Context) error { return boom }
		if err := m.Do(t.Context(), fails); err != boom { //nolint:errorlint // it is returned unchanged
			t.Fatalf("fn's error came back as %v", err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			m.Do(t.Context(), func(context.Context) error { panic("boom") }) //nolint:errcheck // it panics
		}()
		r.unlock(r.lock(m.TryLock)) // both gave it back

		if err := m.Do(t.Context(), nil); err == nil {
			t.Fatal("Do without a function said nothing")
		}
	})
}

func TestDoIsBoundByItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.client().Mutex("x")
		ctx := r.within(time.Hour)
		err := m.Do(ctx, func(ctx context.Context) error {
			if d, ok := ctx.Deadline(); !ok || time.Until(d) != time.Hour {
				t.Errorf("the function sees the deadline %v, %v", d, ok)
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, holdfast.ErrLost) {
			t.Fatalf("got %v", err)
		}
		synctest.Wait()
		r.unlock(r.lock(m.TryLock)) // it was released although the context had ended
	})
}

// TestFewCallsFromLockToTheStore bounds the call depth between Lock and the store, for readers of the code.
func TestFewCallsFromLockToTheStore(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		between := 0
		c := r.around(&detour{join: func(context.Context, store.Claim) error {
			stack := make([]uintptr, 100)
			frames := runtime.CallersFrames(stack[:runtime.Callers(3, stack)]) // the callers of Join
			for frame, more := frames.Next(); more &&
				!strings.HasSuffix(frame.Function, "(*Mutex).Lock"); frame, more = frames.Next() {
				t.Log(frame.Function)
				between++
			}
			return nil
		}})
		r.lock(c.Mutex("x").Lock)
		if between != 3 {
			t.Errorf("%d calls between Lock and the store's Join, want 3", between)
		}
	})
}
