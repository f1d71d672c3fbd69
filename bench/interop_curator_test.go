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
	contestants = append(
		contestants,
		contestant{name: "test-mutex", role: ours, on: zookeeperSite, open: openHoldfastZooKeeper("curator", strict)},
		contestant{
			name: "test-writer",
			role: ours,
			on:   zookeeperSite,
			open: openHoldfastZooKeeper("curator-rw", strict),
		},
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
	ours := sideOf("test-mutex")
	for _, peer := range []side{curatorSide("curator"), sideOf("zk-lock")} {
		waitInLine(t, excludes, ours, peer, ours, peer)
	}
	t.Run("control", func(t *testing.T) {
		testBlind(t, zookeeperSite, sideOf("holdfast-zookeeper"), curatorSide("curator"))
	})
}

// Readers and writers of both: only readers hold together.
func TestReadersAmongCurator(t *testing.T) {
	needCurator(t)
	t.Parallel()
	ours := []side{sideOf("test-writer"), sideOf("test-reader")}
	theirs := []side{curatorSide("curator-writer"), curatorSide("curator-reader")}
	waitInLine(t, excludesWriters, ours[0], theirs[0], ours[1], theirs[1])
	t.Run("readers alone", func(t *testing.T) {
		e := meet(t, zookeeperSite, time.Second, time.Millisecond, ours[1], theirs[1])
		if _, together := e.sharing(); together == 0 {
			t.Errorf("of %d holds by readers of both sides none overlapped", len(e.turns()))
		}
	})
	t.Run("control", func(t *testing.T) {
		e := meet(t, zookeeperSite, 2*time.Second, time.Millisecond, sideOf("holdfast-zookeeper"), theirs[1])
		if wrong, _ := e.sharing(); wrong == 0 {
			t.Errorf("of %d holds with two locks of one name none overlapped: the check sees nothing", len(e.turns()))
		}
	})
}

// waitInLine demands that sides exclude each other, by check, and that all are served about as often: they wait in one
// line. On a busy machine a process may be late, and too little happen to show that. Then they meet again, for longer.
func waitInLine(t *testing.T, check func(*testing.T, encounter), sides ...side) {
	t.Helper()
	for lasts := interopFor(t); ; lasts *= 2 {
		e := meet(t, zookeeperSite, lasts, time.Millisecond, sides...)
		check(t, e)
		served := e.served()
		t.Logf("%d holds in %v: %s", len(e.turns()), lasts, strings.TrimPrefix(fmt.Sprint(served), "map"))
		isFair := len(e.turns()) >= 10*len(e.tallies) && fairness(slices.Collect(maps.Values(served))) > 0.5
		switch {
		case t.Failed() || isFair:
			return
		case lasts > 15*time.Second:
			t.Errorf("the holds are %v: that is not fair", served)
			e.logTurns(t)
			return
		}
	}
}

// logTurns logs when each worker was served.
func (e encounter) logTurns(t *testing.T) {
	t.Helper()
	for _, tally := range e.tallies {
		begins := make([]time.Duration, len(tally.Holds))
		for i, h := range tally.Holds {
			begins[i] = time.Duration(h.Begin - e.start).Round(time.Millisecond)
		}
		t.Logf("%s at %v, then %v in vain", e.sides[tally.Process].name, begins, time.Duration(tally.Unserved))
	}
}

// excludesWriters demands that nothing was held beside a writer, and that nothing failed.
func excludesWriters(t *testing.T, e encounter) {
	t.Helper()
	if wrong, _ := e.sharing(); wrong > 0 {
		t.Errorf("%d of %d holds overlapped, and one of the two was a writer's", wrong, len(e.turns()))
	}
	if n, first := e.faults(); n > 0 {
		t.Errorf("%d calls failed: %s", n, first)
	}
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
