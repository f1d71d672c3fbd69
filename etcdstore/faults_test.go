package etcdstore_test

import (
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// A fault is something that happens while a crowd contends.
type fault struct {
	name   string
	strike func(s *scene)
	effect effect
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
		{name: "majority stopped and resumed", effect: mustHurt, strike: func(s *scene) { s.pause(s.followers()) }},
		{name: "all servers killed and started again", strike: func(s *scene) { s.must(s.cluster.Restart(true)) }},
		{name: "compactions", effect: harmless, strike: (*scene).compact},
		{name: "one client in silence", effect: mustHurt, strike: (*scene).silence},
		{name: "late requests", effect: mustHurt, strike: func(s *scene) { s.late(proxy.Requests) }},
		{name: "late answers", effect: mustHurt, strike: func(s *scene) { s.late(proxy.Down) }},
		{name: "connections killed", strike: (*scene).killConnections},
		{name: "kill -9 of a process", effect: harmless, strike: func(s *scene) { s.must(s.crowd.Kill(0)) }},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, "etcd")
			s.strike(f.strike)
			s.through()
			s.excludes(s.end(f.effect))
			nothingIsLeft(t, s.client, sessionTTL)
		})
	}
}

// TestFaultsAreSeen lets stores that are broken meet the same faults. The checkers see it. Whether anybody gets a lock from
// such a store afterwards is not asked.
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
			outcome, err := s.crowd.Stop(s.within())
			s.must(err)
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
	s.must(leader.Kill())
	s.through()
	s.must(leader.Start())
}

// beWithoutLeader kills the leader, and starts it again when every claim was kept without it, or not.
func (s *scene) beWithoutLeader() {
	s.Helper()
	leader := s.leader()
	s.must(leader.Kill())
	time.Sleep(sessionTTL) // that is the fault
	s.must(leader.Start())
}

// silence swallows what the first process and the first sitter say and hear.
func (s *scene) silence() {
	s.Helper()
	end := s.ways.silence(proxy.All)
	time.Sleep(3 * sessionTTL) // that is the fault; etcd may need twice the ttl on a busy machine
	end()
}

// late keeps back what the first process and the first sitter say or hear until their claims have run out, and delivers it
// then.
func (s *scene) late(flows proxy.Flow) {
	s.Helper()
	release := s.ways.hold(flows)
	time.Sleep(2 * sessionTTL) // that is the fault
	if s.ways.held(flows) == 0 {
		s.Error("nothing was kept back")
	}
	release()
}

// killConnections ends all connections of the first process and the first sitter, again and again, each time when they are
// all there.
func (s *scene) killConnections() {
	s.Helper()
	for range 5 {
		for _, p := range s.ways {
			await(s, "both are connected", func() bool { return p.Connections() >= 2 })
		}
		for _, p := range s.ways {
			p.CloseAll()
		}
	}
}

// compact compacts again and again, each time when something has happened since.
func (s *scene) compact() {
	s.Helper()
	last := int64(0)
	for range 20 {
		await(s, "something has happened", func() bool {
			answer, err := s.client.Get(s.Context(), "compact")
			s.must(err)
			if answer.Header.Revision == last {
				return false
			}
			last = answer.Header.Revision
			return true
		})
		_, err := s.client.Compact(s.Context(), last, clientv3.WithCompactPhysical())
		s.must(err)
	}
}

func (s *scene) leader() *servers.EtcdServer {
	s.Helper()
	leader, err := s.cluster.Leader()
	s.must(err)
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
		s.must(node.Pause())
	}
	resume := time.After(longerThanTTL)
	if len(nodes) < 2 {
		s.through()
	}
	<-resume
	for _, node := range nodes {
		s.must(node.Continue())
	}
}
