package consulstore_test

import (
	"context"
	"regexp"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/store"
)

// believerScheme is that of a store that is broken: see testkit.Believer.
const believerScheme = "consul+believer"

// This binary is also the program of the processes that contend, and of those that hold a lock until something happens
// to them.
func init() {
	store.Register(believerScheme, func(ctx context.Context, at store.Location) (store.Store, error) {
		at.Scheme = "consul"
		s, err := store.Open(ctx, at)
		if err != nil {
			return nil, err
		}
		return testkit.Believer(s), nil
	})
	contend.Child()
	testkit.HolderChild()
}

// How many contend.
const (
	crowdProcesses  = 4
	crowdGoroutines = 4
)

// A scene is servers and processes that contend for their locks, for milliseconds each. The first process, and the
// client that holds when a fault strikes, have ways of their own.
type scene struct {
	*testkit.Scene
	*testkit.Strikes
	cluster *servers.ConsulServers
	ways    testkit.Ways
}

// newScene starts n servers and a crowd that has settled down.
func newScene(t *testing.T, scheme string, n int) *scene {
	t.Helper()
	s := &scene{Scene: testkit.NewScene(t), cluster: newCluster(t, n)}
	s.ways = testkit.NewWays(t, s.cluster.Endpoints())
	urls := []string{storeURL(scheme, sessionTTL, s.ways.Addrs()...)}
	for range crowdProcesses - 1 {
		urls = append(urls, storeURL(scheme, sessionTTL, s.cluster.Endpoints()...))
	}
	s.Start(contend.Plan{URLs: urls, Goroutines: crowdGoroutines, LongHold: 2 * sessionTTL})
	s.Strikes = s.NewStrikes(urls[0], urls[1])
	testkit.Await(t, "what the crowd holds is seen in the servers", func() bool { return len(leftIn(t, s.cluster)) > 0 })
	return s
}

// Errors of servers that are away, and of ones that are slow: on a busy machine that needs no fault.
var (
	inTrouble = regexp.MustCompile("cannot be reached|EOF|reset by peer|leader|consistent reads|rpc error|raft|" +
		"deadline reached|No known Consul servers|shutdown")
	isSlow = regexp.MustCompile("no answer in|no response|changes too fast|not sure")
)

// end stops the crowd and checks what came of it: its errors, that no two held at once, and that tokens rise.
func (s *scene) end(of testkit.Effect) {
	s.Helper()
	outcome := s.Stop()
	s.Must(s.Close())
	s.CheckErrors(outcome, testkit.Excuse{Effect: of, Trouble: inTrouble, Slow: isSlow, Lost: s.Lost})
	testkit.CheckNothing(s, outcome.Findings())
}
