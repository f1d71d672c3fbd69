package main

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"time"
)

// A leaseReport is what a worker says about the leases it holds.
type leaseReport struct {
	AcquireSeconds float64
	Goroutines     int     // that exist because of the leases
	Bytes          int64   // heap and stacks, likewise
	CPUSeconds     float64 // of this process, in one ttl
	Lost           int
}

// holdLeases takes all leases, says so, holds them for a ttl, says so, and gives them back.
func (w *worker) holdLeases(ctx context.Context) (r report, err error) {
	goroutines, bytes := runtime.NumGoroutine(), memoryInUse()
	start := time.Now()
	leases, err := w.acquireAll(ctx)
	if err != nil {
		return r, err
	}
	r.Leases.AcquireSeconds = time.Since(start).Seconds()
	r.Leases.Bytes = memoryInUse() - bytes
	r.Leases.Goroutines = runtime.NumGoroutine() - goroutines
	if err := w.out.Encode(r); err != nil {
		return r, err
	}
	before, err := cpuTime()
	if err != nil {
		return r, err
	}
	time.Sleep(w.Workload.TTL)
	after, err := cpuTime()
	if err != nil {
		return r, err
	}
	r.Leases.CPUSeconds = (after - before).Seconds()
	if err := w.out.Encode(r); err != nil {
		return r, err
	}
	for _, l := range leases {
		if l.Err() != nil {
			r.Leases.Lost++
		}
	}
	return r, w.releaseAll(leases)
}

func (w *worker) acquireAll(ctx context.Context) ([]keptLease, error) {
	leases := make([]keptLease, w.Workload.Leases)
	return leases, w.together(func(g int) error {
		for i := g; i < len(leases); i += w.Workload.Goroutines {
			l, err := w.locker.Acquire(ctx, "bench-"+strconv.Itoa(i))
			if err != nil {
				return err
			}
			kept, ok := l.(keptLease)
			if !ok {
				return errors.New("its leases cannot say whether they are held")
			}
			leases[i] = kept
		}
		return nil
	})
}

// releaseAll gives all back. That a lease which was lost cannot be given back is no news.
func (w *worker) releaseAll(leases []keptLease) error {
	return w.together(func(g int) (first error) {
		for i := g; i < len(leases); i += w.Workload.Goroutines {
			lost := leases[i].Err() != nil
			if err := leases[i].Release(); err != nil && !lost && first == nil {
				first = err
			}
		}
		return first
	})
}

// memoryInUse is what the heap holds, and what the stacks take.
func memoryInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// measureLeases follows a worker that holds leases, and has the server's usage read around the ttl.
func measureLeases(ctx context.Context, on site, c *contestant, w *workload, hired *hand) (metrics, error) {
	held, err := hired.hear()
	if err != nil {
		return nil, err
	}
	before, err := on.Usage(ctx)
	if err != nil {
		return nil, err
	}
	r, err := hired.hear()
	if err != nil {
		return nil, err
	}
	after, err := on.Usage(ctx)
	if err != nil {
		return nil, err
	}
	end, err := hired.hear()
	if err != nil {
		return nil, err
	}
	n := float64(w.Leases)
	m := metrics{
		acquireRate:    n / held.Leases.AcquireSeconds,
		goroutinesEach: float64(held.Leases.Goroutines) / n,
		bytesEach:      float64(held.Leases.Bytes) / n,
		clientCPU:      r.Leases.CPUSeconds,
		lostCount:      float64(end.Leases.Lost),
	}
	if used := after.since(before); used.known {
		m[serverCPU] = used.cpu.Seconds()
		m[calls] = float64(used.sent(c.sends))
		m[serverCommands] = float64(used.commands)
	}
	return m, nil
}
