package otelholdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/otelholdfast"
	"github.com/holdfast-go/holdfast/store"
)

var (
	mutex = holdfast.Request{
		Op: "lock", Name: "inventory:42", Store: "memory", Kind: store.Lock, Units: store.MaxReaders,
		Limit: store.MaxReaders,
	}
	try = holdfast.Request{
		Op: "trylock", Name: "inventory:42", Store: "memory", Kind: store.Lock, Units: store.MaxReaders,
		Limit: store.MaxReaders,
	}
)

const (
	token       = holdfast.Token(7 << 8)
	sharedToken = token | 1<<7
)

// play notifies the observer of a wait and a hold, which ends with why.
func (r *rig) play(ctx context.Context, wait, hold time.Duration, why error) {
	ctx, waited := r.observer.Waiting(ctx, mutex)
	time.Sleep(wait)
	_, held := r.observer.Holding(ctx, mutex, token)
	waited(nil)
	time.Sleep(hold)
	held(why)
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ctx := t.Context()
		r.play(ctx, time.Second, time.Minute, fmt.Errorf("%w: it was unlocked", holdfast.ErrNotHeld))
		r.play(ctx, 2*time.Second, time.Minute, holdfast.ErrNotHeld)
		r.play(ctx, 0, time.Hour, fmt.Errorf("%w: it expired", holdfast.ErrLost))
		r.play(ctx, 0, time.Hour, holdfast.ErrClosed)
		_, waited := r.observer.Waiting(ctx, try)
		waited(&holdfast.LockedError{})
		r.observer.Renewed("memory", 3, time.Second, nil)
		r.observer.Renewed("memory", 2, 3*time.Second, nil)
		r.observer.Renewed("memory", 5, 4*time.Second, errors.New("no answer"))
		r.observer.Jeopardy(mutex, token, time.Second, errors.New("no answer"))
		r.observer.HandedOver(mutex, token)
		r.observer.Deadlocked(mutex, errors.New("a cycle"))
		r.observer.Retried("memory", errors.New("could not serialize access"))
		r.wantMetrics(map[string]string{
			"wait.duration{op=lock outcome=granted store=memory}":   "4 in 3s",
			"wait.duration{op=trylock outcome=locked store=memory}": "1 in 0s",
			"hold.duration{op=lock outcome=released store=memory}":  "2 in 2m0s",
			"hold.duration{op=lock outcome=lost store=memory}":      "1 in 1h0m0s",
			"hold.duration{op=lock outcome=closed store=memory}":    "1 in 1h0m0s",
			"renewals{outcome=ok store=memory}":                     "5",
			"renewals{outcome=error store=memory}":                  "5",
			"renewal.duration{outcome=ok store=memory}":             "2 in 4s",
			"renewal.duration{outcome=error store=memory}":          "1 in 4s",
			"jeopardies{store=memory}":                              "1",
			"losses{op=lock store=memory}":                          "1",
			"deadlocks{op=lock store=memory}":                       "1",
			"handovers{op=lock store=memory}":                       "1",
			"retries{store=memory}":                                 "1",
			"leases{op=lock store=memory}":                          "0",
			"waiters{op=lock store=memory}":                         "0",
			"waiters{op=trylock store=memory}":                      "0",
		})
	})
}

func TestHowManyNow(t *testing.T) {
	r := newRig(t)
	ctx, waited := r.observer.Waiting(t.Context(), mutex)
	_, gaveUp := r.observer.Waiting(t.Context(), mutex)
	r.wantMetrics(map[string]string{"waiters{op=lock store=memory}": "2"})
	gaveUp(context.Canceled)
	_, held := r.observer.Holding(ctx, mutex, token)
	waited(nil)
	_, second := r.observer.Holding(ctx, mutex, sharedToken)
	r.wantSome(map[string]string{"waiters{op=lock store=memory}": "0", "leases{op=lock store=memory}": "2"})
	held(holdfast.ErrNotHeld)
	second(holdfast.ErrNotHeld)
	r.wantSome(map[string]string{"leases{op=lock store=memory}": "0"})
}

