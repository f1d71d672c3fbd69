package main

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
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

func TestPlainModeAmongConsul(t *testing.T) {
	t.Parallel()
	ours := sideOf("test-plain-consul")
	for _, peer := range []string{"api-lock", "api-lock-session"} {
		t.Run(peer, func(t *testing.T) {
			t.Parallel()
			takeTurns(t, consulSite, 20*time.Millisecond, ours, sideOf(peer))
		})
	}
	t.Run("control", func(t *testing.T) {
		t.Parallel()
		testBlind(t, consulSite, sideOf("holdfast-consul"), sideOf("api-lock-session"))
	})
}
