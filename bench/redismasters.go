package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// independentMasters is how many there are for Redlock.
const independentMasters = 5

// startMasters starts masters that know nothing of each other.
func startMasters(ctx context.Context, _ serverSettings) (site, error) {
	return startRedisGroup(ctx, (*redisGroup).formMasters)
}

func (g *redisGroup) formMasters(ctx context.Context) error {
	for range independentMasters {
		if _, err := g.join(ctx, &g.masters, noPersistence...); err != nil {
			return err
		}
	}
	g.where = addrsOf(g.masters)
	g.madeOf = fmt.Sprintf("%d independent masters", independentMasters)
	g.prepare = g.initRedlock
	return nil
}

// initRedlock lets all masters vote, as an operator does once. Without it those that were emptied have no vote for a
// minute.
func (g *redisGroup) initRedlock(ctx context.Context) error {
	at, err := store.ParseLocation("redlock://" + g.where)
	if err != nil {
		return err
	}
	nodes, err := redlock.Init(ctx, at)
	for _, node := range nodes {
		if err == nil && node.State != redlock.Voting {
			err = fmt.Errorf("%s does not vote: %v", node.Address, node.State)
		}
	}
	return err
}

// Pause makes the last master stand still until resume is called.
func (g *redisGroup) Pause() (resume func() error, err error) {
	last := g.masters[len(g.masters)-1].proc.cmd.Process
	return func() error { return resumeProcess(last) }, suspendProcess(last)
}

// A pausable site has a node that can stand still while the others go on.
type pausable interface {
	Pause() (resume func() error, err error)
}

var errNoPause = errors.New("no node of this site can be paused")

// stopHalfway pauses a node when half of the workload is over. It returns when that is, and what ends it.
func (w *workload) stopHalfway(ctx context.Context, on site, start int64) (at int64, resume func() error, err error) {
	nodes, ok := on.(pausable)
	if !ok {
		return 0, nil, errNoPause
	}
	clock := newClock()
	if err := sleep(ctx, clock.until(start)+w.Lasts/2); err != nil {
		return 0, nil, err
	}
	resume, err = nodes.Pause()
	return clock.now(), resume, err
}

// compareHalves adds what locks cost before a node was stopped, and after it. A turn during which that happened counts
// for neither.
func compareHalves(m metrics, tallies []tally, stopped int64) {
	var before, after []int64
	for _, t := range tallies {
		for _, h := range t.Holds {
			switch {
			case h.Released < stopped:
				before = append(before, h.cycle())
			case h.Asked > stopped:
				after = append(after, h.cycle())
			}
		}
	}
	if len(before) > 0 {
		m[beforeP50] = micros(before, 50)
	}
	if len(after) > 0 {
		m[afterP50], m[afterP99] = micros(after, 50), micros(after, 99)
	}
	if len(before) > 0 && len(after) > 0 {
		m[afterToBefore] = m[afterP50] / m[beforeP50]
	}
}

// openHoldfastMaster opens Holdfast on the first of several masters alone.
func openHoldfastMaster(ctx context.Context, where string, ttl time.Duration) (locker, error) {
	first, _, _ := strings.Cut(where, ",")
	return holdfastOn("redis://")(ctx, first, ttl)
}

// openHoldfastRedlock opens Holdfast on a majority of masters. A node has as long to answer as redsync gives it: here all
// of them share one machine with all workers.
func openHoldfastRedlock(tokens string) func(context.Context, string, time.Duration) (locker, error) {
	return func(ctx context.Context, where string, ttl time.Duration) (locker, error) {
		return holdfastOn("redlock://")(ctx, fmt.Sprintf("%s?tokens=%s&timeout=%v", where, tokens, ttl/20), ttl)
	}
}

// openHoldfastUnsaved opens Holdfast so that a majority need not have a token before the lock is held. Then tokens are not
// for fences, and are not looked at.
func openHoldfastUnsaved(ctx context.Context, where string, ttl time.Duration) (locker, error) {
	l, err := openHoldfastRedlock("unsaved")(ctx, where, ttl)
	return unfencedLocker{l}, err
}

type unfencedLocker struct{ locker }

func (l unfencedLocker) Acquire(ctx context.Context, name string) (lease, error) {
	held, err := l.locker.Acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return unfencedLease{held.(keptLease)}, nil
}

// An unfencedLease is only what its interface has.
type unfencedLease struct{ keptLease }
