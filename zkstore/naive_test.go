package zkstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/history"
)

// A naive lock is the recipe's: the first of the ephemeral sequential nodes under a path holds. It believes for a
// session's timeout after it sent a request that was responded to.
type naive struct {
	conn  *zk.Conn
	line  string
	node  string
	ttl   time.Duration
	until atomic.Pointer[time.Time]
}

// newNaive begins a session with one server.
func newNaive(t testing.TB, server *servers.ZooKeeperServer, line string, ttl time.Duration) *naive {
	t.Helper()
	n := &naive{conn: connectTo(t, ttl, server.Addr()), line: line, ttl: ttl}
	_, err := n.conn.Create(line, nil, 0, zk.WorldACL(zk.PermAll))
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		t.Fatal(err)
	}
	return n
}

// join makes a node.
func (n *naive) join() (err error) {
	sent := time.Now()
	n.node, err = n.conn.Create(n.line+"/n-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err == nil {
		n.answered(sent)
	}
	return err
}

// read asks its server for its node, and believes the answer.
func (n *naive) read() error {
	sent := time.Now()
	there, _, err := n.conn.Exists(n.node)
	if err == nil && there {
		n.answered(sent)
	}
	return err
}

func (n *naive) answered(sent time.Time) {
	until := sent.Add(n.ttl)
	n.until.Store(&until)
}

func (n *naive) believes() bool { return time.Now().Before(*n.until.Load()) }

// record begins to record its hold, which it must have.
func (n *naive) record(w *witness, client string) *testkit.Hold {
	w.Helper()
	h, err := w.Record(client, 0, n.believes)
	w.Must(err)
	return h
}

// await waits until its node is the first, and records its hold.
func (n *naive) await(w *witness, client string) *testkit.Hold {
	w.Helper()
	testkit.Await(w, "its node is the first", func() bool {
		w.Must(n.read())
		return childrenOf(w, n.conn, n.line)[0] == n.node
	})
	return n.record(w, client)
}

// A follower is cut off from the others, and goes on answering its clients. One of them holds a naive lock and reads
// through the follower: it still believes when the leader has expired its session, and two hold at once. Another holds
// a lock of the store's: its context ends before the next is granted. A third could reach all servers: it leaves the
// follower, and keeps its lock.
func TestCutOffFollower(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t, tick, servers.Cuttable())
	near, far := follower(t, e), leader(t, e)

	simple := newWitness(t, e, "naive")
	naiveNear, naiveFar := newNaive(t, near, "/naive", lastingTTL), newNaive(t, far, "/naive", lastingTTL)
	simple.Must(naiveNear.join())
	believer := naiveNear.record(simple, "near")
	simple.Must(naiveFar.join())

	w := newWitness(t, e)
	first := w.Take(w.OpenLasting(near.Addr()))
	next := w.WaitBehind(1, w.OpenLasting(far.Addr()))

	moving := newWitness(t, e, "moving")
	kept := moving.Take(moving.openAt(near))
	kept2nd := moving.WaitBehind(1, moving.OpenLasting(far.Addr()))

	w.Must(near.Isolate())
	reading, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for reading.Err() == nil {
			_ = naiveNear.read() // as long as it is responded to
			time.Sleep(tick)
		}
	}()
	second := next.Granted()
	w.MustLose(first, soon, "")
	w.MustExclude(first, second)
	simple.MustOverlap(naiveFar.await(simple, "far"), believer)
	if _, early := kept2nd.GrantedIn(0); early || !kept.Believed() {
		t.Errorf("a client that could reach all servers has lost its lock: %v", kept.Err())
	}
	moving.Release(kept)
	moving.MustGrantSoon(kept2nd, kept)
}

// openAt opens a client that knows all servers and is connected with this one.
func (w *witness) openAt(server *servers.ZooKeeperServer) *holdfast.Client {
	w.Helper()
	ways := testkit.NewWays(w, w.ensemble.Endpoints())
	for i, node := range w.ensemble.Nodes {
		if node != server {
			ways.Proxies[i].Cut()
		}
	}
	defer ways.Heal()
	return w.OpenLasting(ways.Addrs()...)
}

// leader is the node that leads.
func leader(t testing.TB, e *servers.ZooKeeperServers) *servers.ZooKeeperServer {
	t.Helper()
	node, err := e.Leader()
	testkit.Must(t, err)
	return node
}

// follower is a node that follows.
func follower(t testing.TB, e *servers.ZooKeeperServers) *servers.ZooKeeperServer {
	t.Helper()
	nodes, err := e.Followers()
	testkit.Must(t, err)
	return nodes[0]
}

// The schedule of TestLaggingLeader. The leader expires sessions at whole multiples of its tick by the machine's clock,
// and hears of a follower's sessions every half tick. The library pings three times in a timeout.
const (
	slowTick = 2 * time.Second
	slowTTL  = 4 * slowTick
	// writeAt is when the lock is taken, after the session has begun at a multiple of the tick. The last ping before
	// was reported well before a multiple, and by then the client has been silent for nearly as long as it ever is.
	writeAt = slowTTL/3 + slowTTL*3/10
)

// A follower is cut off right after it forwarded a request that a majority has carried out, and before its next report
// to the leader. Who believes for a timeout after that request holds at the same time as the next: the leader counts
// from the ping before. The store does not.
func TestLaggingLeader(t *testing.T) {
	t.Parallel()
	e := newEnsemble(t, slowTick, servers.Cuttable())
	near, far := follower(t, e), leader(t, e)
	w := newWitness(t, e)
	url := func(server *servers.ZooKeeperServer) string {
		return fmt.Sprintf("zk://%s?ttl=%v&tick=%v", server.Addr(), slowTTL, slowTick)
	}
	farLocks := w.Open(url(far))
	for try := range 3 { // a report comes between request and cut, once in a hundred
		simple := newWitness(t, e, "naive", fmt.Sprint(try))
		line := fmt.Sprint("/naive-", try)
		naiveFar := newNaive(t, far, line, slowTTL)
		time.Sleep(slowTick - time.Duration(history.Now())%slowTick)
		began := time.Now()
		naiveNear := newNaive(t, near, line, slowTTL)
		nearLocks := w.Open(url(near))
		time.Sleep(time.Until(began.Add(writeAt)))

		first := w.Take(nearLocks)
		simple.Must(naiveNear.join())
		w.Must(near.Isolate())
		believer := naiveNear.record(simple, "near")
		simple.Must(naiveFar.join())
		next := w.WaitBehind(1, farLocks)
		overlaps, _ := simple.Findings(naiveFar.await(simple, "far"), believer)
		second := next.Granted()
		w.MustLose(first, soon, "")
		w.MustExclude(first, second)
		w.Must(second.Unlock(t.Context()))
		near.Rejoin()
		if len(overlaps) > 0 {
			return
		}
		w.Must(near.AwaitHealthy())
		w.Must(nearLocks.Close())
	}
	t.Error("believing in an acknowledged write has never let two hold at once")
}
