package etcdstore_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/store"
)

// This binary is also the program of the processes that contend, and of those that hold a lock until something happens
// to them.
func init() {
	testkit.RegisterBroken(believerScheme, "etcd", testkit.Believer)
	testkit.RegisterBroken(optimistScheme, "etcd", func(s store.Store) store.Store { return &optimist{Store: s} })
	contend.Child()
	testkit.HolderChild(writeLate)
}

// How many contend.
const (
	crowdProcesses  = 4
	crowdGoroutines = 4
)

// A scene is three etcd servers and processes that contend for their locks. The first process has ways of its own.
type scene struct {
	*testkit.Scene
	cluster *servers.EtcdServers
	client  *clientv3.Client
	ways    testkit.Ways
	sitters *sitters
	struck  history.Instant // when the fault began
	led     float64         // how often leaders had changed by then
}

// newScene starts servers and a crowd that has settled down. Scheme is that of the store.
func newScene(t *testing.T, scheme string) *scene {
	t.Helper()
	s := &scene{Scene: testkit.NewScene(t), cluster: servers.EtcdCluster(t, 3)}
	s.client = s.cluster.Client(t)
	s.ways = testkit.NewWays(t, s.cluster.Endpoints())
	urls := []string{storeURL(scheme, sessionTTL, s.ways.Addrs()...)}
	for range crowdProcesses - 1 {
		urls = append(urls, storeURL(scheme, sessionTTL, s.cluster.Endpoints()...))
	}
	s.Start(contend.Plan{URLs: urls, Goroutines: crowdGoroutines, LongHold: 2 * sessionTTL})
	s.sitters = newSitters(t, s.Dir, urls[0], urls[1])
	return s
}

// storeURL returns the URL of a store.
func storeURL(scheme string, ttl time.Duration, endpoints ...string) string {
	return fmt.Sprintf("%s://%s?ttl=%v", scheme, strings.Join(endpoints, ","), ttl)
}

// strike does something to the servers or the processes while the first sitter holds.
func (s *scene) strike(do func(s *scene)) {
	s.Helper()
	s.sitters.stay(s.T, 1)
	if len(leftIn(s.T, s.client)) == 0 {
		s.Error("all hold and wait, and nothing is seen of it in etcd")
	}
	s.struck, s.led = history.Now(), leaderChanges(s.cluster.Nodes)
	do(s)
	s.sitters.goOn()
}

// Errors of servers that are away, and of ones that are slow: on a busy machine that needs no fault.
var (
	inTrouble = regexp.MustCompile(
		"cannot be reached|error reading server preface|no leader|lost its leader|another leader|decision in time",
	)
	isSlow = regexp.MustCompile("no response in|context deadline exceeded")
)

// end stops the crowd and checks what came of it: its errors, that no two held at once, and that tokens rise.
func (s *scene) end(of testkit.Effect) {
	s.Helper()
	s.sitters.end()
	outcome := s.Stop()
	if of == testkit.Harmless && leaderChanges(s.cluster.Nodes) != s.led {
		s.Log("a server was not heard for too long, by itself: that explains what calls say of it")
		of = testkit.MayHurt
	}
	s.CheckErrors(outcome,
		testkit.Excuse{Effect: of, Trouble: inTrouble, Slow: isSlow, Lost: int(s.sitters.lost.Load())})
	testkit.CheckNothing(s, outcome.Findings())
	s.wouldShow(outcome.Holds)
}

// leaderChanges is how often the servers that can be asked have found a leader, or lost and found it again.
func leaderChanges(nodes []*servers.EtcdServer) (changes float64) {
	for _, node := range nodes {
		if metrics, err := node.Metrics(); err == nil {
			changes += metrics["etcd_server_leader_changes_seen_total"]
		}
	}
	return changes
}

// wouldShow demands that the checkers see what these holds would be with one mistake in them: somebody who held when
// the fault struck, or was the last before it, believes until the next has begun; or has the next one's token. So the
// holds are worth checking.
func (s *scene) wouldShow(holds []history.Hold) {
	s.Helper()
	lasts := map[string]int{} // by resource, the last before the fault
	for next, h := range holds {
		last, known := lasts[h.Resource]
		switch {
		case h.Kind != history.Exclusive || h.Resource != satOn && !strings.HasPrefix(h.Resource, "mutex "):
			continue
		case h.Begin < s.struck:
			lasts[h.Resource] = next
			continue
		case !known:
			continue
		}
		longer, swapped := slices.Clone(holds), slices.Clone(holds)
		longer[last].End = holds[next].Begin + 1
		swapped[last].Token, swapped[next].Token = holds[next].Token, holds[last].Token
		if len(check.Overlap(longer)) == 0 || len(check.Tokens(swapped)) == 0 {
			s.Errorf("the checkers do not see a mistake in %v and %v", holds[last], holds[next])
		}
		return
	}
	s.Error("nobody has held a lock before the fault that another held after it")
}

// nothingIsLeft waits until etcd has nothing but the store's identity, and besides. Leases of processes that were
// killed expire first, with this ttl, and etcd looks for that twice a second.
func nothingIsLeft(t *testing.T, client *clientv3.Client, ttl time.Duration, besides ...string) {
	t.Helper()
	testkit.CheckNothingLeft(t, 2*ttl, func() []string {
		return slices.DeleteFunc(leftIn(t, client), func(key string) bool { return slices.Contains(besides, key) })
	})
}

// leftIn is which keys and leases there are in etcd, but for the store's identity.
func leftIn(t *testing.T, client *clientv3.Client) (left []string) {
	t.Helper()
	ctx, cancel := patience()
	defer cancel()
	keys, err := client.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	testkit.Must(t, err)
	for _, kv := range keys.Kvs {
		if string(kv.Key) != "holdfast//id" {
			left = append(left, string(kv.Key))
		}
	}
	leases, err := client.Leases(ctx)
	testkit.Must(t, err)
	for _, lease := range leases.Leases {
		left = append(left, fmt.Sprintf("lease %x", lease.ID))
	}
	return left
}
