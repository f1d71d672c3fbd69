package testkit

import (
	"regexp"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// How many processes contend in a CrowdScene, and with how many goroutines each.
const (
	crowdProcesses  = 4
	crowdGoroutines = 4
)

// A CrowdScene is a cluster and processes that contend for its locks, for milliseconds each. Beside them one client
// holds another lock whenever a fault strikes, and a second one waits for it. The first process and the first client
// have connections of their own, through Ways.
type CrowdScene struct {
	*Scene
	*Strikes
	Cluster *Cluster
	Ways    Ways
}

// NewCrowdScene starts the processes, with stores of this scheme.
func (c *Cluster) NewCrowdScene(t *testing.T, scheme string) *CrowdScene {
	t.Helper()
	s := &CrowdScene{Scene: NewScene(t), Cluster: c, Ways: NewWays(t, c.Endpoints)}
	urls := []string{c.URL(scheme, c.SessionTTL, s.Ways.Addrs()...)}
	for range crowdProcesses - 1 {
		urls = append(urls, c.URL(scheme, c.SessionTTL, c.Endpoints...))
	}
	s.Start(contend.Plan{URLs: urls, Goroutines: crowdGoroutines, LongHold: 2 * c.SessionTTL})
	s.Strikes = s.NewStrikes(urls[0], urls[1])
	Await(t, "the servers have what the crowd holds", func() bool { return len(c.Left(t)) > 0 })
	return s
}

// A Fault is something that happens while a crowd contends.
type Fault struct {
	Name   string
	Strike func(*CrowdScene)
}

// ServerFaults are those of servers.
var ServerFaults = []Fault{
	{"leader killed and started again", (*CrowdScene).KillLeader},
	{"follower stopped and resumed", (*CrowdScene).PauseFollower},
	{"majority stopped and resumed", (*CrowdScene).PauseMajority},
	{"servers restarted one after another", func(s *CrowdScene) { s.Must(s.Cluster.RestartEach()) }},
	{"all servers killed and started again", func(s *CrowdScene) { s.Must(s.Cluster.Restart(true)) }},
}

// ClientFaults are those of connections, and that of a process, which comes last.
var ClientFaults = []Fault{
	{"silence", (*CrowdScene).Silence},
	{"late requests", func(s *CrowdScene) { s.late(proxy.Requests) }},
	{"late responses", func(s *CrowdScene) { s.late(proxy.Down) }},
	{"connections killed", (*CrowdScene).KillConnections},
	{"kill -9", func(s *CrowdScene) { s.Must(s.Crowd.Kill(0)) }},
}

// TestFaults has faults strike one after the other while 16 goroutines contend. Through every fault believed holds
// exclude each other and tokens rise. After each, every goroutine acquires a lock again. Failing and slow match the
// errors of servers that are down, and of servers that are slow, which on a busy machine needs no fault.
func (c *Cluster) TestFaults(t *testing.T, failing, slow *regexp.Regexp, faults []Fault) {
	t.Helper()
	s := c.NewCrowdScene(t, c.Scheme)
	for _, f := range faults {
		s.Strike(f.Name, func() { f.Strike(s) })
	}
	outcome := s.Stop()
	s.Must(s.Close())
	s.CheckErrors(outcome, Excuse{Effect: MustHurt, Trouble: failing, Slow: slow, Lost: s.Lost})
	CheckNothing(s, outcome.Findings())
}

// TestFaultsAreSeen has a store that is broken meet the silence. The checkers see two holders at once.
func (c *Cluster) TestFaultsAreSeen(t *testing.T) {
	t.Helper()
	s := c.NewCrowdScene(t, c.Believer)
	s.Strike("silence", s.Silence)
	if len(check.Overlap(s.Stop().Holds)) == 0 {
		s.Error("two hold at once, and nothing is found")
	}
	s.Must(s.Close())
}

// KillLeader kills the leader, and starts it again when every goroutine has acquired a lock without it.
func (s *CrowdScene) KillLeader() {
	s.Helper()
	killed, err := s.Cluster.Leader()
	s.Must(err)
	s.Must(killed.Kill())
	s.Through()
	s.Must(killed.Start())
	s.Must(killed.AwaitHealthy())
}

// PauseFollower pauses a follower until no earlier session lives any more. Meanwhile every goroutine acquires a lock.
func (s *CrowdScene) PauseFollower() {
	s.Helper()
	s.pause(s.follower())
}

// PauseMajority pauses the leader and a follower until no earlier session lives any more.
func (s *CrowdScene) PauseMajority() {
	s.Helper()
	leader, err := s.Cluster.Leader()
	s.Must(err)
	s.pause(s.follower(), leader)
}

func (s *CrowdScene) follower() Node {
	s.Helper()
	leader, err := s.Cluster.Leader()
	s.Must(err)
	for _, node := range s.Cluster.Nodes {
		if node != leader {
			return node
		}
	}
	s.Fatal("there is no follower")
	return nil
}

func (s *CrowdScene) pause(nodes ...Node) {
	s.Helper()
	s.Must(forAll(nodes, Node.Pause))
	resume := time.After(s.Cluster.Expiry)
	if len(nodes) < 2 {
		s.Through()
	}
	<-resume
	s.Must(forAll(nodes, Node.Continue))
}

// Silence drops what the first process and the first client send and receive, until their sessions are over.
func (s *CrowdScene) Silence() {
	s.Helper()
	end := s.Ways.Silence(proxy.All)
	time.Sleep(2 * s.Cluster.Expiry) // the fault itself
	end()
}

// late holds back what the first process and the first client send or receive until their sessions are over, and
// delivers it then.
func (s *CrowdScene) late(flows proxy.Flow) {
	s.Helper()
	release := s.Ways.Hold(flows)
	time.Sleep(s.Cluster.Expiry) // the fault itself
	if s.Ways.Held(flows) == 0 {
		s.Error("nothing was held back")
	}
	release()
}

// KillConnections closes all connections of the first process and the first client, five times, each time when there
// are some.
func (s *CrowdScene) KillConnections() {
	s.Helper()
	for range 5 {
		Await(s, "the first process is connected", func() bool { return s.Ways.Connections() > 0 })
		for _, p := range s.Ways.Proxies {
			p.CloseAll()
		}
	}
}
