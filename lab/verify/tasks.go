package verify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/store"
)

// What there is to lock, under the prefix of the run.
const (
	mutexes   = 2
	shelf     = "shelf" // a read-write lock
	pool      = "pool"  // a semaphore
	poolUnits = 3
)

const (
	shortHold  = 5 * time.Millisecond  // most hold no longer than this
	longEvery  = 150                   // and one in so many may hold for longer than a ttl
	think      = 40 * time.Millisecond // between reading a register and writing it
	askEvery   = time.Millisecond      // how often a holder asks its lease whether it still believes
	impatience = 20 * time.Millisecond // how long some wait before they give up
	faultPause = 10 * time.Millisecond // before the next task after an error
)

// errInPassing is that of a task that ended without a lock as it was meant to.
var errInPassing = errors.New("holdfast: verify: nothing was wanted any more")

// A goroutine is one of a worker. Its methods are the tasks.
type goroutine struct {
	*worker
	*rand.Rand
	owner   string
	guard   *guardClient
	updates int
}

// A task takes one or more locks and releases them. Its error says why it got none.
type task func(*goroutine, context.Context) error

// tasksFor are the tasks that a store can do.
func tasksFor(can store.Abilities) []task {
	tasks := []task{
		(*goroutine).lock, (*goroutine).lockAll, (*goroutine).reenter, (*goroutine).giveUp, (*goroutine).handOver,
	}
	if can.Shared {
		tasks = append(tasks, (*goroutine).read, (*goroutine).write)
		if !can.ReadersOnly {
			tasks = append(tasks, (*goroutine).acquire)
		}
	}
	return tasks
}

// lacking says what of a store's the tasks leave out.
func lacking(can store.Abilities) []string {
	var out []string
	if !can.Shared {
		out = append(out, "readers and semaphores: the store has none")
	} else if can.ReadersOnly {
		out = append(out, "semaphores and downgrades: the store has none")
	}
	if !can.Queue {
		out = append(out, "first come, first served, and a bound for each wait: the store keeps no line")
	}
	return out
}

func (g *goroutine) name(name string) string { return g.Prefix + name }

func (g *goroutine) who() history.Who { return history.Who{Process: g.Process, Owner: g.owner} }

func (g *goroutine) mutexName() string { return g.name(fmt.Sprint("mutex ", g.IntN(mutexes))) }

// A held is a lease and the record of the belief in it.
type held struct {
	*holdfast.Lease
	belief *history.Belief // nil: it was lost before anybody believed in it
}

// An acquirer is a method of a lock that waits for a lease.
type acquirer func(context.Context) (*holdfast.Lease, error)

// take waits for a lock, and records the wait and the beginning of the hold.
func (g *goroutine) take(ctx context.Context, what history.Wait, take acquirer) (*held, error) {
	what.Who = g.who()
	waiting := g.recorder.Wait(what)
	lease, err := take(ctx)
	if err != nil {
		waiting.GaveUp()
		return nil, err
	}
	waiting.Granted(lease.Token())
	g.tally.Acquired()
	return g.begin(lease, what), nil
}

// begin records the beginning of a hold.
func (g *goroutine) begin(lease *holdfast.Lease, what history.Wait) *held {
	return &held{lease, g.believe(lease, lease.Token(), what)}
}

// An anyLease is a lease of one lock or of several.
type anyLease interface {
	Err() error
	Until() time.Time
}

// believe records the beginning of the belief in one lock of a lease.
func (g *goroutine) believe(l anyLease, token holdfast.Token, what history.Wait) *history.Belief {
	belief, _ := g.recorder.BeginUntil(history.Hold{
		Who: g.who(), Resource: what.Resource, Kind: what.Kind, Units: what.Units, Limit: what.Limit, Token: token,
	}, func() bool { return l.Err() == nil }, l.Until)
	return belief
}

