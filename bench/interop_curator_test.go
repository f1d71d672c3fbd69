//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// Holdfast in Curator's layout and Curator itself on one path: processes of both take turns, and never hold at once.
// Elsewhere than on Linux the two would have no clock in common.

func init() {
	contestants = append(contestants,
		contestant{name: "test-mutex", role: ours, on: zookeeperSite, open: openHoldfastZooKeeper("curator", strict)},
		contestant{name: "test-writer", role: ours, on: zookeeperSite, open: openHoldfastZooKeeper("curator-rw", strict)},
		contestant{name: "test-reader", role: ours, on: zookeeperSite, open: openReader},
	)
}

// openReader is Holdfast in Curator's layout, for readers.
func openReader(ctx context.Context, where string, ttl time.Duration) (locker, error) {
	l, err := openHoldfastZooKeeper("curator-rw", strict)(ctx, where, ttl)
	if err != nil {
		return nil, err
	}
	return readLocker{l.(holdfastLocker)}, nil
}

type readLocker struct{ holdfastLocker }

func (l readLocker) Acquire(ctx context.Context, name string) (lease, error) {
	held, err := l.RWMutex(name).RLock(ctx)
	if err != nil {
		return nil, err
	}
	return leaseFunc(func() error { return held.Unlock(context.Background()) }), nil
}

func curatorSide(name string) side { return side{name, hireCurator} }

func TestMutexAmongCurator(t *testing.T) {
	needCurator(t)
	t.Parallel()
	for _, peer := range []side{curatorSide("curator"), sideOf("zk-lock")} {
		e := takeTurns(t, zookeeperSite, time.Millisecond, sideOf("test-mutex"), peer)
		checkFair(t, e)
	}
	t.Run("control", func(t *testing.T) {
		testBlind(t, zookeeperSite, sideOf("holdfast-zookeeper"), curatorSide("curator"))
	})
}

// checkFair demands that no side is served much less often than another: all wait in one line.
func checkFair(t *testing.T, e encounter) {
	t.Helper()
	served := e.served()
	if f := fairness(slices.Collect(maps.Values(served))); f < 0.5 || len(served) < 2 {
		t.Errorf("the holds are %v: that is not fair", served)
	}
}

// Readers and writers of both: only readers hold together, and do so with those of the other side.
func TestReadersAmongCurator(t *testing.T) {
	needCurator(t)
	t.Parallel()
	ours := []side{sideOf("test-writer"), sideOf("test-reader")}
	theirs := []side{curatorSide("curator-writer"), curatorSide("curator-reader")}
	e := meet(t, zookeeperSite, interopFor(t), time.Millisecond, append(ours, theirs...)...)
	if n, first := e.faults(); n > 0 {
		t.Errorf("%d calls failed: %s", n, first)
	}
	wrong, together := e.sharing()
	t.Logf("holds: %s, %d of them by readers of both sides together", strings.TrimPrefix(fmt.Sprint(e.served()), "map"), together)
	if wrong > 0 {
		t.Errorf("%d holds overlapped with a writer's", wrong)
	}
	if together == 0 {
		t.Error("readers of one side never hold beside those of the other")
	}
	checkFair(t, e)
	t.Run("control", func(t *testing.T) {
		e := meet(t, zookeeperSite, 2*time.Second, time.Millisecond, sideOf("holdfast-zookeeper"), theirs[1])
		if wrong, _ := e.sharing(); wrong == 0 {
			t.Errorf("of %d holds with two locks of one name none overlapped: the check sees nothing", len(e.turns()))
		}
	})
}

// sharing counts the turns that overlapped with an earlier one though one of the two was a writer's, and those of
// readers that overlapped with a reader's of the other side.
func (e encounter) sharing() (wrong, together int) {
	var writers int64             // the latest end of a writer's
	readers := map[string]int64{} // likewise of a side's readers
	for _, turn := range e.turns() {
		side := e.sides[turn.process].name
		if !strings.HasSuffix(side, "reader") {
			latest := writers
			for _, end := range readers {
				latest = max(latest, end)
			}
			if turn.Begin < latest {
				wrong++
			}
			writers = max(writers, turn.End)
			continue
		}
		if turn.Begin < writers {
			wrong++
		}
		for other, end := range readers {
			if other != side && turn.Begin < end {
				together++
				break
			}
		}
		readers[side] = max(readers[side], turn.End)
	}
	return wrong, together
}
