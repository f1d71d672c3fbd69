package contend

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast"
)

// Rush has n goroutines call take at once, each with a context of its own that has no deadline, and release what they
// got at once. All of them must get it, with no error, and no more than limit may hold at the same time. The end of
// ctx ends them.
func Rush(ctx context.Context, n, limit int, take func(context.Context) (*holdfast.Lease, error)) error {
	var through, holding, tooMany atomic.Int64
	var faults tally
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
				faults.failed(err)
			}
		})
	}
	close(start)
	running.Wait()
	if through.Load() == int64(n) && tooMany.Load() == 0 {
		return nil
	}
	r := faults.report("")
	err := fmt.Errorf("holdfast: contend: %d of %d got through, %d beside too many others; lost: %d, faults: %v, wrong: %v",
		through.Load(), n, tooMany.Load(), r.Lost, r.Faults, r.Wrong)
	return errors.Join(err, context.Cause(ctx))
}

// Once starts a process for each URL, lets all of them take the mutex of this name once at the same moment, and stops
// them. All of them must get it, with no error, and one after the other. Dir is an empty folder, for the histories.
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
