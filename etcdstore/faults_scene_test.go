package etcdstore_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/lab/history"
)

// This binary is also the program of the processes that contend, and of those that hold a lock until something happens to
// them.
func init() {
	registerBroken()
	contend.Child()
	holderChild()
}

// How many contend, and how long it may take until all have got a lock.
const (
	crowdProcesses  = 4
	crowdGoroutines = 4
	faultPatience   = time.Minute
)

// A scene is three etcd servers and processes that contend for their locks. The first process has ways of its own.
type scene struct {
	*testing.T
	cluster *servers.EtcdServers
	client  *clientv3.Client
	ways    ways
	crowd   *contend.Crowd
	sitters *sitters
	struck  history.Instant // when the fault began
	led     float64         // how often leaders had changed by then
}

// newScene starts servers and a crowd that has settled down. Scheme is that of the store.
func newScene(t *testing.T, scheme string) *scene {
	t.Helper()
	s := &scene{T: t, cluster: servers.EtcdCluster(t, 3)}
	s.client = s.cluster.Client(t)
	s.ways = newWays(t, s.cluster.Endpoints())
	urls := []string{storeURL(scheme, s.ways.addrs(), sessionTTL)}
	for range crowdProcesses - 1 {
		urls = append(urls, storeURL(scheme, s.cluster.Endpoints(), sessionTTL))
	}
	dir := evidence(t)
	var err error
	plan := contend.Plan{Dir: dir, URLs: urls, Goroutines: crowdGoroutines, LongHold: 2 * sessionTTL}
	if s.crowd, err = contend.Start(s.within(), plan); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.must(s.crowd.Close()) })
	s.sitters = newSitters(t, dir, urls[0], urls[1])
	s.through()
	return s
}

func storeURL(scheme string, endpoints []string, ttl time.Duration) string {
	return fmt.Sprintf("%s://%s?ttl=%v", scheme, strings.Join(endpoints, ","), ttl)
}

// evidence is a folder that stays if the test fails.
func evidence(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-faults-") //nolint:usetesting // it must outlive a test that fails
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the histories are kept: %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) within() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), faultPatience)
	s.Cleanup(cancel)
	return ctx
}

// through waits until every goroutine has got a lock that it asked for from now on.
func (s *scene) through() {
	s.Helper()
	began := time.Now()
	if err := s.crowd.Through(s.within()); err != nil {
		outcome, stopped := s.crowd.Stop(s.within())
		s.Fatalf("%v\nstopped: %v\nreports: %+v", err, stopped, outcome.Reports)
	}
	s.Logf("all are through after %v", time.Since(began).Round(time.Millisecond))
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

// An effect is what a fault does to those who contend.
type effect int

const (
	mayHurt  effect = iota // calls may fail
	mustHurt               // calls fail, or leases are lost
	harmless               // no call fails because of it
)

// end stops the crowd and checks what came of it.
func (s *scene) end(of effect) *contend.Outcome {
	s.Helper()
	s.sitters.end()
	outcome, err := s.crowd.Stop(s.within())
	s.must(err)
	total := outcome.Total()
	total.Lost += int(s.sitters.lost.Load())
	s.Logf("%d acquired, %d lost, %d kinds of faults, %d holds", total.Acquired, total.Lost, len(total.Faults), len(outcome.Holds))
	if of == mustHurt && total.Lost+len(total.Faults) == 0 {
		s.Error("nobody has felt the fault")
	}
	if of == harmless && leaderChanges(s.cluster.Nodes) != s.led {
		s.Log("a server was not heard for too long, by itself: that explains what calls say of it")
		of = mayHurt
	}
	for text, n := range total.Faults {
		s.Logf("%d times: %s", n, text)
		// On a machine that is busy this needs no fault.
		slow := strings.Contains(text, "no answer in") || strings.Contains(text, "context deadline exceeded")
		if !slow && (of == harmless || !inTrouble(text)) {
			s.Errorf("an error that the fault does not explain, %d times: %s", n, text)
		}
	}
	for text, n := range total.Wrong {
		s.Errorf("an error that must not be, %d times: %s", n, text)
	}
	return outcome
}

// inTrouble says whether an error tells of servers that are away, and not of some that do not understand.
func inTrouble(text string) bool {
	return slices.ContainsFunc([]string{"cannot be reached", "error reading server preface", "no leader", "lost its leader", "another leader", "decision in time"},
		func(trouble string) bool { return strings.Contains(text, trouble) })
}

// excludes demands that no two held at once and that tokens rise.
func (s *scene) excludes(outcome *contend.Outcome) {
	s.Helper()
	findings := outcome.Findings()
	for i, finding := range findings {
		if i == 5 {
			s.Errorf("and %d more", len(findings)-i)
			break
		}
		s.Error(finding)
	}
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

// wouldShow demands that the checkers see what these holds would be with one mistake in them: somebody who held when the
// fault struck, or was the last before it, believes until the next has begun; or has the next one's token. So the holds
// are worth checking.
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

// nothingIsLeft waits until etcd has nothing but the store's identity. Leases of those who were killed run out first, with
// this ttl, and etcd looks for that twice a second.
func nothingIsLeft(t *testing.T, client *clientv3.Client, ttl time.Duration) {
	t.Helper()
	deadline := time.Now().Add(2*ttl + 10*time.Second)
	for {
		left := leftIn(t, client)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("all have ended, two ttls have passed, and this is left: %q", left)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// leftIn is which keys and leases there are in etcd, but for the store's identity.
func leftIn(t *testing.T, client *clientv3.Client) (left []string) {
	t.Helper()
	ctx, cancel := patience()
	defer cancel()
	keys, err := client.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range keys.Kvs {
		if string(kv.Key) != "holdfast//id" {
			left = append(left, string(kv.Key))
		}
	}
	leases, err := client.Leases(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range leases.Leases {
		left = append(left, fmt.Sprintf("lease %x", lease.ID))
	}
	return left
}
