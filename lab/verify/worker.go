package verify

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/store"
)

// How long a worker lives at most, and how long it may take to release its locks when it has to stop.
const (
	lifetime = 24 * time.Hour
	farewell = 20 * time.Second
)

// Work runs a worker process: it reads its order from in, takes locks until in ends, and reports to out.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("holdfast: this command is for holdfast verify, which starts it and tells it what to do")
	}
	w := &worker{out: json.NewEncoder(out)}
	if err := json.Unmarshal(lines.Bytes(), &w.order); err != nil {
		return fmt.Errorf("holdfast: verify: an order that cannot be read: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for lines.Scan() {
			if round, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil {
				w.round.Store(round)
			}
		}
		stop()
		contend.EndAfter("verify", farewell) // whatever it is doing, it ends with the process that started it
	}()
	if w.Burn > 0 {
		burn(ctx, w.Burn)
		return nil
	}
	contend.EndAfter("verify", lifetime)
	return w.work(ctx)
}

// burn uses one processor for d.
func burn(ctx context.Context, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; {
		for range 1_000_000 { // it is meant to do nothing
		}
	}
}

// A worker is one process that takes locks.
type worker struct {
	order
	can      store.Abilities
	locks    *holdfast.Client
	recorder *history.Recorder
	tally    contend.Tally
	round    atomic.Int64 // of the moment
	through  *contend.Rounds

	mu  sync.Mutex
	out *json.Encoder
}

func (w *worker) work(ctx context.Context) (err error) {
	if w.recorder, err = history.Create(w.Dir, w.Process); err != nil {
		return err
	}
	if err := w.open(ctx); err != nil {
		return errors.Join(err, w.recorder.Close())
	}
	w.through = contend.NewRounds(w.Goroutines)
	err = w.say(contend.Message{})
	failed := make([]error, w.Goroutines)
	var running sync.WaitGroup
	for i := range w.Goroutines {
		running.Go(func() { failed[i] = w.run(ctx, i) })
	}
	running.Wait()
	last := contend.Message{Report: w.tally.Report(w.Process)}
	return errors.Join(err, errors.Join(failed...), w.locks.Close(), w.recorder.Close(), w.say(last))
}

// open opens the store. Its Joins are recorded.
func (w *worker) open(ctx context.Context) error {
	at, err := store.ParseLocation(w.Store)
	if err != nil {
		return fmt.Errorf("holdfast: %w", err)
	}
	at.TTL = w.TTL
	if len(w.Hosts) > 0 {
		at.Hosts = w.Hosts
	}
	s, err := store.Open(ctx, at)
	if err != nil {
		return &holdfast.Error{Op: "open", Store: at.ShownFor(err), Err: err}
	}
	w.can = s.Abilities()
	w.locks = holdfast.New(&recordedStore{s, w.recorder}, holdfast.WithTTL(w.TTL), holdfast.WithLabel(w.Process))
	return nil
}

// run is one goroutine, which carries out one task after the other. The first two update the registers.
func (w *worker) run(ctx context.Context, i int) error {
	g := &goroutine{
		worker: w, owner: strconv.Itoa(i),
		Rand: rand.New(rand.NewPCG(w.Seed, uint64(i))), //nolint:gosec // it need not be hard to guess
	}
	tasks := tasksFor(w.can)
	if i < 2 {
		guard, err := dialGuard(w.Process, w.Guard)
		if err != nil {
			return err
		}
		defer guard.conn.Close() //nolint:errcheck // nothing is on its way
		g.guard = guard
		tasks = []task{[]task{(*goroutine).updateFenced, (*goroutine).updateUnfenced}[i]}
	}
	for ctx.Err() == nil {
		round := w.round.Load()
		err := tasks[g.IntN(len(tasks))](g, ctx)
		switch {
		case err == nil:
			w.through.Got(i, round, func(all int64) {
				_ = w.say(contend.Message{Through: all}) // if it cannot be sent, the input has ended too
			})
		case errors.Is(err, errInPassing):
		case ctx.Err() == nil:
			w.tally.Failed(err)
			_ = sleep(ctx, faultPause) // ctx is checked next
		}
	}
	return nil
}

func (w *worker) say(m contend.Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Encode(m)
}
