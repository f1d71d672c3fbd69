package contend

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// Rounds tell in which round each goroutine of a process has last got a lock that it had asked for in that round.
type Rounds struct {
	mu   sync.Mutex
	got  []int64 // by goroutine
	told int64   // the last round that all were through
}

// NewRounds are those of n goroutines.
func NewRounds(n int) *Rounds { return &Rounds{got: make([]int64, n)} }

// Got notes that a goroutine has got a lock that it asked for in this round. If all are through a round with that, it
// calls tell with its number, and with no other number meanwhile.
func (r *Rounds) Got(goroutine int, round int64, tell func(round int64)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[goroutine] = round
	if all := slices.Min(r.got); all > r.told {
		r.told = all
		tell(all)
	}
}

// EndAfter ends this process after d, whatever it is doing. Program says in whose name.
func EndAfter(program string, d time.Duration) {
	time.AfterFunc(d, func() {
		fmt.Fprintf(os.Stderr, "holdfast: %s: a process has not ended within %v\n", program, d)
		os.Exit(1)
	})
}
