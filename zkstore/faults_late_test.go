package zkstore_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/zkstore"
)

// A Join is on its way from a follower to the leader until its caller has given up, its client has turned to another
// server, had the Join made void there, and come back to the follower. The leader refuses requests of a follower that a
// session has left, but now the session is back: the leader hears of that as soon as the follower says so, while the
// Join stands in the leader's queue, behind requests of others. Nothing comes of it, since the session has begun
// another epoch. A store that does not demand its epoch has a claim in the queue that nobody owns.
func TestLateAtTheSameServer(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t, tick, servers.Cuttable())
	const rounds = 10 // the leader may come to the Join before it hears that the session is back
	t.Run("any epoch", func(t *testing.T) {
		l := newLateJoin(t, e, zkstore.AnyEpoch)
		for round := range rounds {
			if l.lands() {
				t.Logf("the Join has landed in round %d", round)
				return
			}
		}
		t.Errorf("no Join has landed late in %d rounds", rounds)
	})
	t.Run("its epoch", func(t *testing.T) {
		l := newLateJoin(t, e, func(*zkstore.Store) {})
		for range 3 {
			if l.lands() {
				t.Fatalf("a Join has landed after it was made void: %v", l.Queue())
			}
		}
	})
}

// A lateJoin is a store that knows all servers, and one of them that is slow to pass on what it is asked for.
type lateJoin struct {
	*witness
	store     *zkstore.Store
	ways      testkit.Ways
	near, far *servers.ZooKeeperServer
	session   string   // as the servers write it
	others    *zk.Conn // also a client of near
}

func newLateJoin(t *testing.T, e *servers.ZooKeeperServers, alter func(*zkstore.Store)) *lateJoin {
	t.Helper()
	w := newWitness(t, e)
	l := &lateJoin{
		witness: w, ways: testkit.NewWays(t, e.Endpoints()), near: follower(t, e), far: leader(t, e),
	}
	l.moveTo(l.near)
	s, err := zkstore.OpenThrough(
		t.Context(), &testkit.Valve{}, e.Endpoints(), l.ways.Addrs(), zkstore.WithTTL(longTTL), zkstore.WithTick(tick))
	w.Must(err)
	t.Cleanup(func() { testkit.Check(t, s.Close()) })
	alter(s)
	l.store = s
	testkit.Held(t, s, testkit.Claim(w.Mutex, longTTL)) // it stays: servers remove a queue that is empty
	node := w.sessionOf(w.Queue()[0])
	l.session = "sid=0x" + strings.TrimLeft(node[strings.LastIndex(node, "/")+1:], "0")
	l.others = connectTo(t, longTTL, l.near.Addr())
	_, _, err = l.others.Exists("/") // it is connected
	w.Must(err)
	return l
}

// moveTo leaves the store one way to its servers.
func (l *lateJoin) moveTo(server *servers.ZooKeeperServer) {
	for i, node := range l.ensemble.Nodes {
		if node == server {
			l.ways.Proxies[i].Heal()
		}
	}
	for i, node := range l.ensemble.Nodes {
		if node != server {
			l.ways.Proxies[i].Cut()
		}
	}
}

// lands plays the schedule once. It reports whether the claim stands although its Join was made void.
func (l *lateJoin) lands() bool {
	l.Helper()
	l.Must(l.near.Mute())
	defer l.near.Rejoin()
	var calls sync.WaitGroup
	defer calls.Wait()
	const ahead = 40
	for range ahead {
		calls.Go(func() { _, _ = l.others.Multi(manyChecks()...) }) // what comes of it does not matter
	}
	l.awaitOutstanding(ahead)

	claim := testkit.Claim(l.Mutex, longTTL)
	ctx, giveUp := context.WithCancel(l.Context())
	defer giveUp()
	returned := make(chan struct{})
	calls.Go(func() {
		defer close(returned)
		if status, err := l.store.Join(ctx, claim); err == nil {
			l.Errorf("the Join was answered: %+v", status)
		}
	})
	l.awaitOutstanding(ahead + 1)
	giveUp()
	<-returned // a caller leaves when its Join has returned

	l.moveTo(l.far)
	testkit.Await(l, "the Join is made void", func() bool { return l.store.Leave(l.Context(), claim) == nil })
	l.awaitClient(false)
	l.moveTo(l.near)
	l.awaitClient(true)
	l.near.Rejoin()

	// What the store asks for now comes to the leader after the Join.
	var line store.Queue
	testkit.Await(l, "the store is connected", func() (ok bool) {
		var err error
		line, err = l.store.Queue(l.Context(), l.Mutex)
		return err == nil
	})
	return len(line.Entries) > 1
}

// manyChecks is a transaction that takes the leader some time and does nothing.
func manyChecks() (checks []any) {
	for range 500 {
		checks = append(checks, &zk.CheckVersionRequest{Path: "/holdfast", Version: -1})
	}
	return checks
}

var outstanding = regexp.MustCompile(`(?m)^Outstanding: (\d+)$`)

// awaitOutstanding waits until near has so many requests that are not carried out.
func (l *lateJoin) awaitOutstanding(n int) {
	l.Helper()
	l.awaitNear("srvr", "the requests are on their way", func(said string) bool {
		found := outstanding.FindStringSubmatch(said)
		if found == nil {
			return false
		}
		now, err := strconv.Atoi(found[1])
		return err == nil && now >= n
	})
}

// awaitClient waits until near has a connection of the session, or none.
func (l *lateJoin) awaitClient(there bool) {
	l.Helper()
	l.awaitNear("cons", "the follower has seen where its client is", func(said string) bool {
		return strings.Contains(said, l.session+",") == there
	})
}

// awaitNear waits until near says something in response to a four-letter word.
func (l *lateJoin) awaitNear(word, what string, satisfies func(said string) bool) {
	l.Helper()
	testkit.Await(l, what, func() bool {
		said, err := l.near.Command(l.Context(), word)
		return err == nil && satisfies(said)
	})
}