// check asks the holder whether it believes.
func (h *held) check() bool { return h.belief != nil && h.belief.Check() }

// end records the end of the belief.
func (h *held) end() {
	if h.belief != nil {
		h.belief.End()
	}
}

// keep holds for d, and asks all the while.
func (h *held) keep(d time.Duration) {
	end := time.Now().Add(d)
	for left := d; left > 0 && h.check(); left = time.Until(end) {
		time.Sleep(min(left, askEvery))
	}
}

// release ends the hold and gives the lock back. That it was lost is counted, and no error of the task.
func (g *goroutine) release(ctx context.Context, h *held) {
	h.end()
	g.countError(ctx, h.Unlock(ctx))
}

// countError counts an error that a task has after it got its lock, unless the worker is ending.
func (g *goroutine) countError(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		g.tally.Failed(err)
	}
}

// holdFor is how long to hold: seldom for longer than a ttl, so that the others get their turns and a fault still finds
// some locks held.
func (g *goroutine) holdFor() time.Duration {
	if g.IntN(longEvery) == 0 {
		return time.Duration(g.Int64N(int64(g.TTL) * 3 / 2))
	}
	return time.Duration(g.Int64N(int64(shortHold)))
}

// use takes a lock, holds it for a while and gives it back.
func (g *goroutine) use(ctx context.Context, what history.Wait, take acquirer) error {
	h, err := g.take(ctx, what, take)
	if err != nil {
		return err
	}
	h.keep(g.holdFor())
	g.release(ctx, h)
	return nil
}

func exclusive(name string) history.Wait {
	return history.Wait{Resource: name, Kind: history.Exclusive}
}

func (g *goroutine) lock(ctx context.Context) error {
	name := g.mutexName()
	return g.use(ctx, exclusive(name), g.locks.Mutex(name).Lock)
}

func (g *goroutine) read(ctx context.Context) error {
	name := g.name(shelf)
	return g.use(ctx, history.Wait{Resource: name, Kind: history.Shared}, g.locks.RWMutex(name).RLock)
}

// write takes a read-write lock for writing, and goes on reading for a while if the store can do that.
func (g *goroutine) write(ctx context.Context) error {
	name := g.name(shelf)
	h, err := g.take(ctx, exclusive(name), g.locks.RWMutex(name).Lock)
	if err != nil {
		return err
	}
	h.keep(g.holdFor())
	if g.can.ReadersOnly || g.IntN(2) == 0 {
		g.release(ctx, h)
		return nil
	}
	h.end()
	lease, err := h.Downgrade(ctx)
	if err != nil {
		g.countError(ctx, err)
		return nil
	}
	h = g.begin(lease, history.Wait{Resource: name, Kind: history.Shared})
	h.keep(g.holdFor())
	g.release(ctx, h)
	return nil
}

func (g *goroutine) acquire(ctx context.Context) error {
	name, units := g.name(pool), 1+g.IntN(2)
	what := history.Wait{Resource: name, Kind: history.Semaphore, Units: units, Limit: poolUnits}
	return g.use(ctx, what, func(ctx context.Context) (*holdfast.Lease, error) {
		return g.locks.Semaphore(name, poolUnits).Acquire(ctx, units)
	})
}

// lockAll takes all mutexes at once.
func (g *goroutine) lockAll(ctx context.Context) error {
	var parts []holdfast.Part
	var waits []*history.Waiting
	var names []string
	for i := range mutexes {
		name := g.name(fmt.Sprint("mutex ", i))
		parts = append(parts, g.locks.Mutex(name))
		names = append(names, name)
		what := exclusive(name)
		what.Who = g.who()
		waits = append(waits, g.recorder.Wait(what))
	}
	all, err := holdfast.LockAll(ctx, parts...)
	if err != nil {
		for _, w := range waits {
			w.GaveUp()
		}
		return err
	}
	g.tally.Acquired()
	var holds []*held
	for i, token := range all.Tokens() {
		waits[i].Granted(token)
		holds = append(holds, &held{belief: g.believe(all, token, exclusive(names[i]))})
	}
	end := time.Now().Add(g.holdFor())
	for left := time.Until(end); left > 0 && holds[0].check(); left = time.Until(end) {
		for _, h := range holds[1:] {
			h.check()
		}
		time.Sleep(min(left, askEvery))
	}
	for _, h := range holds {
		h.end()
	}
	g.countError(ctx, all.Unlock(ctx))
	return nil
}

