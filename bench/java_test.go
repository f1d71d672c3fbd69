//go:build linux

package main

import (
	"os"
	"testing"
	"time"
)

// TestRedisson: Redisson excludes as the others do. It runs only on request, since Maven has to fetch Redisson.
// Elsewhere than on Linux its processes and ours would have no clock in common.
func TestRedisson(t *testing.T) {
	if os.Getenv("HOLDFAST_INTEROP") == "" {
		t.Skip("left out unless HOLDFAST_INTEROP is set: Maven fetches Redisson")
	}
	t.Parallel()
	must(t, needsRedisson())
	on, err := redisSite.start(t.Context(), serverSettings{})
	must(t, err)
	defer on.Close()
	for _, name := range []string{"redisson", "redisson-fair"} {
		w := small(2, 1)
		w.Work, w.Lasts = time.Millisecond, time.Second
		m, firstError, err := measureOnce(t.Context(), on, contestantNamed(name), w)
		if err != nil || firstError != "" || m.faults() != 0 || m[throughput] == 0 || m[callsPerOp] < 2 {
			t.Errorf("%s: %v, %v, %s", name, m, err, firstError)
		}
	}
}
