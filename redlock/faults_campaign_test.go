package redlock_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/store"
)

// TestLossOfAllNodes has all nodes lose their data, at about the same time, while a holder and half of the processes do
// not hear of it. The guard keeps everybody out until nobody can believe in what was lost. Where the nodes vote at once
// the checkers find two that hold at the same time: so they would find it with the guard too.
func TestLossOfAllNodes(t *testing.T) {
	t.Parallel()
	const maxTTL = 10 * time.Second // and the witness's ttl: restarts on a busy machine take a good part of it
	t.Run("guard", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, maxTTL)
		s.loseAll(func(*servers.RedisServer) error { return nil })
		s.Through()
		s.awaitVotes()
		s.end()
	})
	t.Run("no guard", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, maxTTL)
		s.loseAll(s.vouch)
		found := s.overlaps()
		if len(found) == 0 {
			t.Fatal("all nodes have lost a lock that is held, and nobody has seen two hold it at once")
		}
		t.Logf("%d overlaps, the first: %v", len(found), found[0])
	})
}

// loseAll is the fault of TestLossOfAllNodes. Something is done with each node when it is back.
func (s *scene) loseAll(back func(*servers.RedisServer) error) {
	s.Helper()
	w := s.newWitness("mutex 0")
	mends := []func(){s.ways[0].Cut(), s.ways[1].Cut(), s.ways[len(s.ways)-1].Cut()}
	errs := make([]error, len(s.nodes))
	var all sync.WaitGroup
	for i, node := range s.nodes {
		all.Go(func() {
			if errs[i] = errors.Join(node.Kill(), node.LoseData(), node.Start()); errs[i] == nil {
				errs[i] = back(node)
			}
		})
	}
	all.Wait()
	s.Must(errors.Join(errs...))
	if !w.Believed() {
		s.Fatal("the restarts took longer than the lease")
	}
	if !w.EndsIn(2 * s.maxTTL) {
		s.Fatal("nobody has told the witness that its time is up")
	}
	w.End()
	for _, mend := range mends {
		mend()
	}
}

// TestLossOfOneNodeAfterTheOther has one node lose its data, and the next when that one votes again. All the time a
// majority votes, and everyone gets in.
func TestLossOfOneNodeAfterTheOther(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]servers.Option{"Redis": nil, "Valkey": {servers.Valkey()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, crowdTTL, options...)
			for _, node := range s.nodes {
				s.Must(node.Kill())
				s.Through()
				s.Must(errors.Join(node.LoseData(), node.Start()))
				s.awaitVotes()
			}
			s.end()
		})
	}
}

// TestMinorityStopped has two nodes stand still. Everyone gets in, and what is held is renewed.
func TestMinorityStopped(t *testing.T) {
	t.Parallel()
	s := newScene(t, 5*crowdTTL) // which is the witness's ttl: a busy machine alone does not use it up
	w := s.newWitness("held all the time")
	for _, node := range s.nodes[:2] {
		s.Must(node.Pause())
	}
	s.Through()
	if w.EndsIn(s.maxTTL + crowdTTL) {
		t.Errorf("a lock was lost, and a majority was there: %v", w.Err())
	}
	s.Through()
	for _, node := range s.nodes[:2] {
		s.Must(node.Continue())
	}
	s.Through()
	w.End()
	s.Must(w.Unlock(s.Within()))
	s.end()
}

// TestMajorityStopped has three nodes stand still for longer than a ttl. Who tries meanwhile is told so, and who waits
// has a lock when they go on.
func TestMajorityStopped(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2*crowdTTL)
	locks, err := holdfast.Open(s.Within(), s.newWay(crowdTimeout))
	s.Must(err)
	defer locks.Close()
	stopped := s.nodes[:3]
	for _, node := range stopped {
		s.Must(node.Pause())
	}
	end := time.Now().Add(2 * crowdTTL) // that is the fault
	for i := 0; time.Now().Before(end); i++ {
		_, err := locks.Mutex(fmt.Sprintf("tried %d", i)).TryLock(s.Within())
		if _, fault := errors.AsType[*store.Fault](err); !fault || store.Final(err) ||
			!explains.MatchString(err.Error()) {
			t.Errorf("TryLock while three nodes stand still: %v", err)
		}
	}
	for _, node := range stopped {
		s.Must(node.Continue())
	}
	s.Through()
	s.end()
}

// TestHoldersKilled kills processes that hold locks and wait for them. The others get the locks when a ttl is over.
func TestHoldersKilled(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2*crowdTTL)
	for i := range crowdProcesses - 1 {
		s.Must(s.Crowd.Kill(i))
		s.Through()
	}
	s.end()
}
