package sim

import (
	"flag"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

var (
	oneSeed = flag.Int64("seed", -1, "run TestSchedules with this seed alone, and show what happens")
	without = flag.Uint("without", 0, "the rules that are off for it, as a number")
)

// soakSchedules is how many are run with HOLDFAST_SOAK=1.
const soakSchedules = 1_000_000

// TestSchedules plays schedules, each from a seed, with all rules on. Nothing may go wrong in any of them.
func TestSchedules(t *testing.T) {
	if *oneSeed >= 0 {
		for _, f := range Run(uint64(*oneSeed), vote.Without(*without), t.Output()).Findings {
			t.Error(f)
		}
		return
	}
	seeds := uint64(schedules)
	if os.Getenv("HOLDFAST_SOAK") != "" {
		seeds = soakSchedules
	}
	var mu sync.Mutex
	var seen [counters]int
	eachSeed(seeds, func(seed uint64) bool {
		r := Run(seed, 0, nil)
		mu.Lock()
		defer mu.Unlock()
		for i, n := range r.Seen {
			seen[i] += n
		}
		for _, f := range r.Findings {
			t.Errorf("seed %d: %v\nto see it: go test ./redlock/internal/sim -run TestSchedules -seed=%[1]d -v", seed,
				f)
		}
		return !t.Failed()
	})
	for i, n := range seen { // a schedule in which nothing happens proves nothing
		if t.Logf("%9d %s", n, Counted[i]); n < int(seeds)/200 {
			t.Errorf("only %d %s in %d schedules", n, Counted[i], seeds)
		}
	}
}

// eachSeed calls f for seeds from 0, by all processors, until one call returns false.
func eachSeed(seeds uint64, f func(seed uint64) bool) {
	var next atomic.Uint64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1) - 1; seed < seeds && !stop.Load(); seed = next.Add(1) - 1 {
				if !f(seed) {
					stop.Store(true)
				}
			}
		})
	}
	wg.Wait()
}

// TestSameSeed plays a schedule twice: all of it must come from the seed.
func TestSameSeed(t *testing.T) {
	for seed := range uint64(50) {
		var first, second counter
		Run(seed, 0, &first)
		Run(seed, 0, &second)
		if first != second || first.n == 0 {
			t.Fatalf("seed %d: %v, and then %v", seed, first, second)
		}
	}
}

// A counter sums up what is written to it.
type counter struct {
	n   int
	sum uint64
}

func (c *counter) Write(p []byte) (int, error) {
	for _, b := range p {
		c.sum = c.sum*31 + uint64(b)
	}
	c.n += len(p)
	return len(p), nil
}
