package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// sentinelURL is the URL of what these sentinels watch.
func sentinelURL(s *servers.RedisSentinelServers) string {
	return "redis+sentinel://" + strings.Join(s.Addrs(), ",") + "/" + s.MasterName
}

// calm is for tests in which a master is replaced only when they say so, however busy the machine is.
var calm = servers.DownAfter(time.Minute)

func TestStoreBySentinel(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Harness { return newSentinelHarness(t, calm) })
}

// newSentinelHarness starts servers that sentinels watch. Where the suite restarts the server, another becomes the
// master.
func newSentinelHarness(t testing.TB, options ...servers.Option) *harness {
	t.Helper()
	s := servers.RedisSentinel(t, options...)
	return &harness{
		url:    sentinelURL(s),
		nodes:  s.Nodes,
		master: func(string) (*servers.RedisServer, error) { return s.Master() },
		restart: func(keepData bool) error {
			if err := s.AwaitHealthy(); err != nil {
				return err
			}
			master, err := s.Master()
			if err != nil {
				return err
			}
			if !keepData {
				if _, err := master.Do("FLUSHALL"); err != nil {
					return err
				}
			}
			if err := awaitReplicas(master, 2); err != nil {
				return err
			}
			if _, err = s.Failover(); err != nil {
				return err
			}
			return s.AwaitHealthy() // the old master serves until it has heard of it, and then hangs up
		},
	}
}

// failover makes another server the master, and waits until all is well again.
func failover(t *testing.T, s *servers.RedisSentinelServers) {
	t.Helper()
	_, err := s.Failover()
	testkit.Must(t, err)
	testkit.Must(t, s.AwaitHealthy())
}

// Each new master begins a minute ahead of the clock, and not of the one before.
func TestTicketsRiseThroughFailovers(t *testing.T) {
	t.Parallel()
	servers := servers.RedisSentinel(t, calm)
	s := openAt(t, sentinelURL(servers))
	last := draw(t, s)
	for i := range 3 {
		failover(t, servers)
		reach(t, s)
		ticket := draw(t, s)
		if ticket <= last {
			t.Errorf("after failover %d the ticket is %d, and before it was %d", i, ticket, last)
		}
		if ahead := time.Until(time.UnixMicro(int64(ticket))); ahead > 70*time.Second {
			t.Errorf("after failover %d the tickets are %v ahead of the clock, want a minute", i, ahead)
		}
		last = ticket
	}
}

// What was replicated is still there: who holds goes on holding, and who waits is told by the new master.
func TestClaimsSurviveFailover(t *testing.T) {
	t.Parallel()
	servers := servers.RedisSentinel(t, calm)
	s := openAt(t, sentinelURL(servers))
	told := testkit.Listen(s)
	holder, waiter := testkit.Held(t, s, claim("replicated")), testkit.Waiting(t, s, claim("replicated"))
	master, err := servers.Master()
	testkit.Must(t, err)
	acknowledged(t, master, 2)
	failover(t, servers)
	reach(t, s)
	testkit.Keep(t, s, holder, store.Held)
	testkit.AwaitTold(t, told, store.Everyone, "everyone is told to ask")
	testkit.Keep(t, s, waiter, store.Waiting)
	testkit.Leave(t, s, holder)
	testkit.AwaitTold(t, told, waiter.ID, "the waiter is told")
	testkit.Keep(t, s, waiter, store.Held)
}

// user lets somebody in who may do everything.
func user(t *testing.T, name string, at ...*servers.RedisServer) {
	t.Helper()
	for _, n := range at {
		do(t, n, "ACL", "SETUSER", name, "on", ">secret", "~*", "&*", "+@all")
	}
}

// shutOut lets a user in no more, and ends his connections. It gives a connection of another user, called me.
func shutOut(t *testing.T, at *servers.RedisServer, name string) *servers.Conn {
	t.Helper()
	mine, err := at.Dial()
	testkit.Must(t, err)
	t.Cleanup(func() { mine.Close() })
	for _, command := range []string{"AUTH me secret", "ACL SETUSER " + name + " off", "CLIENT KILL USER " + name} {
		_, err := mine.Do(strings.Fields(command)...)
		testkit.Must(t, err)
	}
	return mine
}

// mustReplace cuts a master off from its sentinels, who name another. It lives on and knows nothing of that, and the
// store must leave it all the same.
func mustReplace(t *testing.T, s *redisstore.Store, by *servers.RedisSentinelServers, old *servers.RedisServer) {
	t.Helper()
	mine := shutOut(t, old, "default") // that is who the sentinels are
	master, err := by.AwaitFailover(old)
	testkit.Must(t, err)
	testkit.Await(t, "a claim comes to the new master", func() bool {
		if _, err := s.Join(t.Context(), claim("left")); err != nil {
			checkFault(t, err, false)
			return false
		}
		n, err := master.Do("EXISTS", redisstore.KeysOf("", "left")[0])
		return err == nil && n == int64(1) // a sentinel may just have ended all connections there
	})
	if role, err := mine.Do("ROLE"); err != nil || role.([]any)[0] != "master" {
		t.Errorf("the old master says %v and %v, want that it is one still", role, err)
	}
}

// A client that hears of a new master leaves the old one, though it still answers.
func TestReplacedMasterIsLeft(t *testing.T) {
	t.Parallel()
	servers := servers.RedisSentinel(t)
	user(t, "me", servers.Nodes...)
	s := openAt(t, strings.Replace(sentinelURL(servers), "://", "://me:secret@", 1))
	mustReplace(t, s, servers, servers.Nodes[0])
}

