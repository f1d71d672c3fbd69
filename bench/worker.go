package main

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"
)

// workerArg makes this program a worker. It speaks with its parent over standard input and output, in gob:
//
//	parent: assignment   worker: report (it is connected and warm)
//	parent: begin        worker: report (what it did; before that, for leases, two about how far it is)
//
// When its standard input ends, its parent is gone, and so is the worker. testdata/node-redlock/worker.mjs does the
// same in JSON.
const workerArg = "worker"

// An assignment is what a worker has to do.
type assignment struct {
	Contestant string
	Where      string
	Process    int
	Workload   workload
}

// begin says when, by the shared clock.
type begin struct{ At int64 }

// A report is what a worker says. With Err nothing follows.
type report struct {
	Err     string
	Tallies []tally
	CPU     time.Duration // that it took; 0: not known
	Leases  leaseReport
}

// A worker is one process of a measurement.
type worker struct {
	assignment
	clock  clock
	locker locker
	in     *gob.Decoder
	out    *gob.Encoder
}

// workerMain runs a worker to its end.
func workerMain(in io.Reader, out io.Writer) error {
	w := &worker{clock: newClock(), in: gob.NewDecoder(in), out: gob.NewEncoder(out)}
	if err := w.in.Decode(&w.assignment); err != nil {
		return err
	}
	if err := w.work(); err != nil {
		return errors.Join(err, w.out.Encode(report{Err: err.Error()}))
	}
	return nil
}

func (w *worker) work() error {
	c := contestantNamed(w.Contestant)
	if c == nil {
		return fmt.Errorf("there is no contestant %q", w.Contestant)
	}
	ctx := context.Background()
	var err error
	if w.locker, err = c.open(ctx, w.Where, w.Workload.TTL); err != nil {
		return err
	}
	if err := w.warmUp(ctx); err != nil {
		return err
	}
	runtime.GC()
	if err := w.out.Encode(report{}); err != nil {
		return err
	}
	var b begin
	if err := w.in.Decode(&b); err != nil {
		return err
	}
	go w.endWithParent()
	time.Sleep(w.clock.until(b.At))
	var r report
	if w.Workload.Leases > 0 {
		r, err = w.holdLeases(ctx)
	} else {
		r = w.lockForAWhile(ctx, b.At)
	}
	if err := errors.Join(err, w.locker.Close()); err != nil {
		return err
	}
	return w.out.Encode(r)
}

// endWithParent ends this process when nobody is at the other end any more.
func (w *worker) endWithParent() {
	if err := w.in.Decode(&begin{}); err != nil {
		os.Exit(1)
	}
}

// warmTries is how often a worker tries to lock before it begins. While many start at once, a lock may take longer than
// one that is strict about time allows.
const warmTries = 10

// warmUp has every goroutine lock once, each a name of its own, so that connections are open and scripts are loaded.
func (w *worker) warmUp(ctx context.Context) error {
	return w.together(func(g int) (err error) {
		for i := range warmTries {
			var l lease
			if l, err = w.locker.Acquire(ctx, fmt.Sprintf("warm-%d-%d-%d", w.Process, g, i)); err == nil {
				err = l.Release()
			}
			if err == nil {
				return nil
			}
		}
		return err
	})
}

// together runs do in all goroutines of the workload.
func (w *worker) together(do func(g int) error) error {
	errs := make([]error, w.Workload.Goroutines)
	var wg sync.WaitGroup
	for g := range errs {
		wg.Go(func() { errs[g] = do(g) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// lockForAWhile locks and unlocks in all goroutines for as long as the workload lasts.
func (w *worker) lockForAWhile(ctx context.Context, start int64) report {
	before, _ := cpuTime() // 0 where it is not known
	stop := start + int64(w.Workload.Lasts)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(w.clock.until(stop), cancel).Stop()
	tallies := make([]tally, w.Workload.Goroutines)
	_ = w.together(func(g int) error { // errors are in the tallies
		tallies[g] = w.turns(ctx, g, stop)
		return nil
	})
	after, _ := cpuTime()
	return report{Tallies: tallies, CPU: after - before}
}

// chunk is how many holds a goroutine has room for before it asks for more. Growing one slice would copy them.
const chunk = 4096

// turns locks and unlocks until stop. Only what began before that counts as served; a wait that was still going on then
// counts as one that lasted at least so long.
func (w *worker) turns(ctx context.Context, g int, stop int64) tally {
	name := (w.Process*w.Workload.Goroutines + g) % w.Workload.Names
	t := tally{Process: w.Process, Name: name}
	key := "bench-" + strconv.Itoa(name)
	var full [][]hold
	holds := make([]hold, 0, chunk)
	for {
		h := hold{Asked: w.clock.now()}
		if h.Asked >= stop {
			break
		}
		l, err := w.locker.Acquire(ctx, key)
		h.Begin = w.clock.now()
		if err == nil {
			if f, ok := l.(fencedLease); ok {
				h.Token = f.Fence()
			}
			if w.Workload.Work > 0 {
				time.Sleep(w.Workload.Work)
			}
			h.End = w.clock.surely()
			err = l.Release()
			h.Released = w.clock.now()
		}
		if h.Begin >= stop {
			t.Unserved = stop - h.Asked
			break
		}
		if err != nil {
			t.failed(err)
			time.Sleep(time.Millisecond) // not to spin
			continue
		}
		if len(holds) == chunk {
			full, holds = append(full, holds), make([]hold, 0, chunk)
		}
		holds = append(holds, h)
		if w.Workload.Pause > 0 {
			time.Sleep(w.Workload.Pause)
		}
	}
	t.Holds = slices.Concat(append(full, holds)...)
	return t
}

func (t *tally) failed(err error) {
	if t.Errors++; t.Errors == 1 {
		t.FirstError = err.Error()
	}
}
