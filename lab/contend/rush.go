package contend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Rush lets n goroutines call take at once, each with a context of its own without a deadline, and release the lock
// immediately. It returns an error unless all of them acquire the lock without an error, with at most limit holders at
// a time. The end of ctx ends them.
func Rush(ctx context.Context, n, limit int, take func(context.Context) (*holdfast.Lease, error)) error {
	var through, holding, tooMany atomic.Int64
	var faults Tally
	one := func() error {
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		lease, err := take(own)
		if err != nil {
			return err
		}
		if holding.Add(1) > int64(limit) {
			tooMany.Add(1)
		}
		runtime.Gosched() // if another holds too, let it be seen
		holding.Add(-1)
		if err := lease.Unlock(own); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		through.Add(1)
		return nil
	}
	start := make(chan struct{})
	var running sync.WaitGroup
	for range n {
		running.Go(func() {
			<-start
			if err := one(); err != nil {
				faults.Failed(err)
			}
		})
	}
	close(start)
	running.Wait()
	if through.Load() == int64(n) && tooMany.Load() == 0 {
		return nil
	}
	r := faults.Report("")
	err := fmt.Errorf(
		"holdfast: contend: %d of %d got through, %d beside too many others; lost: %d, faults: %v, wrong: %v",
		through.Load(), n, tooMany.Load(), r.Lost, r.Faults, r.Wrong)
	return errors.Join(err, context.Cause(ctx))
}

// Once starts a process for each URL, lets all of them take the mutex of this name once at the same moment, and stops
// them. All of them must acquire it, without an error, one after the other. Dir is an empty folder, for the histories.
func Once(ctx context.Context, dir, name string, urls ...string) (err error) {
	c, err := Start(ctx, Plan{Dir: dir, URLs: urls, Goroutines: 1, Once: name})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Through(ctx); err != nil {
		return err
	}
	o, err := c.Stop(ctx)
	if err != nil {
		return err
	}
	for _, f := range o.Findings() {
		err = errors.Join(err, errors.New(f.String()))
	}
	if total := o.Total(); total.Acquired != len(urls) || total.Lost+len(total.Faults)+len(total.Wrong) != 0 {
		err = errors.Join(err, fmt.Errorf("holdfast: contend: of %d processes: %+v", len(urls), total))
	}
	return err
}

const (
	herdGoroutines = 2000
	herdPatience   = 2 * time.Minute // on a machine that is busy with other tests
)

// A Herd defines the participants of a stampede.
type Herd struct {
	URL       string // of the store
	Alone     int    // how many goroutines there are without hand-over; 0: 2,000
	Processes int    // how many processes arrive at once; 0: that part is skipped
}

// Stampede is a test of a store: 2,000 goroutines of one process request one lock at once, first with the hand-over
// inside the process and then without it; then each requests a lock of its own; then several processes request one lock
// at once. There are no deadlines. All of them must acquire their locks without an error.
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
	run("goroutines without hand-over", with(one(cmp.Or(h.Alone, herdGoroutines)), holdfast.WithHandOver(0, 0)))
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
