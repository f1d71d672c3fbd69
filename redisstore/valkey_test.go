package redisstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// Valkey keeps locks as Redis does: alone, in plain mode, watched by sentinels, and as a cluster of three masters with a
// replica each, of which one is killed. Some rules are enough here: the whole suite runs against Redis.
func TestStoreOnValkey(t *testing.T) {
	for name, start := range map[string]func(testing.TB) storetest.Harness{
		"one server": func(t testing.TB) storetest.Harness { return newHarness(t, servers.Valkey()) },
		"plain mode": func(t testing.TB) storetest.Harness { return newPlainHarness(t, servers.Valkey()) },
		"sentinels":  func(t testing.TB) storetest.Harness { return newSentinelFleet(t, calm, servers.Valkey()) },
		"cluster":    func(t testing.TB) storetest.Harness { return newClusterFleet(t, servers.Valkey()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunSome(t, start, "exclusion", "order", "floor")
		})
	}
}
