package contend

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	herdGoroutines = 2000
	herdPatience   = 2 * time.Minute // on a machine that is busy with other tests
)

// A Herd is who takes part in a stampede.
type Herd struct {
	URL       string // of the store
	Alone     int    // how many goroutines there are without hand-over; 0: 2,000
	Processes int    // how many processes come at once; 0: that is left out
}

// Stampede is a test of a store: 2,000 goroutines of one process want one lock at once, first with the hand-over
// inside the process and then without it; then they want a lock each; then processes want one lock at once. Nobody
// has a deadline. All of them must get what they want, with no error.
func Stampede(t *testing.T, h Herd) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), herdPatience)
	defer cancel()
	run := func(name string, rush func(*testing.T) error) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			if err := rush(t); err != nil {
				t.Error(err)
			}
			t.Logf("all are through after %v", time.Since(began).Round(time.Millisecond))
		})
	}
	with := func(rush func(*holdfast.Client) error, options ...holdfast.Option) func(*testing.T) error {
		return func(*testing.T) error {
			locks, err := holdfast.Open(ctx, h.URL, options...)
			if err != nil {
				return err
			}
			return errors.Join(rush(locks), locks.Close())
		}
	}
	one := func(n int) func(*holdfast.Client) error {
		return func(locks *holdfast.Client) error { return Rush(ctx, n, 1, locks.Mutex("stampede").Lock) }
	}
	run("goroutines", with(one(herdGoroutines)))
	run("goroutines without hand-over", with(one(cmp.Or(h.Alone, herdGoroutines)), holdfast.HandOver(0, 0)))
	run("goroutines with a lock each", with(func(locks *holdfast.Client) error {
		var n atomic.Int64
		return Rush(ctx, herdGoroutines, herdGoroutines, func(ctx context.Context) (*holdfast.Lease, error) {
			return locks.Mutex("stampede " + strconv.FormatInt(n.Add(1), 10)).Lock(ctx)
		})
	}))
	if h.Processes > 0 {
		run("processes", func(t *testing.T) error {
			return Once(ctx, t.TempDir(), "stampede", slices.Repeat([]string{h.URL}, h.Processes)...)
		})
	}
}
