package redisstore_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// Servers that refuse, change their part, or say what they should not, and what a store makes of it.

// A signpost is an address that leads to one server and later to another.
type signpost struct {
	to atomic.Pointer[servers.RedisServer]
}

// storeAt opens a store whose connections go where the signpost points when they are made.
func (p *signpost) storeAt(t *testing.T) *redisstore.Store {
	t.Helper()
	return newOf(t, newClient(t, rueidis.ClientOption{
		InitAddress: []string{"signpost:6379"}, ForceSingleClient: true,
		DialCtxFn: func(ctx context.Context, _ string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", p.to.Load().Addr())
		},
	}))
}

// A master that was made a replica still answers, and refuses. Its address leads to the new master by then, and only a
// new connection finds it.
func TestDemotedServerIsLeft(t *testing.T) {
	before, after := servers.Redis(t), servers.Redis(t)
	var way signpost
	way.to.Store(before)
	s := way.storeAt(t)
	testkit.Held(t, s, claim("demoted"))
	host, port, err := net.SplitHostPort(after.Addr())
	testkit.Must(t, err)
	way.to.Store(after)
	do(t, before, "REPLICAOF", host, port)
	testkit.Await(t, "the new master is found", func() bool {
		_, err := s.Join(t.Context(), claim("demoted"))
		return err == nil
	})
	if do(t, after, "EXISTS", redisstore.KeysOf("", "demoted")[0]) != "1" {
		t.Error("the new master does not know the claim")
	}
}

// When commands go to another server, so must pushes. The connection that leads to the old one is alive, and nothing
// comes over it any more.
func TestPushesFollowCommands(t *testing.T) {
	before, after := servers.Redis(t), servers.Redis(t)
	var way signpost
	way.to.Store(before)
	s := way.storeAt(t)
	told := testkit.Listen(s)
	way.to.Store(after)
	do(t, before, "CLIENT", "KILL", "TYPE", "normal")
	reach(t, s)
	holder, waiter := testkit.Held(t, s, claim("followed")), testkit.Waiting(t, s, claim("followed"))
	testkit.Leave(t, s, holder)
	id := testkit.NextTold(t, told, "the waiter is told, or that pushes were lost")
	if id != waiter.ID && id != store.Everyone { // Everyone has to ask, and so has he
		t.Errorf("told of %v, want of %v or everyone", id, waiter.ID)
	}
}

// A client that speaks RESP2 has a second connection for messages. When the one for commands dies alone, that costs the
// call that finds out, and no other.
func TestRESP2ConnectionDies(t *testing.T) {
	server := servers.Redis(t)
	s := newOf(t, newClient(t, rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, ForceSingleClient: true, AlwaysRESP2: true, DisableCache: true,
	}))
	testkit.Held(t, s, claim("resp2"))
	killed := 0
	for client := range strings.Lines(do(t, server, "CLIENT", "LIST")) {
		if strings.Contains(client, " cmd=eval") { // or evalsha: the Join
			id, _, _ := strings.Cut(strings.TrimPrefix(client, "id="), " ")
			do(t, server, "CLIENT", "KILL", "ID", id)
			killed++
		}
	}
	if killed != 1 {
		t.Fatalf("%d connections were killed, want one", killed)
	}
	if _, err := s.Queue(t.Context(), "resp2"); err != nil {
		checkFault(t, err, false)
	}
	testkit.CheckWorks(t, s)
}

// A server that is full lets whoever stands in a queue stay there, and go: neither takes more memory than there was.
func TestFullServerLetsLineGoOn(t *testing.T) {
	server, s := newServer(t, "")
	holder, waiter := testkit.Held(t, s, claim("full")), testkit.Waiting(t, s, claim("full"))
	do(t, server, "CONFIG", "SET", "maxmemory", "1")
	testkit.Keep(t, s, holder, store.Held)
	testkit.Keep(t, s, waiter, store.Waiting)
	testkit.Leave(t, s, holder)
	testkit.Keep(t, s, waiter, store.Held)
	testkit.Leave(t, s, waiter)
}

// Whoever may not publish learns it when he opens the store, and not when somebody waits.
func TestPublishDeniedIsRefusedAtOpen(t *testing.T) {
	denied := strings.Replace(smallestACL(""), "+publish ", "", 1)
	server := servers.Redis(t, servers.ACL("user default off", denied))
	checkFault(t, openError(t, "redis://me:secret@"+server.Addr()), true, "lacks a permission")
}

// If that permission is taken away later, nobody is told any more, but what was written is not reported as an error.
func TestPublishDeniedLaterCostsNoCall(t *testing.T) {
	server := servers.Redis(t, servers.ACL("user default off", smallestACL("")))
	s := openAt(t, "redis://me:secret@"+server.Addr())
	holder, waiter := testkit.Held(t, s, claim("untold")), testkit.Waiting(t, s, claim("untold"))
	do(t, server, "ACL", "SETUSER", "me", "-publish")
	testkit.Leave(t, s, holder)
	testkit.Keep(t, s, waiter, store.Held)
}

// A server repeats what it does not understand, and that may be the password.
func TestPasswordIsNotRepeated(t *testing.T) {
	f := newFake(t)
	f.says("HELLO", "-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'me' 'secret' \r\n")
	f.says("CLIENT", "+OK\r\n")
	f.says("AUTH", "-ERR unknown command 'AUTH', with args beginning with: 'me' 'secret' \r\n")
	err := openError(t, "redis://me:secret@"+f.addr())
	checkFault(t, err, false, "unknown command 'AUTH'")
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("the password is repeated: %v", err)
	}
}

