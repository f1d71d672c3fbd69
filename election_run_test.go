package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

// run starts Run and returns where its error is to come.
func (r *rig) run(ctx context.Context, e *holdfast.Election, fn func(context.Context) error) <-chan error {
	returned := make(chan error, 1)
	go func() { returned <- e.Run(ctx, fn) }()
	synctest.Wait()
	return returned
}

func TestElectionRun(t *testing.T) {
	boom := errors.New("boom")
	for _, want := range []error{nil, boom} {
		scene(t, fmt.Sprint(want), func(t *testing.T, r *rig) {
			first := r.lock(r.client().Election("boss").Campaign)
			e := r.client().Election("boss")
			calls, finish := 0, make(chan struct{})
			returned := r.run(t.Context(), e, func(ctx context.Context) error {
				calls++
				leader, err := e.Leader(t.Context())
				if token, ok := holdfast.TokenFrom(ctx); err != nil || !ok || token != leader.Token {
					t.Errorf("its token is %v; %+v leads, %v", token, leader, err)
				}
				<-finish
				return want
			})
			r.pass(10 * ttl)
			if calls != 0 {
				t.Fatal("it runs without leading")
			}
			next := r.begin(r.client().Election("boss").Campaign)
			r.unlock(first)
			r.pass(10 * ttl)
			if calls != 1 || len(returned) != 0 {
				t.Fatalf("it was called %d times", calls)
			}
			now := time.Now()
			close(finish)
			if err := <-returned; err != want { //nolint:errorlint // the very same
				t.Errorf("got %v", err)
			}
			if synctest.Wait(); !next.holds() || time.Since(now) != 0 || calls != 1 {
				t.Errorf("it did not step down; it was called %d times", calls)
			}
		})
	}
}

func TestElectionRunStepsDownWhenItsFunctionPanics(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			fn := func(context.Context) error { panic("boom") }
			r.client().Election("boss").Run(t.Context(), fn) //nolint:errcheck // it panics
		}()
		r.lock(r.client().Election("boss").Campaign)
	})
}

func TestElectionRunCampaignsAgainAfterALoss(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var tokens []holdfast.Token
		var causes []error
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		returned := r.run(ctx, r.client().Election("boss"), func(ctx context.Context) error {
			token, _ := holdfast.TokenFrom(ctx)
			tokens = append(tokens, token)
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
			return ctx.Err()
		})
		for i := range 3 {
			r.pass(ttl)
			if len(tokens) != i+1 || len(causes) != i || len(returned) != 0 {
				t.Fatalf("it ran %d times, and %d times to the end", len(tokens), len(causes))
			}
			if i > 0 && (tokens[i] <= tokens[i-1] || !errors.Is(causes[i-1], holdfast.ErrLost)) {
				t.Errorf("tokens %v; it ended because of %v", tokens, causes[i-1])
			}
			if i < 2 {
				r.server.Restart(false)
			}
		}
		cancel()
		if err := <-returned; !errors.Is(err, context.Canceled) || errors.Is(err, holdfast.ErrLost) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		r.free("boss")
	})
}

// TestElectionRunRidesOutAnOutage: an outage is what most losses come from, and it is not over when the leadership is.
func TestElectionRunRidesOutAnOutage(t *testing.T) {
	for what, outage := range map[string]func(link linkFaults) (back func()){
		"cut":           func(link linkFaults) func() { link.Cut(); return func() {} },
		"requests hang": func(link linkFaults) func() { return link.HoldRequests() },
		"replies hang":  func(link linkFaults) func() { return link.HoldReplies() },
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			c, link := r.linked()
			terms := 0
			ctx := r.within(24 * time.Hour)
			returned := r.run(ctx, c.Election("boss"), func(ctx context.Context) error {
				terms++
				<-ctx.Done()
				return ctx.Err()
			})
			back := outage(link)
			r.pass(3 * ttl)
			back()
			link.Heal()
			r.pass(2 * ttl)
			if len(returned) != 0 {
				t.Fatalf("it gave up: %v", <-returned)
			}
			if terms != 2 {
				t.Errorf("it led %d times", terms)
			}
			c.Close()
			<-returned
		})
	}
}

