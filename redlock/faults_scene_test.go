package redlock_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/redlock"
)

// This binary is also the program of the processes that contend.
func init() { contend.Child() }

// Who contends.
const (
	crowdNodes      = 5
	crowdProcesses  = 4
	crowdGoroutines = 4
)

// crowdTTL is the ttl of the crowd's claims, and crowdTimeout how long a node may take to answer: more than it has by
// itself, for the same reason.
const (
	crowdTTL     = time.Second
	crowdTimeout = crowdTTL / 4
)

// recordKey is where a node has its record.
const recordKey = "holdfast:{}:redlock"

// Errors that say why there was no majority, and of what Redlock does not have, which the crowd asks for too.
var (
	explains = regexp.MustCompile(
		`[0-2] of 5 nodes succeeded.*(cannot be reached|no response in|has not responded|has no vote|have its vote back|connection was closed)`,
	)
	lacks = regexp.MustCompile(regexp.QuoteMeta(strings.TrimPrefix(holdfast.ErrUnsupported.Error(), "holdfast: ")))
)

// A scene is masters, processes that contend for their locks, and proxies on the way of each process to each master.
type scene struct {
	*testkit.Scene
	nodes  []*servers.RedisServer
	maxTTL time.Duration // for how long a node without its data has no vote
	ways   []testkit.Ways
}

// newScene starts masters that vote, and a crowd that has settled down.
func newScene(t *testing.T, maxTTL time.Duration, options ...servers.Option) *scene {
	t.Helper()
	s := &scene{Scene: testkit.NewScene(t), maxTTL: maxTTL}
	for range crowdNodes {
		s.nodes = append(s.nodes, servers.Redis(t, append(options, servers.Args("--appendonly", "no"))...))
	}
	_, err := redlock.Init(s.Within(), s.url())
	s.Must(err)
	plan := contend.Plan{Goroutines: crowdGoroutines, LongHold: 2 * crowdTTL}
	for range crowdProcesses {
		plan.URLs = append(plan.URLs, s.newWay(crowdTimeout))
	}
	s.Start(plan)
	return s
}

// newWay makes one more way to all nodes, and gives the store's URL by that way. By it, a node may take so long to
// answer.
func (s *scene) newWay(timeout time.Duration) string {
	s.Helper()
	ways := testkit.NewWays(s, addressesOf(s.nodes))
	s.ways = append(s.ways, ways)
	return urlOf(ways.Addrs(), s.maxTTL, timeout)
}

// urlOf is the store's URL where these are the nodes, or ways to them.
func urlOf(addresses []string, maxTTL, timeout time.Duration) string {
	return fmt.Sprintf("redlock://%s?ttl=%v&max-ttl=%v&node-timeout=%v", strings.Join(addresses, ","), crowdTTL, maxTTL,
		timeout)
}

func (s *scene) url() string {
	return urlOf(addressesOf(s.nodes), s.maxTTL, crowdTimeout)
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

// awaitVotes waits until all nodes vote.
func (s *scene) awaitVotes() {
	s.Helper()
	var nodes []redlock.NodeHealth
	if !testkit.Soon(testkit.ScenePatience, func() bool {
		var err error
		nodes, err = redlock.Status(s.Within(), s.url())
		s.Must(err)
		return allVote(nodes)
	}) {
		s.Fatalf("not all nodes vote: %+v", nodes)
	}
}

// newWitness is a journal of a lock in the crowd's folder. Its client has a way of its own and the longest ttl that
// there is. A node has a good part of it to answer: how busy the machine is must not end what a witness believes.
func (s *scene) newWitness(name string) *testkit.Hold {
	s.Helper()
	j := testkit.NewJournal(s.T, s.Dir, name)
	j.Retry = true // on a busy machine nodes may be late, as for the crowd
	return j.Take(j.Open(s.newWay(s.maxTTL/4), holdfast.WithTTL(s.maxTTL)))
}

// overlaps is what has been found so far of two that hold at once.
func (s *scene) overlaps() (found []check.Finding) {
	s.Helper()
	holds, err := history.ReadDir(s.Dir)
	s.Must(err)
	for _, f := range check.Overlap(holds) {
		if f.Rule == check.Exclusion {
			found = append(found, f)
		}
	}
	return found
}

// end stops the crowd and checks what came of it: no two hold at once, tokens rise, nobody met an error that a fault
// does not explain, and nothing is left at the nodes but what they know of themselves.
func (s *scene) end() {
	s.Helper()
	outcome := s.Stop()
	s.CheckErrors(outcome, testkit.Excuse{Trouble: explains, Absent: lacks})
	testkit.CheckNothing(s, outcome.Findings())
	// The last claim is out a ttl after the crowd has ended, and what remembers it a max-ttl later.
	testkit.CheckNothingLeft(s, crowdTTL+s.maxTTL, func() (left []string) {
		for _, node := range s.nodes {
			for _, key := range do(s, node, "KEYS", "*").([]any) {
				if key != recordKey && key != recordKey+":id" {
					left = append(left, fmt.Sprint(key, " at ", node.Addr()))
				}
			}
		}
		return left
	})
}
