package contend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// A Plan defines a crowd.
type Plan struct {
	Dir        string        // an empty folder, for the histories
	URLs       []string      // of the store, one for each process: each may have its own route
	Goroutines int           // in each process
	LongHold   time.Duration // some hold for as long as this; 0: all holds are short
	Once       string        // a mutex that each goroutine takes once in every round; empty: any lock, all the time
}

// A Crowd is a set of processes that contend for locks. Its methods are not safe for concurrent use.
type Crowd struct {
	dir       string
	processes []*Process
	round     int64
}

// Start starts the processes and returns when each of them has opened its store. The program that calls it must call
// [Child] when it starts.
func Start(ctx context.Context, p Plan) (*Crowd, error) {
	if len(p.URLs) == 0 || p.Goroutines < 1 {
		return nil, errors.New("holdfast: contend: a plan needs processes and goroutines")
	}
	c := &Crowd{dir: p.Dir}
	for i, url := range p.URLs {
		o := order{
			Process: fmt.Sprintf("process %d", i), URL: url, Dir: p.Dir,
			Goroutines: p.Goroutines, LongHold: p.LongHold, Once: p.Once,
		}
		cmd, err := self(childEnv)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		started, err := StartProcess("contend", o.Process, cmd, &o)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.processes = append(c.processes, started)
	}
	if err := c.await(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Through returns when every goroutine of every live process has acquired a lock that it requested after the call. It
// returns an error if a process has ended by itself, or when ctx is done.
func (c *Crowd) Through(ctx context.Context) error {
	c.round++
	for _, p := range c.processes {
		if err := p.Begin(c.round); err != nil {
			return err
		}
	}
	return c.await(ctx)
}

// await waits until all are through this round.
func (c *Crowd) await(ctx context.Context) error {
	for _, p := range c.processes {
		if err := p.Await(ctx, c.round); err != nil {
			return err
		}
	}
	return nil
}

// Kill ends one process as kill -9 does, counted from 0. The others continue.
func (c *Crowd) Kill(i int) error { return c.processes[i].Kill() }

// Stop makes all processes release their locks and end, and returns the outcome. It kills them when ctx is done. It
// returns an error, beside what is known, if a process failed or its history cannot be read.
func (c *Crowd) Stop(ctx context.Context) (*Outcome, error) {
	for _, p := range c.processes {
		p.Stop()
	}
	o := &Outcome{}
	var failed error
	for _, p := range c.processes {
		report, err := p.End(ctx)
		if failed = errors.Join(failed, err); report != nil {
			o.Reports = append(o.Reports, *report)
			if state := p.Cmd.ProcessState; !state.Success() {
				failed = errors.Join(failed, p.failed(errors.New(state.String())))
			}
		}
	}
	var err error
	o.Holds, err = history.ReadDir(c.dir)
	return o, errors.Join(failed, err)
}

// Close kills all processes that still run. After Stop there are none.
func (c *Crowd) Close() error {
	var failed error
	for _, p := range c.processes {
		failed = errors.Join(failed, p.Kill())
	}
	return failed
}
