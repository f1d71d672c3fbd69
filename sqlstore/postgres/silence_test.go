package postgres_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
)

// A middlebox forgets idle connections, and nobody is told: what is sent on them is swallowed. The lease is renewed on a new
// one, however many of the old ones there are.
func TestIdleConnectionsForgotten(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	before, after := testkit.Proxy(t, server.Addr()), testkit.Proxy(t, server.Addr())
	var way atomic.Pointer[proxy.Proxy]
	way.Store(before)
	s := openAt(t, urlAt(server.Addr()), postgres.Toward(func() string { return way.Load().Addr() }))
	locks := holdfast.New(s, holdfast.TTL(4*time.Second))
	defer locks.Close()
	lease := testkit.Lock(t, locks, "kept")
	busy := before.Hold(proxy.Replies) // so that each call needs a connection of its own
	var calls sync.WaitGroup
	for n := range 6 {
		calls.Go(func() {
			_, err := s.Join(t.Context(), testkit.Claim(fmt.Sprint(n), time.Minute))
			testkit.Check(t, err)
		})
	}
	testkit.Await(t, "there are many connections", func() bool { return before.Connections() >= 6 })
	busy()
	calls.Wait()

	way.Store(after)
	silenced := time.Now()
	end := before.Silence(proxy.All)
	defer end()
	until := lease.Until()
	testkit.Await(t, "the lease is renewed", func() bool { return lease.Until().After(until.Add(time.Second)) || lease.Err() != nil })
	if err := lease.Err(); err != nil {
		t.Errorf("after %v: %v", time.Since(silenced), err)
	}
	testkit.Must(t, lease.Unlock(t.Context()))
	if _, err := s.Join(t.Context(), testkit.Claim("kept", time.Minute)); err != nil {
		t.Error(err)
	}
}
