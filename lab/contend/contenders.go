package contend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/pause"
	"github.com/holdfast-go/holdfast/lab/history"
)

// What there is to contend for: mutexes, a read-write lock and a semaphore.
const (
	mutexes   = 3
	shelf     = "shelf"
	pool      = "pool"
	poolUnits = 3
)

const (
	shortHold  = 5 * time.Millisecond  // most hold no longer than this
	longEvery  = 200                   // and one in so many may hold for long
	askEvery   = time.Millisecond      // how often a holder asks its lease whether it still believes
	faultPause = 10 * time.Millisecond // before it is tried again after an error
)

// contenders are the goroutines of one process.
type contenders struct {
	order    order
	locks    *holdfast.Client
	recorder *history.Recorder
	tally    Tally
	round    atomic.Int64 // of the moment

	mu      sync.Mutex
	begun   chan struct{} // closed and made anew when a round begins
	out     *json.Encoder
	through *Rounds
}

// begin begins a round.
func (c *contenders) begin(round int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round.Store(round)
	close(c.begun)
	c.begun = make(chan struct{})
}

// await waits until a round has begun. It returns false if ctx is done before.
func (c *contenders) await(ctx context.Context, round int64) bool {
	for {
		c.mu.Lock()
		begun := c.begun
		c.mu.Unlock()
		if c.round.Load() >= round {
			return true
		}
		select {
		case <-begun:
		case <-ctx.Done():
			return false
		}
	}
}

// contend lets all goroutines contend until ctx is done. It says when it begins, and at the end what came of it.
func (c *contenders) contend(ctx context.Context) (err error) {
	if c.locks, err = holdfast.Open(ctx, c.order.URL); err != nil {
		return err
	}
	if c.recorder, err = history.Create(c.order.Dir, c.order.Process); err != nil {
		return errors.Join(err, c.locks.Close())
	}
	c.through = NewRounds(c.order.Goroutines)
	err = c.say(Message{})
	var running sync.WaitGroup
	for i := range c.order.Goroutines {
		if c.order.Once != "" {
			running.Go(func() { c.runOnce(ctx, i) })
		} else {
			running.Go(func() { c.run(ctx, i) })
		}
	}
	running.Wait()
	report := c.tally.Report(c.order.Process)
	return errors.Join(err, c.locks.Close(), c.recorder.Close(), c.say(Message{Report: report}))
}

// run is one goroutine: it takes one lock after the other.
func (c *contenders) run(ctx context.Context, i int) {
	owner := strconv.Itoa(i)
	for ctx.Err() == nil {
		round := c.round.Load()
		switch err := c.takeTurn(ctx, owner); {
		case err == nil:
			c.isThrough(i, round)
		case ctx.Err() == nil:
			c.tally.Failed(err)
			pause.For(ctx, faultPause)
		}
	}
}

// runOnce is one goroutine that takes one lock in each round. After an error it is through all the same.
func (c *contenders) runOnce(ctx context.Context, i int) {
	for round := int64(1); c.await(ctx, round); round = c.round.Load() + 1 {
		if err := c.takeTurn(ctx, strconv.Itoa(i)); err != nil {
			c.tally.Failed(err)
		}
		c.isThrough(i, round)
	}
}

// takeTurn takes a lock, holds it for a while, and gives it back. What happens once it was held is no error of the
// turn.
func (c *contenders) takeTurn(ctx context.Context, owner string) error {
	lease, hold, err := c.take(ctx)
	if err != nil {
		return err
	}
	c.tally.Acquired()
	hold.Resource, hold.Owner, hold.Token = lease.Name(), owner, lease.Token()
	belief, ok := c.recorder.Begin(hold, func() bool { return lease.Err() == nil })
	if ok {
		end := time.Now().Add(c.holdFor())
		for left := time.Until(end); left > 0 && belief.Check(); left = time.Until(end) {
			time.Sleep(min(left, askEvery))
		}
		belief.End()
	}
	if err := lease.Unlock(ctx); err != nil && ctx.Err() == nil {
		c.tally.Failed(err)
	}
	return nil
}

// holdFor is how long to hold. Those who do it for long are seldom, so that the others get their turns. And yet a fault
// that strikes at any moment finds about half of the locks in their hands.
func (c *contenders) holdFor() time.Duration {
	if c.order.Once != "" {
		return 0
	}
	if c.order.LongHold > 0 && rand.IntN(longEvery) == 0 {
		return rand.N(c.order.LongHold)
	}
	return rand.N(shortHold)
}

// take waits for one of the locks, whichever it is to be.
func (c *contenders) take(ctx context.Context) (lease *holdfast.Lease, h history.Hold, err error) {
	h.Kind = history.Exclusive
	switch n := rand.IntN(8); {
	case c.order.Once != "":
		lease, err = c.locks.Mutex(c.order.Once).Lock(ctx)
	case n < mutexes:
		lease, err = c.locks.Mutex(fmt.Sprintf("mutex %d", n)).Lock(ctx)
	case n == mutexes:
		lease, err = c.locks.RWMutex(shelf).Lock(ctx)
	case n <= mutexes+2:
		h.Kind = history.Shared
		lease, err = c.locks.RWMutex(shelf).RLock(ctx)
	default:
		h.Kind, h.Units, h.Limit = history.Semaphore, 1+rand.IntN(2), poolUnits
		lease, err = c.locks.Semaphore(pool, poolUnits).Acquire(ctx, h.Units)
	}
	return lease, h, err
}

// isThrough notes that a goroutine has got a lock that it asked for in this round, and says so if all have.
func (c *contenders) isThrough(i int, round int64) {
	c.through.Got(i, round, func(all int64) {
		_ = c.say(Message{Through: all}) // if it is not read any more, the input has ended too
	})
}

func (c *contenders) say(m Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Encode(m)
}