func TestOutcomeOfAWait(t *testing.T) {
	fault := &store.Fault{Store: "redis 127.0.0.1:6379", Err: errors.New("refused")}
	slow := &store.Fault{Store: "redis 127.0.0.1:6379", Err: context.DeadlineExceeded}
	atDeadline := fmt.Errorf("%w: %w", holdfast.ErrLocked, context.DeadlineExceeded)
	for _, c := range []struct {
		name    string
		err     error
		outcome string
		status  codes.Code
	}{
		{"granted", nil, "granted", codes.Unset},
		{"taken", &holdfast.LockedError{}, "locked", codes.Unset},
		{"taken up to the deadline", atDeadline, "timeout", codes.Unset},
		{"deadline", context.DeadlineExceeded, "timeout", codes.Unset},
		{"given up", context.Canceled, "canceled", codes.Unset},
		{"cancelled while the store was failing", fmt.Errorf("%w: %w", context.Canceled, fault), "canceled",
			codes.Unset},
		{"deadlock", &holdfast.DeadlockError{}, "deadlock", codes.Error},
		{"closed", holdfast.ErrClosed, "closed", codes.Unset},
		{"store is failing", fault, "error", codes.Error},
		{"store is failing up to the deadline", fmt.Errorf("%w: %w", context.DeadlineExceeded, fault), "error",
			codes.Error},
		{"store does not answer", slow, "error", codes.Error},
		{"mismatch", holdfast.ErrMismatch, "error", codes.Error},
		{"granted too late", holdfast.ErrLost, "error", codes.Error},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				err := c.err
				if err != nil {
					err = &holdfast.Error{Op: "lock", Name: mutex.Name, Store: mutex.Store, Err: err}
				}
				_, waited := r.observer.Waiting(t.Context(), mutex)
				waited(err)
				r.wantMetrics(map[string]string{
					"wait.duration{op=lock outcome=" + c.outcome + " store=memory}": "1 in 0s",
					"waiters{op=lock store=memory}":                                 "0",
				})
				span := r.span("holdfast.wait")
				r.wantAttributes("the wait", span.Attributes(), map[string]string{
					"name": "inventory:42", "op": "lock", "store": "memory", "shared": "false", "outcome": c.outcome,
				})
				if span.Status().Code != c.status {
					t.Errorf("its status is %v, want %v", span.Status().Code, c.status)
				}
				if c.status == codes.Error && span.Status().Description != err.Error() {
					t.Errorf("its status says %q", span.Status().Description)
				}
			})
		})
	}
}

func TestOutcomeOfALease(t *testing.T) {
	for _, c := range []struct {
		name    string
		why     error
		outcome string
		status  codes.Code
	}{
		{"unlocked", fmt.Errorf("%w: it was unlocked", holdfast.ErrNotHeld), "released", codes.Unset},
		{"no reason", nil, "released", codes.Unset},
		{"closed", holdfast.ErrClosed, "closed", codes.Unset},
		{"lost", holdfast.ErrLost, "lost", codes.Error},
		{"lost with a store that was closed", fmt.Errorf("%w: %w", holdfast.ErrLost, store.ErrClosed), "lost",
			codes.Error},
		{"another reason", errors.New("moon phase"), "error", codes.Error},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			_, held := r.observer.Holding(t.Context(), mutex, token)
			held(c.why)
			if got := r.metrics()["hold.duration{op=lock outcome="+c.outcome+" store=memory}"]; got == "" {
				t.Errorf("no hold with outcome %s: %v", c.outcome, r.metrics())
			}
			if lost := r.metrics()["losses{op=lock store=memory}"] == "1"; lost != (c.outcome == "lost") {
				t.Errorf("counted as a loss: %v", lost)
			}
			span := r.span("holdfast.hold")
			r.wantAttributes("the hold", span.Attributes(), map[string]string{
				"name": "inventory:42", "op": "lock", "store": "memory", "shared": "false", "outcome": c.outcome,
				"token": token.String(),
			})
			if span.Status().Code != c.status {
				t.Errorf("its status is %v, want %v", span.Status().Code, c.status)
			}
		})
	}
}

