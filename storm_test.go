package holdfast_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// TestStorm throws every fault at contenders at random, from seeds, and checks what must hold always: never two
// holders that believe in their leases, tokens that rise, everyone through in the end, nothing left behind.
func TestStorm(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		if !t.Run("", func(t *testing.T) { bubble(t, func(_ *testing.T, r *rig) { storm(r, seed) }) }) {
			t.Fatalf("seed %d", seed)
		}
	}
}

func storm(r *rig, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a seed is the point
	var mu sync.Mutex
	var holder *holdfast.Lease
	var last holdfast.Token
	enter := func(l *holdfast.Lease) {
		mu.Lock()
		defer mu.Unlock()
		if holder != nil && holder.Err() == nil && l.Err() == nil {
			r.Errorf("two hold it: %v and %v", holder.Token(), l.Token())
		}
		if l.Token() <= last {
			r.Errorf("token %v after %v", l.Token(), last)
		}
		holder, last = l, l.Token()
	}
	var wg sync.WaitGroup
	for range 3 {
		c, link := r.linked()
		faults := rand.New(rand.NewPCG(seed, random.Uint64())) //nolint:gosec // as above
		wg.Go(func() { misbehave(link, faults) })
		for range 2 {
			chance := rand.New(rand.NewPCG(seed, random.Uint64())) //nolint:gosec // as above
			wg.Go(func() { contend(r, c, chance, enter) })
		}
	}
	wg.Wait()
	r.nothingRemains("x")
}

// A weakLink can fail in every way.
type weakLink interface {
	linkFaults
	Heal()
	HoldPushes() (release func())
	DropPushes(bool)
}

// troubles are the ways in which a link fails for a while. Each returns what ends it.
var troubles = []struct {
	what  string
	begin func(weakLink) (end func())
}{
	{"cut", func(l weakLink) func() { l.Cut(); return l.Heal }},
	{"hold requests", weakLink.HoldRequests},
	{"hold replies", weakLink.HoldReplies},
	{"hold pushes", weakLink.HoldPushes},
	{"drop pushes", func(l weakLink) func() { l.DropPushes(true); return func() { l.DropPushes(false) } }},
}

// misbehave makes a link fail a few times, and leaves it healed.
func misbehave(link weakLink, chance *rand.Rand) {
	for range 6 {
		time.Sleep(time.Duration(chance.Int64N(int64(ttl))))
		end := troubles[chance.IntN(len(troubles))].begin(link)
		time.Sleep(time.Duration(chance.Int64N(int64(ttl * 3 / 2))))
		end()
	}
}

// contend acquires the lock a few times.
func contend(r *rig, c *holdfast.Client, chance *rand.Rand, enter func(*holdfast.Lease)) {
	for had := 0; had < 5; {
		ctx, cancel := context.WithTimeout(r.Context(), time.Duration(chance.Int64N(int64(10*ttl))))
		l, err := c.Mutex("x").Lock(ctx)
		cancel()
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		had++
		enter(l)
		select {
		case <-l.Context().Done():
		case <-time.After(time.Duration(chance.Int64N(int64(ttl)))):
		}
		l.Unlock(r.Context()) //nolint:errcheck // it may be lost
	}
}
