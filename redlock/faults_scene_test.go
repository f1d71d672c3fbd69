package redlock_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// This binary is also the program of the processes that contend.
func init() { contend.Child() }

// Who contends, and how long anything may take before it has failed: long, since all of the nodes and processes may share two
// cores with other tests.
const (
	crowdNodes      = 5
	crowdProcesses  = 4
	crowdGoroutines = 4
	crowdPatience   = time.Minute
)

// crowdTTL is the ttl of the crowd's claims, and crowdTimeout how long a node may take to answer: more than it has by itself,
// for the same reason.
const (
	crowdTTL     = time.Second
	crowdTimeout = crowdTTL / 4
)

// recordKey is where a node has its record.
const recordKey = "holdfast:{}:redlock"

// explains matches a fault of the crowd that says why there was no majority.
var explains = regexp.MustCompile(`[0-2] of 5 nodes answered .*(cannot be reached|no answer in|has not answered|has no vote|getting its vote back|connection was closed)`)

// A scene is masters, processes that contend for their locks, and proxies on the way of each process to each master.
type scene struct {
	*testing.T
	nodes  []*servers.RedisServer
	maxTTL time.Duration // for how long a node without its data has no vote
	ways   [][]*proxy.Proxy
	dir    string // of the histories
	crowd  *contend.Crowd
}

// newScene starts masters that vote, and a crowd that has settled down.
func newScene(t *testing.T, maxTTL time.Duration, options ...servers.Option) *scene {
	t.Helper()
	s := &scene{T: t, maxTTL: maxTTL, dir: evidence(t)}
	for range crowdNodes {
		s.nodes = append(s.nodes, servers.Redis(t, append(options, servers.Args("--appendonly", "no"))...))
	}
	_, err := redlock.Init(s.within(), s.location())
	s.must(err)
	plan := contend.Plan{Dir: s.dir, Goroutines: crowdGoroutines, LongHold: 2 * crowdTTL}
	for range crowdProcesses {
		plan.URLs = append(plan.URLs, s.newWay(crowdTimeout))
	}
	if s.crowd, err = contend.Start(s.within(), plan); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.must(s.crowd.Close()) })
	s.through()
	return s
}

// newWay makes one more way to all nodes, and gives the store's URL by that way. By it, a node may take so long to answer.
func (s *scene) newWay(timeout time.Duration) string {
	s.Helper()
	var ways []*proxy.Proxy
	for _, node := range s.nodes {
		way, err := proxy.Start("tcp", node.Addr())
		s.must(err)
		s.Cleanup(func() { way.Close() })
		ways = append(ways, way)
	}
	s.ways = append(s.ways, ways)
	return urlOf(ways, s.maxTTL, timeout)
}

// urlOf is the store's URL where these are the nodes, or ways to them.
func urlOf[N interface{ Addr() string }](nodes []N, maxTTL, timeout time.Duration) string {
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr())
	}
	return fmt.Sprintf("redlock://%s?ttl=%v&max-ttl=%v&timeout=%v", strings.Join(addrs, ","), crowdTTL, maxTTL, timeout)
}