// reenter takes a lock again under its own lease, and gives the outer one back first.
func (g *goroutine) reenter(ctx context.Context) error {
	name := g.mutexName()
	m := g.locks.Mutex(name, holdfast.WithReentrance())
	outer, err := g.take(ctx, exclusive(name), m.Lock)
	if err != nil {
		return err
	}
	inner, err := g.take(outer.Context(), exclusive(name), m.Lock)
	outer.keep(g.holdFor())
	g.release(ctx, outer)
	if err != nil {
		if !errors.Is(err, holdfast.ErrLost) { // the outer one may be lost by then
			g.countError(ctx, err)
		}
		return nil
	}
	inner.keep(g.holdFor())
	g.release(ctx, inner)
	return nil
}

// handOver has another goroutine hold the lease and give it back.
func (g *goroutine) handOver(ctx context.Context) error {
	name := g.mutexName()
	h, err := g.take(ctx, exclusive(name), g.locks.Mutex(name).Lock)
	if err != nil {
		return err
	}
	d := g.holdFor()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.keep(d)
		g.release(ctx, h)
	}()
	<-done
	return nil
}

// giveUp tries, or waits for a moment only. What it gets it gives back at once.
func (g *goroutine) giveUp(ctx context.Context) error {
	name := g.mutexName()
	m := g.locks.Mutex(name)
	take, bound := m.TryLock, ctx
	if g.IntN(3) > 0 {
		var cancel context.CancelFunc
		bound, cancel = context.WithTimeout(ctx, time.Duration(g.Int64N(int64(impatience))))
		defer cancel()
		take = m.Lock
	}
	h, err := g.take(bound, exclusive(name), take)
	switch {
	case err == nil:
		g.release(ctx, h)
	case errors.Is(err, holdfast.ErrLocked) || bound.Err() != nil:
		return errInPassing
	}
	return err
}

func (g *goroutine) updateFenced(ctx context.Context) error   { return g.update(ctx, fencedRegister) }
func (g *goroutine) updateUnfenced(ctx context.Context) error { return g.update(ctx, unfencedRegister) }

// update takes the lock of a register, reads it, thinks, and writes a new value, without asking its lease before the
// write: a holder that asks can be paused right after the answer, so this is the worst case, and only a fence helps.
func (g *goroutine) update(ctx context.Context, register string) error {
	name := g.name(register)
	h, err := g.take(ctx, exclusive(name), g.locks.Mutex(name).Lock)
	if err != nil {
		return err
	}
	defer g.release(ctx, h)
	if !h.check() {
		return nil
	}
	token := h.Token()
	g.updates++
	call := g.recorder.Call(history.Operation{Who: g.who(), Register: register, Token: token, Update: true})
	read, err := g.guard.do(guardRequest{Register: register, Token: token, Update: true})
	if err != nil {
		return err
	}
	if read.Stale {
		call.Refused()
		return nil
	}
	value := fmt.Sprintf("%s, %d", g.Process, g.updates)
	call.Sends(read.Value, value)
	h.keep(think/2 + time.Duration(g.Int64N(int64(think)/2)))
	wrote, err := g.guard.do(guardRequest{Register: register, Token: token, Write: true, Value: value})
	switch {
	case err != nil:
		return err
	case wrote.Stale:
		call.Refused()
	default:
		call.Wrote()
	}
	return nil
}
