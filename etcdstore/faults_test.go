package etcdstore_test

import (
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// A fault is something that happens while a crowd contends.
type fault struct {
	name   string
	strike func(s *scene)
	effect testkit.Effect
}

// longerThanTTL is how long something lasts so that no lease outlives it.
const longerThanTTL = sessionTTL * 3 / 2

// TestFaults is the table of docs/guarantees.md. Through every fault believed holds exclude each other and tokens rise.
// After it everyone gets a lock again, and at the end nothing is left.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{
		{name: "leader killed and started again", strike: (*scene).killLeader},
		{name: "follower stopped and resumed", strike: func(s *scene) { s.pause(s.followers()[:1]) }},
		{name: "leader stopped and resumed", strike: func(s *scene) { s.pause([]*servers.EtcdServer{s.leader()}) }},
		{name: "majority stopped and resumed", effect: testkit.MustHurt,
			strike: func(s *scene) { s.pause(s.followers()) }},
		{name: "all servers killed and started again", strike: func(s *scene) { s.Must(s.cluster.Restart(true)) }},
		{name: "compactions", effect: testkit.Harmless, strike: (*scene).compact},
		{name: "one client in silence", effect: testkit.MustHurt, strike: (*scene).silence},
		{name: "late requests", effect: testkit.MustHurt, strike: func(s *scene) { s.late(proxy.Requests) }},
		{name: "late answers", effect: testkit.MustHurt, strike: func(s *scene) { s.late(proxy.Down) }},
		{name: "connections killed", strike: (*scene).killConnections},
		{name: "kill -9 of a process", effect: testkit.Harmless, strike: func(s *scene) { s.Must(s.Crowd.Kill(0)) }},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, "etcd")
			s.strike(f.strike)
			s.Through()
			s.end(f.effect)
			nothingIsLeft(t, s.client, sessionTTL)
		})
	}
}

// TestFaultsAreSeen lets stores that are broken meet the same faults. The checkers see it. Whether anybody gets a lock
// from such a store afterwards is not asked.
func TestFaultsAreSeen(t *testing.T) {
	t.Parallel()
	for scheme, strike := range map[string]func(*scene){
		optimistScheme: (*scene).beWithoutLeader,
		believerScheme: (*scene).silence,
	} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, scheme)
			s.strike(strike)
			s.sitters.end()
			outcome := s.Stop()
			if len(check.Overlap(outcome.Holds)) == 0 {
				t.Errorf("no two of %d holds overlap", len(outcome.Holds))
			}
		})
	}
}

// killLeader kills the leader, and starts it again when everyone has got a lock without it.
func (s *scene) killLeader() {
	s.Helper()
	leader := s.leader()
	s.Must(leader.Kill())
	s.Through()
	s.Must(leader.Start())
}

// beWithoutLeader kills the leader, and starts it again when every claim was kept without it, or not.
func (s *scene) beWithoutLeader() {
	s.Helper()
	leader := s.leader()
	s.Must(leader.Kill())
	time.Sleep(sessionTTL) // that is the fault
	s.Must(leader.Start())
}

// silence swallows what the first process and the first sitter say and hear.
func (s *scene) silence() {
	s.Helper()
	end := s.ways.Silence(proxy.All)
	time.Sleep(3 * sessionTTL) // that is the fault; etcd may need twice the ttl on a busy machine
	end()
}

// late keeps back what the first process and the first sitter say or hear until their claims have expired, and delivers
// it then.
func (s *scene) late(flows proxy.Flow) {
	s.Helper()
	release := s.ways.Hold(flows)
	time.Sleep(2 * sessionTTL) // that is the fault
	if s.ways.Held(flows) == 0 {
		s.Error("nothing was kept back")
	}
	release()
}

// killConnections ends all connections of the first process and the first sitter, again and again, each time when they
// are all there.
func (s *scene) killConnections() {
	s.Helper()
	for range 5 {
		for _, p := range s.ways.Proxies {
			testkit.Await(s, "both are connected", func() bool { return p.Connections() >= 2 })
		}
		for _, p := range s.ways.Proxies {
			p.CloseAll()
		}
	}
}

// compact compacts again and again, each time when something has happened since.
func (s *scene) compact() {
	s.Helper()
	last := int64(0)
	for range 20 {
		testkit.Await(s, "something has happened", func() bool {
			answer, err := s.client.Get(s.Context(), "compact")
			s.Must(err)
			if answer.Header.Revision == last {
				return false
			}
			last = answer.Header.Revision
			return true
		})
		_, err := s.client.Compact(s.Context(), last, clientv3.WithCompactPhysical())
		s.Must(err)
	}
}

func (s *scene) leader() *servers.EtcdServer {
	s.Helper()
	leader, err := s.cluster.Leader()
	s.Must(err)
	return leader
}

// followers are the two that do not lead.
func (s *scene) followers() (followers []*servers.EtcdServer) {
	s.Helper()
	leader := s.leader()
	for _, node := range s.cluster.Nodes {
		if node != leader {
			followers = append(followers, node)
		}
	}
	return followers
}

// pause stops servers for longer than the ttl. If the others are a majority, everyone gets a lock meanwhile.
func (s *scene) pause(nodes []*servers.EtcdServer) {
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
