package mysql_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/contend"
)

// newFailoverScene starts a primary with a replica, and a crowd that knows both.
func newFailoverScene(t *testing.T, semiSync bool) (s *scene, replica *servers.MariaDBServer) {
	t.Helper()
	s = &scene{Scene: testkit.NewScene(t), harness: newHarness(t), ttl: crowdTTL}
	replica = s.server.Replica(t)
	if semiSync {
		s.Must(s.server.SemiSync(true))
	}
	urls := make([]string, crowdProcesses)
	for i := range urls {
		urls[i] = fmt.Sprintf("mysql://root@%s,%s/%s?ttl=%v", s.server.Addr(), replica.Addr(), database, s.ttl)
	}
	s.Scene.Start(contend.Plan{URLs: urls, Goroutines: crowdGoroutines, LongHold: s.ttl * 3 / 2})
	return s, replica
}

// failOver kills the primary and promotes the replica.
func (s *scene) failOver(replica *servers.MariaDBServer) {
	s.Helper()
	s.Must(s.server.Kill())
	s.Must(replica.Promote())
	s.harness = &harness{server: replica, db: replica.DB(s)}
}

// TestFailoverSemiSync: a replica has received all that its primary has acknowledged. When it takes over, nothing is
// lost.
func TestFailoverSemiSync(t *testing.T) {
	t.Parallel()
	s, replica := newFailoverScene(t, true)
	s.failOver(replica)
	s.Through()
	s.end(testkit.MayHurt)
}

// TestFailoverAsync: a replica takes over that has missed what its primary has acknowledged last. Until their leases
// are over, holders of before may hold beside those of after. Before and later nothing is broken.
func TestFailoverAsync(t *testing.T) {
	t.Parallel()
	s, replica := newFailoverScene(t, false)
	s.Must(replica.AwaitCaughtUp())
	s.Must(replica.StopReplication())
	s.Through() // which the replica misses
	s.losing(func() { s.failOver(replica) })
	s.Through()
	s.end(testkit.MayHurt)
}