// A ticket that the scripts could not have given is not believed: it would become the floor of every Join to come.
func TestPushWithImpossibleTicket(t *testing.T) {
	server, s := newServer(t, "")
	told := make(chan store.Status, 10)
	s.Notify(func(_ store.ID, standing store.Status) { told <- standing })
	channel := strings.Trim(do(t, server, "PUBSUB", "CHANNELS", "holdfast:{}:push:*"), "[]")
	for _, ticket := range []string{"18446744073709551615", "9223372036854775807", "9007199254740992", "7"} {
		do(t, server, "PUBLISH", channel, "h "+claim("mad").ID.String()+" "+ticket)
	}
	if standing := <-told; standing.Ticket != 7 || len(told) > 0 {
		t.Errorf("told of ticket %d and %d more, want of 7 alone", standing.Ticket, len(told))
	}
}

// A prefix may be as long as a name.
func TestLongestPrefix(t *testing.T) {
	_, s := newServer(t, "?prefix="+strings.Repeat("p", store.MaxName))
	testkit.CheckWorks(t, s)
}

// A server that refuses everything for now is asked about a batch of claims once, and not about each of them.
func TestRefusedBatchIsAskedOnce(t *testing.T) {
	server, s := newServer(t, "")
	claims := make([]store.Claim, 50)
	for i := range claims {
		claims[i] = claim(fmt.Sprint("refused ", i))
		testkit.Join(t, s, &claims[i], store.Held)
	}
	do(t, server, "CONFIG", "SET", "min-replicas-to-write", "1")
	before := calls(t, server, "evalsha")
	_, err := s.Keep(t.Context(), claims)
	checkFault(t, err, false, "fewer replicas")
	if n := calls(t, server, "evalsha") - before; n != 1 {
		t.Errorf("%d claims that the server refuses took %d runs of the script, want one", len(claims), n)
	}
}

// Calls without a deadline share a context. Where their ttls differ, each of them must not leave one behind that lasts
// for its ttl.
func TestContextsDoNotPileUp(t *testing.T) {
	_, s := newServer(t, "")
	long, short := claim("long"), claim("short")
	short.TTL = long.TTL / 2
	testkit.Join(t, s, &long, store.Held)
	testkit.Join(t, s, &short, store.Held)
	const rounds = 1000
	keepBoth := func() { // with a context that never ends
		for _, c := range []store.Claim{long, short} {
			_, err := s.Keep(context.Background(), []store.Claim{c})
			testkit.Must(t, err)
		}
	}
	objects := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC() // what was pooled lasts for one more
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapObjects) //nolint:gosec // not so many
	}
	keepBoth()
	before := objects()
	for range rounds {
		keepBoth()
	}
	if left := objects() - before; left > rounds {
		t.Errorf("%d calls have left %d objects behind", 2*rounds, left)
	}
}

// Calls may fail while the store is being closed, so many that the connection is given up. The race detector looks on.
func TestCloseWhileCallsFail(t *testing.T) {
	server := servers.Redis(t)
	// A connection is given up after half as many; a request has more bytes than that.
	const many, bytesEach = 250, 100
	for range 20 {
		p := testkit.Proxy(t, server.Addr())
		s := openAt(t, "redis://"+p.Addr())
		release := p.Hold(proxy.Requests)
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for range many {
			calls.Go(func() {
				if _, err := s.Queue(ctx, "closing"); err == nil {
					t.Error("an answer came out of the silence")
				}
			})
		}
		testkit.Await(t, "the calls are in progress", func() bool { return p.Held(proxy.Requests) > many*bytesEach })
		calls.Go(cancel)
		calls.Go(func() { s.Close() })
		calls.Wait()
		release()
	}
}

// A release that lets many in takes longer as they are more, but not as their square is: the server does nothing else
// meanwhile.
func TestManyReadersAreLetInAtOnce(t *testing.T) {
	server, s := newServer(t, "")
	const few, factor, slack = 500, 4, 5 * time.Millisecond
	least := func(readers int) time.Duration {
		cost := time.Hour
		for range 5 { // what else the machine does may make it cost more
			cost = min(cost, letIn(t, server, s, readers))
			do(t, server, append([]string{"DEL"}, redisstore.KeysOf("", "crowd")...)...)
		}
		return cost
	}
	least(10) // the server sees the scripts
	if a, b := least(few), least(factor*few); b > 2*factor*a+slack {
		t.Errorf("to let %d readers in takes %v of the processor, and to let %d in %v", few, a, factor*few, b)
	}
}

// used is how much of the processor a server has used so far. By that a busy machine does not make it slower.
func used(t *testing.T, server *servers.RedisServer) (sum time.Duration) {
	t.Helper()
	for line := range strings.Lines(do(t, server, "INFO", "cpu")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			d, err := time.ParseDuration(value + "s")
			testkit.Must(t, err)
			sum += d
		}
	}
	return sum
}

// letIn makes a queue of a writer and so many readers, and says how much of the processor it costs the server when the
// writer leaves.
func letIn(t *testing.T, server *servers.RedisServer, s *redisstore.Store, readers int) time.Duration {
	t.Helper()
	writer := testkit.Held(t, s, claim("crowd"))
	var joining sync.WaitGroup
	for range 10 {
		joining.Go(func() {
			for range readers / 10 {
				if standing, err := s.Join(t.Context(), reader("crowd")); err != nil ||
					standing.State != store.Waiting {
					t.Errorf("a reader behind a writer: %v and %v", standing.State, err)
					return
				}
			}
		})
	}
	joining.Wait()
	before := used(t, server)
	testkit.Leave(t, s, writer)
	return used(t, server) - before
}
