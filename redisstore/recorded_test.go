//go:build !race

package redisstore_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
)

// The recorded costs. They are counts, not times, so that a change which costs more fails on any machine. After one
// that costs less, lower them.
const (
	recordedAllocations = 6    // of Lock and Unlock
	recordedSwitches    = 0.05 // waits for another goroutine, for each Lock and Unlock; 0 on a machine that is not busy
	recordedCommands    = 2    // sent to the server for Lock and Unlock
	// Scripts for a hand-over between processes: a Join that waits, and the Leave that grants it.
	recordedHandOver = 2
)

// TestRecordedCosts: a lock on Redis costs no more than is recorded. `make bench-check` runs it.
func TestRecordedCosts(t *testing.T) {
	server := servers.Redis(t)
	s, err := redisstore.OpenThrough(t.Context(), testkit.Locate(t, "redis://"+server.Addr()), server.Addr())
	testkit.Must(t, err)
	locks := holdfast.New(s)
	defer locks.Close()
	ctx := context.Background()
	mutex := locks.Mutex("recorded")
	pair := func() {
		lease, err := mutex.Lock(ctx)
		testkit.Must(t, err)
		testkit.Must(t, lease.Unlock(ctx))
	}
	pair() // the server knows the scripts now

	const pairs = 200
	best := map[string]float64{}
	note := func(what string, got float64) {
		if old, ok := best[what]; !ok || got < old {
			best[what] = got
		}
	}
	for range 5 { // a busy machine adds to what is counted, and takes nothing away
		switches, commands := redisstore.Switches(s), calls(t, server, "evalsha")
		allocations := testing.AllocsPerRun(pairs-1, pair)
		note("allocations", allocations)
		note("switches", float64(redisstore.Switches(s)-switches)/pairs)
		note("commands", float64(calls(t, server, "evalsha")-commands)/pairs)
		note("hand-over", handOver(t, server, locks))
	}
	for what, most := range map[string]float64{
		"allocations": recordedAllocations, "switches": recordedSwitches,
		"commands": recordedCommands, "hand-over": recordedHandOver,
	} {
		t.Logf("%s: %v", what, best[what])
		if best[what] > most {
			t.Errorf("%s: %v, and %v is recorded", what, best[what], most)
		}
	}
}

// handOver returns how many scripts a hand-over from one process to another costs.
func handOver(t *testing.T, server *servers.RedisServer, first *holdfast.Client) float64 {
	t.Helper()
	second, err := holdfast.Open(t.Context(), "redis://"+server.Addr())
	testkit.Must(t, err)
	defer second.Close()
	clients := []*holdfast.Client{first, second}
	const name, turns = "handed over", 20
	held := testkit.Lock(t, first, name)
	before := calls(t, server, "evalsha")
	for i := range turns {
		got := make(chan *holdfast.Lease, 1)
		go func() {
			lease, err := clients[(i+1)%2].Mutex(name).Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		testkit.Await(t, "the next one waits", func() bool {
			waiting, err := server.Do("ZCARD", redisstore.KeysOf("", name)[2])
			return err == nil && waiting == int64(2)
		})
		testkit.Unlock(t, held)
		if held = <-got; held == nil {
			t.FailNow()
		}
	}
	cost := float64(calls(t, server, "evalsha")-before) / turns
	testkit.Unlock(t, held)
	return cost
}
