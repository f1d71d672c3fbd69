package postgres_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// A retryCounter is an Observer that counts the calls that were repeated.
type retryCounter struct {
	holdfast.NopObserver
	retries atomic.Int64
}

func (c *retryCounter) Retried(string, error) { c.retries.Add(1) }

// TestRetriesAreObserved: in a database whose transactions are serializable, clients lock one name after the other
// until the server has rolled a call back. The Observer is told, and no caller: all get the lock in the end.
func TestRetriesAreObserved(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.Args("-c", "default_transaction_isolation=serializable"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var counter retryCounter
	var clients sync.WaitGroup
	for range 4 {
		locks, err := holdfast.Open(ctx, server.URL("postgres", "", "postgres"), holdfast.WithObserver(&counter))
		testkit.Must(t, err)
		t.Cleanup(func() { locks.Close() })
		clients.Go(func() {
			for counter.retries.Load() == 0 {
				lease, err := locks.Mutex("x").Lock(ctx)
				if err == nil {
					err = lease.Unlock(ctx)
				}
				if err != nil {
					t.Errorf("%v after %d retries", err, counter.retries.Load())
					return
				}
			}
		})
	}
	clients.Wait()
	if counter.retries.Load() == 0 {
		t.Error("no retry was observed")
	}
}