// TestHoldIsBesideItsWait looks at how the spans of one lock hang together.
func TestHoldIsBesideItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ctx, parent := r.tracers.Tracer("test").Start(t.Context(), "sale")
		waitCtx, waited := r.observer.Waiting(ctx, mutex)
		time.Sleep(time.Second)
		type key struct{}
		within := context.WithValue(waitCtx, key{}, "kept") // what the core may add on the way
		holdCtx, held := r.observer.Holding(within, mutex, token)
		waited(nil)
		if holdCtx.Value(key{}) != "kept" {
			t.Error("Holding dropped a value of the context")
		}
		time.Sleep(time.Minute)
		held(holdfast.ErrNotHeld)
		parent.End()

		wait, hold := r.span("holdfast.wait"), r.span("holdfast.hold")
		for _, s := range []sdk.ReadOnlySpan{wait, hold} {
			if s.Parent().SpanID() != parent.SpanContext().SpanID() {
				t.Errorf("%s is not beneath the caller's span", s.Name())
			}
		}
		if wait.SpanKind() != trace.SpanKindClient || hold.SpanKind() != trace.SpanKindInternal {
			t.Errorf("kinds are %v and %v", wait.SpanKind(), hold.SpanKind())
		}
		if links := hold.Links(); len(links) != 1 || !links[0].SpanContext.Equal(wait.SpanContext()) {
			t.Errorf("the hold's links are %v", links)
		}
		if sc := trace.SpanContextFromContext(waitCtx); !sc.Equal(wait.SpanContext()) {
			t.Error("the wait's context has another span")
		}
		if sc := trace.SpanContextFromContext(holdCtx); !sc.Equal(hold.SpanContext()) {
			t.Error("the lease's context has another span")
		}
		if d := wait.EndTime().Sub(wait.StartTime()); d != time.Second {
			t.Errorf("the wait's span took %v", d)
		}
		if d := hold.EndTime().Sub(hold.StartTime()); d != time.Minute {
			t.Errorf("the hold's span took %v", d)
		}
	})
}

// TestLocksWithinLocks nests a lock in another's lease, and downgrades that with its own context: each lease is
// linked with its own wait, or with none.
func TestLocksWithinLocks(t *testing.T) {
	r := newRig(t)
	ctx, waited := r.observer.Waiting(t.Context(), mutex)
	outer, outerHeld := r.observer.Holding(ctx, mutex, token)
	waited(nil)
	outerSpan := trace.SpanContextFromContext(outer)

	waitCtx, waited := r.observer.Waiting(outer, mutex)
	inner, innerHeld := r.observer.Holding(waitCtx, mutex, token+1<<8)
	waited(nil)
	downgraded, downgradedHeld := r.observer.Holding(outer, mutex, sharedToken)
	innerHeld(holdfast.ErrNotHeld)
	outerHeld(holdfast.ErrNotHeld)
	downgradedHeld(holdfast.ErrNotHeld)

	spans := map[trace.SpanID]sdk.ReadOnlySpan{}
	for _, s := range r.spans.Ended() {
		spans[s.SpanContext().SpanID()] = s
	}
	of := func(ctx context.Context) sdk.ReadOnlySpan { return spans[trace.SpanContextFromContext(ctx).SpanID()] }
	if s := of(outer); s.Parent().IsValid() || len(s.Links()) != 1 {
		t.Errorf("the outer lease has parent %v and links %v", s.Parent(), s.Links())
	}
	if s := of(waitCtx); !s.Parent().Equal(outerSpan) {
		t.Error("the inner wait is not beneath the outer lease")
	}
	s := of(inner)
	if !s.Parent().Equal(outerSpan) {
		t.Error("the inner lease is not beneath the outer one")
	}
	if len(s.Links()) != 1 || !s.Links()[0].SpanContext.Equal(of(waitCtx).SpanContext()) {
		t.Errorf("the inner lease has links %v", s.Links())
	}
	s = of(downgraded)
	if !s.Parent().Equal(outerSpan) || len(s.Links()) != 0 {
		t.Errorf("the downgraded lease has parent %v and links %v", s.Parent(), s.Links())
	}
	r.wantAttributes("the downgraded lease", s.Attributes(), map[string]string{
		"name": "inventory:42", "op": "lock", "store": "memory", "shared": "true", "outcome": "released",
		"token": sharedToken.String(),
	})
}

// TestTwoObservers lets one observer tell two: each links its own spans.
func TestTwoObservers(t *testing.T) {
	a, b := newRig(t), newRig(t)
	ctx, waitedA := a.observer.Waiting(t.Context(), mutex)
	ctx, waitedB := b.observer.Waiting(ctx, mutex)
	ctx, heldA := a.observer.Holding(ctx, mutex, token)
	_, heldB := b.observer.Holding(ctx, mutex, token)
	for _, end := range []func(error){waitedA, waitedB} {
		end(nil)
	}
	for _, end := range []func(error){heldA, heldB} {
		end(holdfast.ErrNotHeld)
	}
	for _, r := range []*rig{a, b} {
		links := r.span("holdfast.hold").Links()
		if len(links) != 1 || !links[0].SpanContext.Equal(r.span("holdfast.wait").SpanContext()) {
			t.Errorf("links are %v", links)
		}
	}
}

