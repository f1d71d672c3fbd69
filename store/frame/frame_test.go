package frame_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

var errRefused = errors.New("refused, you said hunter2")

func newFrame(t *testing.T, config frame.Config) *frame.Frame {
	t.Helper()
	config.Name = "test"
	f := frame.New(config)
	t.Cleanup(f.End)
	return f
}

// TestOutcome: what becomes of an operation's error, by what else has happened.
func TestOutcome(t *testing.T) {
	own := &store.Fault{Store: "its own", Err: errRefused}
	final := &store.Fault{Store: "its own", Final: true, Err: errRefused}
	busy := &store.Fault{Store: "its own", Busy: true, Err: errRefused}
	for _, c := range []struct {
		name             string
		err              error
		canceled, closed bool
		wait             time.Duration
		want             string
		is               error
	}{
		{name: "success"},
		{name: "failure", err: errRefused, want: "test: it said: refused, you said xxxxx"},
		{name: "a fault", err: own, want: own.Error(), is: own},
		{name: "a response", err: &store.MismatchError{}, is: store.ErrMismatch},
		{name: "a final fault that came late", err: final, wait: time.Second, want: final.Error()},
		{name: "a busy server that said so late", err: busy, wait: time.Second, want: busy.Error()},
		{name: "a response that came late", err: store.ErrFloor, wait: time.Second, is: store.ErrFloor},
		{name: "no response", err: context.Canceled, wait: time.Second, want: "test: no response in 1s"},
		{name: "given up by the caller", err: errRefused, canceled: true, is: context.Canceled},
		{name: "closed", err: errRefused, canceled: true, closed: true, is: store.ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFrame(t, frame.Config{
					Explain: func(err error) (error, bool) { return errors.New("it said: " + err.Error()), true },
				})
				f.Hide("hunter2")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				call, err := f.Begin(ctx, "name", time.Second)
				if err != nil {
					t.Fatal(err)
				}
				defer call.End()
				time.Sleep(c.wait)
				synctest.Wait()
				if c.canceled {
					cancel()
				}
				if c.closed {
					f.Shut()
				}
				got := call.Outcome(c.err)
				if _, silent := errors.AsType[*store.NoResponseError](got); silent != (c.name == "no response") {
					t.Errorf("%v is a NoResponseError: %v", got, silent)
				}
				if (got == nil) != (c.err == nil) || c.is != nil && !errors.Is(got, c.is) {
					t.Fatalf("%v became %v", c.err, got)
				}
				if c.want != "" && got.Error() != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
				fault, _ := errors.AsType[*store.Fault](got)
				isFinal := strings.Contains(c.want, "it said") || c.err == final //nolint:errorlint // the very same
				if fault != nil && fault.Final != isFinal {
					t.Errorf("final: %v, want %v", fault.Final, isFinal)
				}
			})
		})
	}
}

