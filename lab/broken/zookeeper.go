package broken

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/proxy"
	_ "github.com/holdfast-go/holdfast/zkstore" // zk:
)

// An oneNode is a lock that is one ephemeral node: the client that creates it has the lock. All others watch it, and
// try again when it is gone. ZooKeeper removes it with the session of its creator, and the creator does not listen for
// that.
type oneNode struct {
	conn *zk.Conn
	path string
}

func (l *oneNode) tryLock(context.Context) (bool, error) {
	_, err := l.conn.Create(l.path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	if errors.Is(err, zk.ErrNodeExists) {
		return false, nil
	}
	return err == nil, err
}

// await waits until the node is gone.
func (l *oneNode) await(ctx context.Context) error {
	there, _, gone, err := l.conn.ExistsW(l.path)
	if err != nil || !there {
		return err
	}
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *oneNode) unlock(context.Context) error { return l.conn.Delete(l.path, -1) }

func (l *oneNode) close() error { //nolint:unparam // as other locks have it
	l.conn.Close()
	return nil
}

// silent is for what the library logs.
type silent struct{}

func (silent) Printf(string, ...any) {}

func newOneNode(ctx context.Context, p *part) (lock, error) {
	conn, events, err := zk.Connect(p.Addrs, p.TTL, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return &oneNode{conn, "/" + p.Lock}, nil
			}
		case <-ctx.Done():
			conn.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// zooKeeperTick is the unit of the server's timeouts.
const zooKeeperTick = 200 * time.Millisecond

func holdfastZooKeeper(p *part) (url string) {
	return fmt.Sprintf("zk://%s?ttl=%v&tick=%v", p.Addrs[0], p.TTL, zooKeeperTick)
}

// onZooKeeper makes the players use a ZooKeeper server that other plays of this rung use too.
func (s *stage) onZooKeeper() *servers.ZooKeeperServer {
	server := share(s, s.rung.Name, func(t testing.TB) *servers.ZooKeeperServer {
		return servers.ZooKeeper(t, servers.Tick(zooKeeperTick))
	})
	s.on(server.Addr())
	return server
}

var zooKeeperServer = []string{"zookeeper"}

var zkHerd = &Rung{
	Number: 13, Name: "zk-herd",
	What:    "one ephemeral node in ZooKeeper, which everybody who waits watches",
	Seen:    "the first lock that one writes with ZooKeeper; the recipes warn of it",
	Promise: "a release wakes the one that is next, however many wait",
	Story: "A holds the lock and many wait. A releases it once. It is counted to how many of them the server sends " +
		"something.",
	Rule: check.Herd,
	Prevents: "Claims stand in a line, and each watches only what is just ahead of it. When a claim leaves, those " +
		"who now fit are told, and the one behind them, which makes ready. (A herd is not unsafe. It costs a message " +
		"and a request for each of those who wait, at each release.)",
	Store: "zk", Needs: zooKeeperServer, Budget: 30 * time.Second,
	broken: newOneNode, holdfast: holdfastZooKeeper,
	schedule: func(s *stage) {
		s.alone()
		server := s.onZooKeeper()
		before := s.watches(server)
		a := s.enter("A", ttl(time.Minute))
		a.locks()
		var waits []*wait
		for i := range 6 + s.random.IntN(6) {
			p := s.enter(fmt.Sprint("W", i+1), ttl(time.Minute))
			p.quiet = true
			waits = append(waits, p.asks())
			waits[i].inLine(i + 1)
		}
		s.settles(server, before+min(len(waits), 1))
		s.tell("", "%d clients wait", len(waits))
		// What the server sends is held back so that it can be counted.
		deliver := onAll(waits, func(w *wait) func() { return w.links[0].Hold(proxy.Down) })
		a.unlocks()
		s.await("one of them is told", func() bool { return told(waits) > 0 })
		s.must(pause(s.ctx, 200*time.Millisecond)) // for all that the server sends at once
		woken := told(waits)
		deliver()
		s.await("one of them gets in", func() bool { return slices.ContainsFunc(waits, (*wait).over) })
		s.tell("", "the release wakes %d of them, and lets 1 in", woken)
		s.show.Wakeups = append(s.show.Wakeups, check.Wakeup{
			Resource: s.lock, At: history.Now(), Woken: woken, Granted: 1,
		})
	},
}

// told is to how many of these clients the server has sent something that is held back. Their sessions are so long that
// none of them is renewed meanwhile.
func told(waits []*wait) (n int) {
	for _, w := range waits {
		if w.held(proxy.Down) > 0 {
			n++
		}
	}
	return n
}

// settles waits until a server has so many watches, and for a while no more of them are set.
func (s *stage) settles(server *servers.ZooKeeperServer, least int) {
	count, since := 0, time.Now()
	s.await("all clients watch", func() bool {
		if now := s.watches(server); now != count {
			count, since = now, time.Now()
		}
		return count >= least && time.Since(since) > 500*time.Millisecond
	})
}

// watches is how many watches a server has.
func (s *stage) watches(server *servers.ZooKeeperServer) int {
	const name = "zk_watch_count"
	var all string
	s.await("ZooKeeper answers", func() bool {
		text, err := server.Command(s.ctx, "mntr")
		all = text
		return err == nil
	})
	for line := range strings.Lines(all) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && key == name {
			n, err := strconv.Atoi(value)
			s.must(err)
			return n
		}
	}
	s.must(fmt.Errorf("ZooKeeper does not say its %s", name))
	return 0
}

var zkSession = &Rung{
	Number: 13, Name: "zk-session",
	What:    "an ephemeral node in ZooKeeper, whose creator believes in it for as long as it is not told otherwise",
	Seen:    "code that takes the lock and ignores the events of the session: Disconnected is \"only a hiccup\"",
	Promise: oneHolder, Rule: check.Exclusion,
	Story: "A holds the lock and is cut off. Its session expires at the server, the node goes, and B gets the lock. " +
		"Nobody can tell A.",
	Prevents: "A client knows by its own clock when the server can have expired its session at the earliest, counted " +
		"from what the leader has surely heard. The lease is over before.",
	Store: "zk", Needs: zooKeeperServer, Budget: 30 * time.Second,
	broken: newOneNode, holdfast: holdfastZooKeeper,
	schedule: func(s *stage) {
		s.onZooKeeper()
		a, b := s.enter("A", ttl(s.millis(3000, 4000))), s.enter("B", ttl(time.Minute))
		a.locks()
		w := b.asks()
		s.must(pause(s.ctx, s.millis(0, 300)))
		a.isCutOff()
		w.granted()
		s.must(pause(s.ctx, s.millis(10, 50)))
	},
}
