package redlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// TestSlowNodes: three nodes of five answer later than they may. TryLock says so at once, and so does a caller's
// deadline. Lock without a deadline goes on, and has the lock when the nodes are quick again. A release waits for
// slow nodes.
func TestSlowNodes(t *testing.T) {
	t.Parallel()
	f := newFreshFleet(t, 5)
	f.query = "node-timeout=150ms"
	f.init()
	ways := testkit.NewWays(t, f.addresses())
	s, err := redlock.OpenDetour(t.Context(), f.url(""), ways.Detour, redlock.WithLogger(silent))
	testkit.Must(t, err)
	locks := holdfast.New(s)
	defer locks.Close()
	m := locks.Mutex("slow")
	held, err := m.Lock(t.Context())
	testkit.Must(t, err)

	ways.Proxies = ways.Proxies[:3]
	quick := ways.Each(func(p *proxy.Proxy) func() { return p.Delay(proxy.Replies, 500*time.Millisecond) })
	if err := held.Unlock(t.Context()); err != nil {
		t.Errorf("a release at slow nodes: %v", err)
	}
	began := time.Now()
	if _, err := m.TryLock(t.Context()); !store.Busy(err) {
		t.Errorf("TryLock, after %v: %v", time.Since(began), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err = m.Lock(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !store.Busy(err) || errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("Lock with a deadline, after %v: %v", time.Since(began), err)
	}
	got := make(chan error, 1)
	go func() {
		lease, err := m.Lock(t.Context())
		if err == nil {
			err = lease.Unlock(t.Context())
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Errorf("Lock at slow nodes: %v", err)
	case <-time.After(time.Second):
		quick()
		if err := <-got; err != nil {
			t.Errorf("Lock after the nodes were slow: %v", err)
		}
	}
}

// TestStoppedNodesAreNotSlow: of nodes that stand still it is known after some seconds that they are not only slow.
func TestStoppedNodesAreNotSlow(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	s := f.open(t)
	f.pause(f.nodes[1:]...)
	testkit.Await(t, "two nodes of three are out of reach", func() bool {
		c := briefClaimOf("x")
		_, err := s.Join(t.Context(), c)
		testkit.Must(t, leaveBy(t, s, c))
		_, fault := errors.AsType[*store.Fault](err)
		if !fault || store.Final(err) {
			t.Fatal(err)
		}
		return !store.Busy(err)
	})
}