func (s *scene) location() store.Location {
	s.Helper()
	at, err := store.ParseLocation(urlOf(s.nodes, s.maxTTL, crowdTimeout))
	s.must(err)
	return at
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
	ctx, cancel := context.WithTimeout(s.Context(), crowdPatience)
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

// vouch makes a node vote, whatever it has lost, by the record of one that always did: see node.lua.
func (s *scene) vouch(node *servers.RedisServer) error {
	info, err := node.Do("INFO", "server")
	if err != nil {
		return err
	}
	_, run, _ := strings.Cut(info.(string), "run_id:")
	mark := time.Now().Add(time.Minute).UnixMicro()
	_, err = node.Do("SET", recordKey, fmt.Sprintf("1 %d %s v %d", s.maxTTL.Microseconds(), run[:12], mark))
	return err
}

// awaitVotes waits until so many nodes vote.
func (s *scene) awaitVotes(want int) {
	s.Helper()
	for ctx := s.within(); ; time.Sleep(10 * time.Millisecond) {
		nodes, err := redlock.Status(ctx, s.location())
		s.must(err)
		votes := 0
		for i := range nodes {
			if nodes[i].State == redlock.Voting {
				votes++
			}
		}
		if votes == want {
			return
		}
		if ctx.Err() != nil {
			s.Fatalf("%d nodes vote, want %d: %+v", votes, want, nodes)
		}
	}
}

// A witness is one who holds a lock by a way of its own, and writes down how long it believes so, as the crowd does.
type witness struct {
	*scene
	ways     []*proxy.Proxy
	recorder *history.Recorder
	lease    *holdfast.Lease
	belief   *history.Belief
}

// newWitness takes the lock of this name, with the longest ttl that there is. A node has a good part of it to answer: how busy
// the machine is must not end what a witness believes.
func (s *scene) newWitness(name string) *witness {
	s.Helper()
	locks, err := holdfast.Open(s.within(), s.newWay(s.maxTTL/4), holdfast.TTL(s.maxTTL))
	s.must(err)
	s.Cleanup(func() { locks.Close() })
	w := &witness{scene: s, ways: s.ways[len(s.ways)-1]}
	w.recorder, err = history.Create(s.dir, "witness")
	s.must(err)
	s.Cleanup(func() { s.must(w.recorder.Close()) })
	for ctx := s.within(); w.lease == nil; { // on a busy machine nodes may be late, as for the crowd
		if w.lease, err = locks.Mutex(name).Lock(ctx); store.Final(err) || ctx.Err() != nil {
			s.Fatal(err)
		}
	}
	hold := history.Hold{Resource: name, Kind: history.Exclusive, Token: w.lease.Token()}
	var ok bool
	if w.belief, ok = w.recorder.Begin(hold, func() bool { return w.lease.Err() == nil }); !ok {
		s.Fatalf("a lease that is over from its beginning: %v", w.lease.Err())
	}
	return w
}

// believe says whether it still believed after so long. It stops when it does not.
func (w *witness) believe(d time.Duration) bool {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if !w.belief.Check() {
			return false
		}
	}
	return true
}

// overlaps is what has been found so far of two that hold at once.
func (s *scene) overlaps() (found []check.Finding) {
	s.Helper()
	holds, err := history.ReadDir(s.dir)
	s.must(err)
	for _, f := range check.Overlap(holds) {
		if f.Rule == check.Exclusion {
			found = append(found, f)
		}
	}
	return found
}

// end stops the crowd and checks what came of it: no two hold at once, tokens rise, nobody met an error that a fault does
// not explain, and nothing is left at the nodes.
func (s *scene) end() (total contend.Report) {
	s.Helper()
	outcome, err := s.crowd.Stop(s.within())
	s.must(err)
	total = outcome.Total()
	s.Logf("%d acquired, %d lost, %d kinds of faults, %d holds", total.Acquired, total.Lost, len(total.Faults), len(outcome.Holds))
	for text, n := range total.Faults {
		if !explains.MatchString(text) {
			s.Errorf("an error that does not say what is wrong, %d times: %s", n, text)
		}
	}
	unsupported := strings.TrimPrefix(holdfast.ErrUnsupported.Error(), "holdfast: ")
	for text, n := range total.Wrong {
		if !strings.Contains(text, unsupported) { // the crowd also asks for what Redlock does not have
			s.Errorf("an error that must not be, %d times: %s", n, text)
		}
	}
	for i, finding := range outcome.Findings() {
		if i == 5 {
			s.Error("and more")
			break
		}
		s.Error(finding)
	}
	s.nothingIsLeft()
	return total
}

// nothingIsLeft waits until the nodes have nothing but what they know of themselves. The last claim is out a ttl after the
// crowd has ended, and what remembers it a max-ttl later.
func (s *scene) nothingIsLeft() {
	s.Helper()
	deadline := time.Now().Add(crowdTTL + s.maxTTL + 10*time.Second)
	for _, node := range s.nodes {
		for {
			keys, err := node.Do("KEYS", "*")
			s.must(err)
			left := slices.DeleteFunc(keys.([]any), func(key any) bool { return key == recordKey || key == recordKey+":id" })
			if len(left) == 0 {
				break
			}
			if time.Now().After(deadline) {
				s.Fatalf("all have ended, and %s still has %q", node.Addr(), left)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}
