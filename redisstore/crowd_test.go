package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	crowds "github.com/holdfast-go/holdfast/lab/contend"
)

func TestStampede(t *testing.T) {
	crowds.Stampede(t, crowds.Herd{URL: "redis://" + servers.Redis(t).Addr(), Processes: 50})
}

func TestStampedeInPlainMode(t *testing.T) {
	crowds.Stampede(t, crowds.Herd{URL: "redis://" + servers.Redis(t).Addr() + "?mode=plain", Processes: 50})
}

func TestStampedeInCluster(t *testing.T) {
	crowds.Stampede(t, crowds.Herd{URL: clusterURL(servers.RedisCluster(t))})
}

// TestRelay passes one lease back and forth between two processes, which are killed and paused.
func TestRelay(t *testing.T) {
	for _, mode := range []string{"queue", "plain"} {
		t.Run(mode, func(t *testing.T) {
			url := "redis://" + servers.Redis(t).Addr() + "?ttl=1s&mode=" + mode
			crowds.Relay(t, crowds.Race{URL: url, TTL: time.Second, Passes: 400, Faults: 3})
		})
	}
}

// TestCrowdThatGivesUp: 600 calls of Lock are cancelled at the same moment, again and again, on a server that
// answers. Callers on the same client that do not give up get no error from anything that they call.
func TestCrowdThatGivesUp(t *testing.T) {
	for _, mode := range []string{"queue", "plain"} {
		t.Run(mode, func(t *testing.T) {
			locks, err := holdfast.Open(t.Context(), "redis://"+servers.Redis(t).Addr()+"?mode="+mode)
			testkit.Must(t, err)
			defer locks.Close()
			giveUp := make(chan struct{})
			failed := make(chan error, 8)
			var staying sync.WaitGroup
			for i := range cap(failed) {
				staying.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-giveUp:
							return
						default:
						}
						if err := useOne(t.Context(), locks, fmt.Sprintf("stays %d", i)); err != nil {
							failed <- fmt.Errorf("call %d: %w", n, err)
							return
						}
					}
				})
			}
			for range 40 {
				ctx, cancel := context.WithCancel(t.Context())
				var crowd sync.WaitGroup
				for i := range 600 {
					crowd.Go(func() {
						lease, err := locks.Mutex(fmt.Sprintf("goes %d", i)).Lock(ctx)
						if err == nil {
							err = lease.Unlock(t.Context())
						}
						if err != nil && !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
					})
				}
				time.AfterFunc(2*time.Millisecond, cancel)
				crowd.Wait()
			}
			close(giveUp)
			staying.Wait()
			close(failed)
			for err := range failed {
				t.Error(err)
			}
		})
	}
}

// useOne takes a lock, looks at its queue, and releases it.
func useOne(ctx context.Context, locks *holdfast.Client, name string) error {
	lease, err := locks.Mutex(name).Lock(ctx)
	if err != nil {
		return err
	}
	if _, err := locks.Inspect(ctx, name); err != nil {
		return err
	}
	return lease.Unlock(ctx)
}

// TestAbandonedRequestsKeepTheConnection: more requests are abandoned than a connection has room for, while the
// server stands still for a moment. When it goes on, it is asked over the same connection, though nobody has asked
// anything meanwhile.
func TestAbandonedRequestsKeepTheConnection(t *testing.T) {
	server := servers.Redis(t)
	locks, err := holdfast.Open(t.Context(), "redis://"+server.Addr())
	testkit.Must(t, err)
	defer locks.Close()
	testkit.Unlock(t, testkit.Lock(t, locks, "before"))
	ids := func() string {
		clients, err := server.Do("CLIENT", "LIST", "TYPE", "NORMAL")
		testkit.Must(t, err)
		var ids []string
		for _, client := range strings.Split(clients.(string), "\n") {
			if strings.Contains(client, " name=holdfast ") {
				ids = append(ids, strings.Fields(client)[0])
			}
		}
		return strings.Join(ids, " ")
	}
	connected := ids()
	for try := range 10 {
		began := time.Now()
		testkit.Must(t, server.Pause())
		var crowd sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		for i := range 400 {
			crowd.Go(func() {
				if _, err := locks.Mutex(fmt.Sprintf("abandoned %d", i)).TryLock(ctx); err == nil {
					t.Error("a server that stands still grants a lock")
				}
			})
		}
		crowd.Wait()
		cancel()
		testkit.Must(t, server.Continue())
		took := time.Since(began)
		testkit.Unlock(t, testkit.Lock(t, locks, "after"))
		switch now := ids(); {
		case now == connected:
			return
		case took < 2*time.Second:
			t.Fatalf("the connections were %s and are %s", connected, now)
		default:
			t.Logf("try %d: the server stood still for %v, on a busy machine", try, took)
			connected = now
		}
	}
}
