package leasectx_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/internal/leasectx"
	"github.com/holdfast-go/holdfast/internal/leaks"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// TestEnds: a joined context ends with its caller's context, with its lease, and with cancel, and has the cause.
func TestEnds(t *testing.T) {
	stopped := errors.New("stopped by the caller")
	server := memstore.NewServer()
	locks := holdfast.New(server.Connect())
	defer locks.Close()
	cases := map[string]struct {
		end   func(caller context.CancelCauseFunc, cancel context.CancelFunc)
		cause error
	}{
		"caller": {func(caller context.CancelCauseFunc, _ context.CancelFunc) { caller(stopped) }, stopped},
		"cancel": {func(_ context.CancelCauseFunc, cancel context.CancelFunc) { cancel() }, context.Canceled},
		"lost":   {func(context.CancelCauseFunc, context.CancelFunc) { server.Revoke("x") }, holdfast.ErrLost},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, endCaller := context.WithCancelCause(t.Context())
			defer endCaller(nil)
			lease := testkit.Lock(t, locks, "x")
			defer lease.Unlock(t.Context())
			joined, cancel := leasectx.Join(ctx, lease)
			defer cancel()
			if token, ok := holdfast.TokenFrom(joined); !ok || token != lease.Token() || joined.Err() != nil {
				t.Fatal(token, ok, joined.Err())
			}
			c.end(endCaller, cancel)
			<-joined.Done()
			if got := context.Cause(joined); !errors.Is(got, c.cause) || joined.Err() == nil {
				t.Errorf("the cause is %v, want %v; Err is %v", got, c.cause, joined.Err())
			}
		})
	}
}

// TestSeenAtOnce: the first call after a pause in which no other goroutine has run sees the end.
func TestSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		locks := holdfast.New(store, holdfast.WithTTL(time.Second))
		defer locks.Close()
		lease := testkit.Lock(t, locks, "x")
		joined, cancel := leasectx.Join(t.Context(), lease)
		defer cancel()
		store.Disconnect()
		time.Sleep(time.Minute)
		if joined.Err() == nil || !errors.Is(context.Cause(joined), holdfast.ErrLost) {
			t.Errorf("%v, %v", joined.Err(), context.Cause(joined))
		}
		caller, end := context.WithCancel(t.Context())
		store.Reconnect()
		lease = testkit.Lock(t, locks, "y")
		defer lease.Unlock(t.Context())
		joined, cancel = leasectx.Join(caller, lease)
		defer cancel()
		end()
		if joined.Err() == nil {
			t.Error("the caller's end is not seen at once")
		}
	})
}
