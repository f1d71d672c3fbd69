package zkstore_test

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
const believerScheme = "zk+believer"

// This binary is also the program of the processes that contend, and of those that hold a lock until something happens
// to them.
func init() {
	store.Register(believerScheme, func(ctx context.Context, at store.Location) (store.Store, error) {
		at.Scheme = "zk"
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

// A scene is three servers and processes that contend for their locks, for milliseconds each. Beside them one client
// holds another lock whenever a fault strikes, and a second one waits for it. The first process and the first client
// have ways of their own.
type scene struct {
	*testkit.Scene
	*testkit.Strikes
	ensemble *servers.ZooKeeperServers
	ways     testkit.Ways
}

// newScene starts servers and a crowd that has settled down.
func newScene(t *testing.T, scheme string, options ...servers.Option) *scene {
	t.Helper()
	s := &scene{Scene: testkit.NewScene(t), ensemble: newEnsemble(t, tick, options...)}
	s.ways = testkit.NewWays(t, s.ensemble.Endpoints())
	urls := []string{storeURL(scheme, sessionTTL, s.ways.Addrs()...)}
	for range crowdProcesses - 1 {
		urls = append(urls, storeURL(scheme, sessionTTL, s.ensemble.Endpoints()...))
	}
	s.Start(contend.Plan{URLs: urls, Goroutines: crowdGoroutines, LongHold: 2 * sessionTTL})
	s.Strikes = s.NewStrikes(urls[0], urls[1])
	testkit.Await(t, "what the crowd holds is seen in the servers", func() bool { return len(leftIn(t, s.ensemble)) > 0 })
	return s
}

// Errors of servers that are away, and of ones that are slow: on a busy machine that needs no fault.
var (
	inTrouble = regexp.MustCompile("connection was closed|connection refused|no majority|reset by peer|EOF")
	isSlow    = regexp.MustCompile("no answer in|no connection|changes too fast|i/o timeout")
)

// end stops the crowd and checks what came of it: its errors, that no two held at once, and that tokens rise.
func (s *scene) end(of testkit.Effect) {
	s.Helper()
	outcome := s.Stop()
	s.Must(s.Close())
	s.CheckErrors(outcome, testkit.Excuse{Effect: of, Trouble: inTrouble, Slow: isSlow, Lost: s.Lost})
	testkit.CheckNothing(s, outcome.Findings())
}