// TestElectionRunKnowsItsOwnLoss: what fn lost elsewhere is fn's error, and no reason to campaign again.
func TestElectionRunKnowsItsOwnLoss(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		calls := 0
		ctx := r.within(time.Minute)
		err := c.Election("boss").Run(ctx, func(ctx context.Context) error {
			calls++
			return c.Mutex("x", holdfast.WithFixedTTL(time.Second)).Do(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
		})
		if calls != 1 || !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("it was called %d times, and returned %v", calls, err)
		}
	})
}

func TestElectionRunEndsWithItsContext(t *testing.T) {
	for what, leads := range map[string]bool{"as leader": true, "as candidate": false} {
		scene(t, what, func(t *testing.T, r *rig) {
			if !leads {
				r.lock(r.client().Election("boss").Campaign)
			}
			ctx := r.within(time.Minute)
			began, ran := time.Now(), false
			err := r.client().Election("boss").Run(ctx, func(ctx context.Context) error {
				ran = true
				<-ctx.Done()
				return ctx.Err()
			})
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, holdfast.ErrLost) ||
				time.Since(began) != time.Minute || ran != leads {
				t.Errorf("after %v: %v; it ran: %v", time.Since(began), err, ran)
			}
			synctest.Wait()
			queue, err := r.client().Inspect(t.Context(), "boss")
			if err != nil || len(queue.Entries) != map[bool]int{true: 0, false: 1}[leads] {
				t.Errorf("it left something behind: %+v, %v", queue, err)
			}
		})
	}
}

func TestElectionRunEndsWithClose(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		a, b := r.client(), r.client()
		wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		leader, candidate := r.run(t.Context(), a.Election("boss"), wait), r.run(t.Context(), b.Election("boss"), wait)
		b.Close()
		a.Close()
		for _, returned := range []<-chan error{leader, candidate} {
			if err := <-returned; !errors.Is(err, holdfast.ErrClosed) {
				t.Errorf("got %v", err)
			}
		}
	})
}

// TestElectionRunNeverRunsTwice: when a leader's function begins, the context of the one before is over, through
// outages of all kinds.
func TestElectionRunNeverRunsTwice(t *testing.T) {
	total := 0
	for seed := range uint64(10) {
		bubble(t, func(t *testing.T, r *rig) {
			chance := rand.New(rand.NewPCG(seed, 0))
			ctx, cancel := context.WithCancel(t.Context())
			var mu sync.Mutex
			var terms []context.Context
			last := holdfast.Token(0)
			var wg sync.WaitGroup
			var links []linkFaults
			var heal []func()
			for range 3 {
				c, link := r.linked()
				links, heal = append(links, link), append(heal, link.Heal)
				lead := func(ctx context.Context) error {
					mu.Lock()
					for _, before := range terms {
						if before.Err() == nil {
							t.Errorf("seed %d: two lead", seed)
						}
					}
					terms = append(terms, ctx)
					token, _ := holdfast.TokenFrom(ctx)
					if token <= last {
						t.Errorf("seed %d: token %v after %v", seed, token, last)
					}
					last = token
					mu.Unlock()
					<-ctx.Done()
					return ctx.Err()
				}
				wg.Go(func() {
					for ctx.Err() == nil {
						c.Election("boss").Run(ctx, lead) //nolint:errcheck // it runs again, whatever it was
						select {
						case <-ctx.Done():
						case <-time.After(time.Second):
						}
					}
				})
			}
			for range 30 {
				time.Sleep(time.Duration(chance.Int64N(int64(ttl))))
				i, release := chance.IntN(3), func() {}
				switch chance.IntN(4) {
				case 0:
					links[i].Cut()
				case 1:
					release = links[i].HoldRequests()
				case 2:
					release = links[i].HoldReplies()
				case 3:
					r.server.Restart(true)
				}
				time.Sleep(time.Duration(chance.Int64N(int64(2 * ttl))))
				release()
				heal[i]()
			}
			cancel()
			wg.Wait()
			total += len(terms)
		})
	}
	if total < 20 {
		t.Errorf("only %d terms: the test shows little", total)
	}
}