// TestRefused: what is never sent.
func TestRefused(t *testing.T) {
	f := newFrame(t, frame.Config{})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Begin(t.Context(), "", time.Second); !errors.Is(err, store.ErrBadName) {
		t.Errorf("no name: %v", err)
	}
	if _, err := f.CheckAll(t.Context(), []store.Claim{{Name: "x"}, {Name: "\xff"}}); !errors.Is(err,
		store.ErrBadName) {
		t.Errorf("a bad name of two: %v", err)
	}
	if _, err := f.Begin(canceled, "x", time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if !f.Shut() || f.Shut() {
		t.Error("Shut reports the first time only")
	}
	if _, err := f.Begin(t.Context(), "x", time.Second); !errors.Is(err, store.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	for _, err := range f.Names(t.Context(), nil) {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("names of a closed store: %v", err)
		}
	}
}

// TestPushes: nobody hears a push before Notify and after Shut, and a failed call is followed by one for everyone.
func TestPushes(t *testing.T) {
	f := newFrame(t, frame.Config{PushesWithCalls: true})
	var heard []store.ID
	outcome := func(err error) {
		call := f.Call(t.Context(), time.Second)
		defer call.End()
		_ = call.Outcome(err)
	}
	f.Push(store.ID{1}, store.Status{})
	f.Notify(func(id store.ID, _ store.Status) { heard = append(heard, id) })
	f.Push(store.ID{2}, store.Status{})
	outcome(nil)
	outcome(store.ErrFloor) // nothing was lost
	outcome(nil)
	outcome(errRefused)
	outcome(errRefused)
	outcome(nil)
	outcome(nil)
	f.Push(store.ID{3}, store.Status{})
	f.Shut()
	f.Push(store.ID{4}, store.Status{})
	if want := []store.ID{{2}, store.Everyone, {3}}; !slices.Equal(heard, want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
}

// TestLimits: a call without a deadline is bounded, one with a deadline is left alone, and no bound is sent along.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFrame(t, frame.Config{})
		type bound = func(context.Context, time.Duration) (context.Context, context.CancelFunc)
		long, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for name, within := range map[string]bound{"within": frame.Within, "shared": f.Shared} {
			if ctx, _ := within(long, time.Second); ctx != long {
				t.Errorf("%s: another bound than the caller's", name)
			}
			for _, parent := range []context.Context{context.Background(), t.Context()} {
				ctx, cancel := within(parent, time.Second)
				_, told := ctx.Deadline()
				time.Sleep(900 * time.Millisecond)
				early := ctx.Err()
				time.Sleep(200 * time.Millisecond)
				if early != nil || ctx.Err() == nil || told && name == "within" {
					t.Errorf("%s: ended early: %v, ended: %v, has a deadline: %v", name, early, ctx.Err(), told)
				}
				cancel()
			}
		}
		one, _ := f.Shared(context.Background(), time.Minute)
		two, _ := f.Shared(context.Background(), time.Minute)
		other, cancel := f.Shared(context.Background(), time.Second)
		defer cancel()
		if one != two || one == other {
			t.Error("calls of one limit share a context, and others do not")
		}
		f.End()
		if one.Err() == nil || other.Err() == nil {
			t.Error("a shared context outlives the store")
		}
	})
}

// TestUntil: a claim is valid for its ttl from the time of sending, less what the clocks may differ.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFrame(t, frame.Config{Drift: frame.Clocks})
		sent := time.Now()
		call := f.Call(t.Context(), time.Minute)
		defer call.End()
		time.Sleep(time.Second)
		if got, want := call.Until(store.Held, 10*time.Second),
			sent.Add(10*time.Second-102*time.Millisecond); got != want {
			t.Errorf("until %v, want %v", got, want)
		}
		if got := call.Until(store.Gone, 10*time.Second); !got.IsZero() {
			t.Errorf("a claim that is gone, until %v", got)
		}
	})
}

// TestMask: of two passwords one of which begins with the other, nothing remains.
func TestMask(t *testing.T) {
	f := newFrame(t, frame.Config{})
	for _, secret := range []string{"", "abc", "abcdef", "abc"} {
		f.Hide(secret)
	}
	if got := f.MaskText("abcdef abc def"); got != "xxxxx xxxxx def" {
		t.Errorf("masked: %q", got)
	}
	if err := errors.New("def"); f.Mask(err) != err { //nolint:errorlint // the very same
		t.Error("an error without a secret was changed")
	}
}

// Passwords that change are hidden while they may be in use, and not forever.
func TestHideLatest(t *testing.T) {
	f := frame.New(frame.Config{})
	f.Hide("kept")
	f.HideLatest("first")
	if got := f.MaskText("kept first"); got != "xxxxx xxxxx" {
		t.Errorf("the text is %q", got)
	}
	for i := range 1000 {
		f.HideLatest(fmt.Sprintf("<%d>", i))
	}
	if got, want := f.MaskText("kept first <0> <999>"), "xxxxx first <0> xxxxx"; got != want {
		t.Errorf("the text is %q, want %q", got, want)
	}
}