// The same through a client that the caller provided, and follows the sentinels by itself.
func TestReplacedMasterIsLeftByClient(t *testing.T) {
	t.Parallel()
	servers := servers.RedisSentinel(t)
	user(t, "me", servers.Nodes...)
	client := newClient(t, rueidis.ClientOption{
		InitAddress: servers.Addrs(), Username: "me", Password: "secret",
		Sentinel: rueidis.SentinelOption{MasterSet: servers.MasterName},
	})
	s := newOf(t, client)
	mustReplace(t, s, servers, servers.Nodes[0])
}

// A sentinel that is cut off with the old master names that one forever. It is the first to be asked, and nobody
// believes it: neither who was there before, nor who comes later.
func TestStaleSentinelIsNotBelieved(t *testing.T) {
	t.Parallel()
	servers := servers.RedisSentinel(t)
	old, stale := servers.Nodes[0], servers.Sentinels[0]
	user(t, "me", append(servers.Nodes, servers.Sentinels...)...)
	url := strings.Replace(sentinelURL(servers), "://", "://me:secret@",
		1) + "?sentinel-user=me&sentinel-password=secret"
	s := openAt(t, url)
	// On the old master's side is one sentinel. The others are on that of the replicas. Who is not let in somewhere as
	// the user that he wants to be is there as the default user.
	user(t, "stale", old)
	user(t, "fresh", servers.Nodes[1:]...)
	for i, sentinel := range servers.Sentinels {
		do(t, sentinel, "SENTINEL", "SET", servers.MasterName, "auth-user", []string{"stale", "fresh", "fresh"}[i],
			"auth-pass", "secret")
	}
	for _, n := range servers.Nodes[1:] {
		do(t, n, strings.Fields("ACL SETUSER default resetchannels -multi -slaveof -replicaof")...)
		do(t, n, "CLIENT", "KILL", "USER", "default")
	}
	mine := shutOut(t, stale, "default") // that is who sentinels are to each other
	mustReplace(t, s, servers, old)
	later := openAt(t, url)
	line, err := later.Queue(t.Context(), "left")
	if err != nil || len(line.Entries) == 0 {
		t.Errorf("who comes later sees %v and %v", line.Entries, err)
	}
	if named, err := mine.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", servers.MasterName); err != nil ||
		fmt.Sprintf("%s:%s", named.([]any)...) != old.Addr() {
		t.Errorf("the sentinel that is cut off names %v and %v, want the old master", named, err)
	}
}

// One sentinel that is alive is enough, also if another takes connections and never answers.
func TestOneSentinelIsEnough(t *testing.T) {
	t.Parallel()
	servers := servers.RedisSentinel(t)
	testkit.Must(t, errors.Join(servers.Sentinels[0].Pause(), servers.Sentinels[1].Kill()))
	testkit.CheckWorks(t, openAt(t, sentinelURL(servers)))
	testkit.Must(t, servers.Sentinels[2].Kill())
	checkFault(t, openError(t, sentinelURL(servers)), false, "no sentinel names a master",
		"sentinel "+servers.Sentinels[1].Addr())
}

func TestSentinelFaults(t *testing.T) {
	t.Parallel()
	certificates := servers.NewCertificates(t)
	guarded := servers.RedisSentinel(t, servers.TLS(certificates), servers.Password("open"),
		servers.SentinelPassword("sesame"))
	plain := strings.Join(servers.RedisSentinel(t).Addrs(), ",")
	at := strings.Join(guarded.Addrs(), ",") + "/" + guarded.MasterName + "?ca=" + certificates.CAFile
	testkit.CheckWorks(t, openAt(t, "rediss+sentinel://:open@"+at+"&sentinel-password=sesame&db=2"))
	for _, test := range []struct {
		name, url string
		final     bool
		says      string
	}{
		{"another name", "redis+sentinel://" + plain + "/unknown", true, "it knows no master of this name"},
		{"no sentinel password", "rediss+sentinel://:open@" + at, true, "wants a password"},
		{"wrong sentinel password", "rediss+sentinel://:open@" + at + "&sentinel-password=secret", true,
			"this user and password"},
		{"wrong password", "rediss+sentinel://:secret@" + at + "&sentinel-password=sesame", true,
			"this user and password"},
	} {
		t.Run(test.name, func(t *testing.T) { checkFault(t, refusal(t, test.url), test.final, test.says) })
	}
	testkit.RefuseURLs(t, map[string]string{
		"redis+sentinel://a,b":                       "/NAME",
		"redis+sentinel:///name":                     "/NAME",
		"redis+sentinel://a/name/0":                  "/NAME",
		"redis+sentinel://a/name?db=x":               "database is a number",
		"redis+sentinel://a/name?ca=x":               "unknown parameter",
		"redis://127.0.0.1:1/0?sentinel-password=xx": "unknown parameter",
	})
}

// What a sentinel's user needs.
func TestSmallestACLOfSentinel(t *testing.T) {
	t.Parallel()
	s := servers.RedisSentinel(t, calm)
	for _, n := range s.Sentinels {
		do(t, n, strings.Fields("ACL SETUSER me on >secret resetchannels &+switch-master -@all +ping +subscribe "+
			"+sentinel|master +sentinel|get-master-addr-by-name")...)
	}
	kept := openAt(t, sentinelURL(s)+"?sentinel-user=me&sentinel-password=secret")
	testkit.CheckWorks(t, kept)
	failover(t, s)
	reach(t, kept)
	for _, n := range s.Sentinels {
		if got := do(t, n, "ACL", "LOG"); got != "[]" {
			t.Errorf("the sentinel refused: %s", got)
		}
	}
}