func TestHolderIsNamed(t *testing.T) {
	r := newRig(t)
	_, waited := r.observer.Waiting(t.Context(), try)
	waited(&holdfast.Error{Op: "trylock", Err: &holdfast.LockedError{
		Since: time.Now(), Holder: store.Owner{Label: "nightly", Host: "db1"},
	}})
	r.wantAttributes("the wait", r.span("holdfast.wait").Attributes(), map[string]string{
		"name": "inventory:42", "op": "trylock", "store": "memory", "shared": "false", "outcome": "locked",
		"holder": "nightly on db1",
	})
}

func TestJeopardyIsOnTheSpanOfTheLease(t *testing.T) {
	r := newRig(t)
	_, held := r.observer.Holding(t.Context(), mutex, token)
	r.observer.Jeopardy(mutex, token+1<<8, time.Second, errors.New("of another lease"))
	r.observer.Jeopardy(mutex, token, 1500*time.Millisecond, errors.New("no answer"))
	held(holdfast.ErrLost)
	r.observer.Jeopardy(mutex, token, 0, errors.New("too late"))

	events := r.span("holdfast.hold").Events()
	if len(events) != 1 || events[0].Name != "holdfast.jeopardy" {
		t.Fatalf("events are %v", events)
	}
	r.wantAttributes("the event", events[0].Attributes, map[string]string{"left": "1.5", "error": "no answer"})
	r.wantSome(map[string]string{"jeopardies{store=memory}": "3"})
}

func TestNameAttribute(t *testing.T) {
	r := newRig(t, otelholdfast.WithNameAttribute(func(name string) string {
		if name == "secret" {
			return ""
		}
		return name[:len("inventory")]
	}))
	secret := mutex
	secret.Name = "secret"
	for _, request := range []holdfast.Request{mutex, secret} {
		_, held := r.observer.Holding(t.Context(), request, token)
		_ = held
	}
	r.observer.Renewed("memory", 1, 0, nil) // of no name
	r.wantMetrics(map[string]string{
		"leases{name=inventory op=lock store=memory}": "1",
		"leases{op=lock store=memory}":                "1",
		"renewals{outcome=ok store=memory}":           "1",
		"renewal.duration{outcome=ok store=memory}":   "1 in 0s",
	})
}

func TestWrongOptions(t *testing.T) {
	for name, option := range map[string]otelholdfast.Option{
		"nil":            nil,
		"MeterProvider":  otelholdfast.WithMeterProvider(nil),
		"TracerProvider": otelholdfast.WithTracerProvider(nil),
		"NameAttribute":  otelholdfast.WithNameAttribute(nil),
	} {
		if o, err := otelholdfast.New(option); !errors.Is(err, holdfast.ErrBadOption) || o != nil {
			t.Errorf("%s: %v, %v", name, o, err)
		}
	}
}

// TestGlobalProviders uses the global providers, which are not set: it must do nothing, without failing.
func TestGlobalProviders(t *testing.T) {
	o, err := otelholdfast.New()
	testkit.Must(t, err)
	ctx, waited := o.Waiting(t.Context(), mutex)
	_, held := o.Holding(ctx, mutex, token)
	waited(nil)
	o.Jeopardy(mutex, token, 0, nil)
	held(holdfast.ErrNotHeld)
}

// TestManyAtOnce is for the race detector.
func TestManyAtOnce(t *testing.T) {
	r := newRig(t)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for turn := range 50 {
				ctx, waited := r.observer.Waiting(t.Context(), mutex)
				mine := token + holdfast.Token(i*50+turn)<<8
				_, held := r.observer.Holding(ctx, mutex, mine)
				waited(nil)
				r.observer.Jeopardy(mutex, mine, time.Second, nil)
				r.observer.Renewed("memory", 1, time.Millisecond, nil)
				held(holdfast.ErrNotHeld)
			}
		})
	}
	all.Wait()
	r.wantSome(map[string]string{
		"leases{op=lock store=memory}":      "0",
		"waiters{op=lock store=memory}":     "0",
		"jeopardies{store=memory}":          "800",
		"renewals{outcome=ok store=memory}": "800",
	})
}
