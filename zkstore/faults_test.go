package zkstore_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// longerThanTTL is how long something lasts so that no session outlives it: a leader rounds up to its tick.
const longerThanTTL = sessionTTL * 3 / 2

// A fault is something that happens while a crowd contends.
type fault struct {
	name   string
	strike func(s *scene)
}

// Faults strike one after the other while 16 contend: first the servers, and in another scene connections and one
// process. Through every fault believed holds exclude each other and tokens rise. After each everyone gets a lock
// again, and at the end nothing is left.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		options []servers.Option
		faults  []fault
	}{
		{"of servers", nil, []fault{
			{"leader killed and started again", (*scene).killLeader},
			{"follower stopped and resumed", func(s *scene) { s.pause(follower(s, s.ensemble)) }},
			{"majority stopped and resumed", func(s *scene) { s.pause(follower(s, s.ensemble), leader(s, s.ensemble)) }},
			{"servers restarted one after another", func(s *scene) { s.Must(restartEach(s.ensemble)) }},
			{"data of one server lost", (*scene).loseData},
			{"all servers killed and started again", func(s *scene) { s.Must(s.ensemble.Restart(true)) }},
		}},
		{"of connections and a process", []servers.Option{servers.Cuttable()}, []fault{
			{"follower cut off from the others", (*scene).isolateFollower},
			{"silence", (*scene).silence},
			{"late requests", func(s *scene) { s.late(proxy.Requests) }},
			{"late responses", func(s *scene) { s.late(proxy.Down) }},
			{"connections killed", (*scene).killConnections},
			{"kill -9", func(s *scene) { s.Must(s.Crowd.Kill(0)) }},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, "zk", test.options...)
			for _, f := range test.faults {
				s.Strike(f.name, func() { f.strike(s) })
			}
			s.end(testkit.MustHurt)
		})
	}
}

// A store that is broken meets the silence, and the checkers see it.
func TestFaultsAreSeen(t *testing.T) {
	t.Parallel()
	s := newScene(t, believerScheme)
	s.Strike("silence", s.silence)
	if len(check.Overlap(s.Stop().Holds)) == 0 {
		t.Error("two hold at once, and nothing is found")
	}
}

// killLeader kills the leader, and starts it again when everyone has got a lock without it.
func (s *scene) killLeader() {
	s.Helper()
	killed := leader(s, s.ensemble)
	s.Must(killed.Kill())
	s.Through()
	s.Must(killed.Start())
	s.Must(killed.AwaitHealthy())
}

// pause stops servers for longer than the ttl. If the others are a majority, everyone gets a lock meanwhile.
func (s *scene) pause(nodes ...*servers.ZooKeeperServer) {
	s.Helper()
	for _, node := range nodes {
		s.Must(node.Pause())
	}
	resume := time.After(longerThanTTL)
	if len(nodes) < 2 {
		s.Through()
	}
	<-resume
	for _, node := range nodes {
		s.Must(node.Continue())
	}
}

// isolateFollower cuts a follower off from the others for longer than the ttl. Its clients stay connected with it, and
// get locks all the same, from the others.
func (s *scene) isolateFollower() {
	s.Helper()
	node := follower(s, s.ensemble)
	s.Must(node.Isolate())
	mend := time.After(longerThanTTL)
	s.Through()
	<-mend
	node.Rejoin()
	s.Must(node.AwaitHealthy())
}

// restartEach kills the servers and starts them again, each when the one before serves clients.
func restartEach(e *servers.ZooKeeperServers) error {
	for _, node := range e.Nodes {
		if err := node.Restart(true); err != nil {
			return err
		}
		if err := node.AwaitHealthy(); err != nil {
			return err
		}
	}
	return nil
}

// loseData kills a follower, and starts it again without its snapshots and logs.
func (s *scene) loseData() {
	s.Helper()
	node := follower(s, s.ensemble)
	s.Must(node.Restart(false))
	s.Must(node.AwaitHealthy())
}

// silence swallows what the first process says and hears.
func (s *scene) silence() {
	s.Helper()
	end := s.ways.Silence(proxy.All)
	time.Sleep(2 * longerThanTTL) // that is the fault
	end()
}

// late keeps back what the first process says or hears until its session has expired, and delivers it then.
func (s *scene) late(flows proxy.Flow) {
	s.Helper()
	release := s.ways.Hold(flows)
	time.Sleep(longerThanTTL) // that is the fault
	if s.ways.Held(flows) == 0 {
		s.Error("nothing was kept back")
	}
	release()
}

// killConnections ends all connections of the first process, again and again, each time when there are some.
func (s *scene) killConnections() {
	s.Helper()
	for range 5 {
		connections := func() (n int) {
			for _, p := range s.ways.Proxies {
				n += p.Connections()
			}
			return n
		}
		testkit.Await(s, "it is connected", func() bool { return connections() > 0 })
		for _, p := range s.ways.Proxies {
			p.CloseAll()
		}
	}
}
