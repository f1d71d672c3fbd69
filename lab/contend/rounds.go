package contend

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// Rounds record for each goroutine of a process the last round in which it requested a lock and acquired it.
type Rounds struct {
	mu   sync.Mutex
	got  []int64 // by goroutine
	told int64   // the last round that all were through
}

// NewRounds returns the Rounds of n goroutines.
func NewRounds(n int) *Rounds { return &Rounds{got: make([]int64, n)} }

// Got records that a goroutine acquired a lock that it requested in this round. If this completes a round for all
// goroutines, Got calls tell with its number. Calls of tell are not concurrent.
func (r *Rounds) Got(goroutine int, round int64, tell func(round int64)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[goroutine] = round
	if all := slices.Min(r.got); all > r.told {
		r.told = all
		tell(all)
	}
}

// EndAfter ends this process after d, whatever it is doing. The program is named in the message.
func EndAfter(program string, d time.Duration) {
	time.AfterFunc(d, func() {
		fmt.Fprintf(os.Stderr, "holdfast: %s: a process has not ended within %v\n", program, d)
		os.Exit(1)
	})
}
