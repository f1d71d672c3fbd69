package main

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
)

// Plain mode and the lock of Consul's own library on one key: processes of both take turns, and never hold at once.

func init() {
	contestants = append(contestants,
		contestant{name: "test-plain-consul", role: ours, on: consulSite, open: openPlainConsul})
}

func openPlainConsul(ctx context.Context, where string, ttl time.Duration) (locker, error) {
	client, err := holdfast.Open(ctx, "consul://"+where+"?mode=plain&ttl="+ttl.String(), strict)
	if err != nil {
		return nil, err
	}
	return holdfastLocker{client}, nil
}

// Of those that contend for a lock of Consul's library, one that loses a race sleeps for five seconds. So all pause
// between two turns, and each goroutine has a session of its own: with one for a process only one of them would
// contend.
func TestPlainModeAmongConsul(t *testing.T) {
	servers.Need(t, "consul")
	t.Parallel()
	takeTurns(t, consulSite, 50*time.Millisecond, sideOf("test-plain-consul"), sideOf("api-lock"))
	t.Run("control", func(t *testing.T) {
		testBlind(t, consulSite, sideOf("holdfast-consul"), sideOf("api-lock-session"))
	})
}
