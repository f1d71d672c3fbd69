package goredis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/percent"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/redisstore/goredis"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestStore(t *testing.T) { storetest.Run(t, newHarness) }

// A harness is a Redis server with a hand on its switches.
type harness struct {
	server *servers.RedisServer
	hand   *redisstore.Store // for what is done behind a store's back
}

func newHarness(t testing.TB) storetest.Harness {
	server := servers.Redis(t)
	return &harness{server, open(t, redis.NewClient(&redis.Options{Addr: server.Addr()}))}
}

// open makes a store of a client, both of which end with the test.
func open(t testing.TB, client redis.UniversalClient, options ...redisstore.Option) *redisstore.Store {
	t.Helper()
	t.Cleanup(func() { client.Close() })
	s, err := goredis.New(t.Context(), client, options...)
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// Open leads a client's own dialer over a proxy, which is also to show that the store goes the client's way.
func (h *harness) Open(t testing.TB, prefix string) (store.Store, storetest.Link) {
	t.Helper()
	p := testkit.Proxy(t, h.server.Addr(), proxy.Classify(proxy.RESP2))
	client := redis.NewClient(&redis.Options{
		Addr: "nowhere:1",
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, p.Addr())
		},
	})
	return open(t, client, redisstore.WithPrefix(prefix)), p.Link()
}

func (h *harness) Advance(d time.Duration) { time.Sleep(d) }

func (h *harness) Restart(keepData bool) error { return h.server.Restart(keepData) }

func (h *harness) Erase(name string, id store.ID) error {
	var err error
	for range 100 { // it may have to connect again
		c := store.Claim{ID: id, Name: name, Ticket: 1, TTL: time.Second}
		if err = h.hand.Leave(context.Background(), c); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// keysOf are the keys of a line.
func keysOf(name string) []string {
	line := "holdfast:{|" + percent.Set(`{}|*?[]\`).Escape(name) + "}"
	return []string{line, line + ":r", line + ":o", line + ":d"}
}

func (h *harness) Residue(name string) (int, error) {
	answer, err := h.server.Do(append([]string{"EXISTS"}, keysOf(name)...)...)
	if err != nil {
		return 0, err
	}
	return int(answer.(int64)), nil
}

func (h *harness) PlantNewer(name string) error {
	_, err := h.server.Do("SET", keysOf(name)[0], "2 something of the future")
	return err
}

// newLocks makes a client whose goroutines all stand in the store's line.
func newLocks(s *redisstore.Store) *holdfast.Client {
	return holdfast.New(s, holdfast.WithHandOver(0, 0), holdfast.WithTTL(time.Minute))
}

// handOver lets two goroutines have a lock in turn, the second by a push.
func handOver(t *testing.T, locks *holdfast.Client, name string) holdfast.Token {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	first, err := locks.Mutex(name).Lock(ctx)
	testkit.Must(t, err)
	second := make(chan holdfast.Token, 1)
	go func() {
		defer close(second)
		lease, err := locks.Mutex(name).Lock(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		second <- lease.Token()
		testkit.Check(t, lease.Unlock(ctx))
	}()
	testkit.Await(t, "the second waits", func() bool {
		line, err := locks.Inspect(ctx, name)
		testkit.Must(t, err)
		return len(line.Entries) == 2
	})
	testkit.Must(t, first.Unlock(ctx))
	token := <-second
	<-second // it has unlocked
	if token <= first.Token() {
		t.Errorf("token %v after %v", token, first.Token())
	}
	return token
}

// A failover client leads to whoever is the master, and so does the store.
func TestFailoverClient(t *testing.T) {
	s := servers.RedisSentinel(t, servers.Password("open sesame"), servers.DownAfter(time.Minute))
	kept := open(t, redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: s.MasterName, SentinelAddrs: s.Addrs(), Password: "open sesame",
	}))
	locks := newLocks(kept)
	before := handOver(t, locks, "before")
	_, err := s.Failover()
	testkit.Must(t, err)
	testkit.Must(t, s.AwaitHealthy())
	testkit.Await(t, "the new master is reached",
		func() bool { _, err := kept.Queue(t.Context(), "after"); return err == nil })
	if after := handOver(t, locks, "after"); after <= before {
		t.Errorf("after the failover the token is %v, and before it was %v", after, before)
	}
}

// A master that is cut off from its sentinels lives on and does not know that it was replaced. The store leaves it when
// the client does, though it still answers.
func TestFailoverClientLeavesReplacedMaster(t *testing.T) {
	s := servers.RedisSentinel(t)
	for _, n := range s.Nodes {
		_, err := n.Do("ACL", "SETUSER", "me", "on", ">secret", "~*", "&*", "+@all")
		testkit.Must(t, err)
	}
	kept := open(t, redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: s.MasterName, SentinelAddrs: s.Addrs(), Username: "me", Password: "secret",
	}))
	locks := newLocks(kept)
	old := s.Nodes[0]
	mine, err := old.Dial()
	testkit.Must(t, err)
	defer mine.Close()
	for _, command := range []string{
		"AUTH me secret",
		"ACL SETUSER default off", // that is who the sentinels are
		"CLIENT KILL USER default",
	} {
		_, err := mine.Do(strings.Fields(command)...)
		testkit.Must(t, err)
	}
	master, err := s.AwaitFailover(old)
	testkit.Must(t, err)
	testkit.Await(t, "a claim comes to the new master", func() bool {
		var there any
		err := locks.Mutex("left").Do(t.Context(), func(context.Context) (err error) {
			there, err = master.Do("EXISTS", keysOf("left")[0])
			return err
		})
		return err == nil && there == int64(1)
	})
	if role, err := mine.Do("ROLE"); err != nil || role.([]any)[0] != "master" {
		t.Errorf("the old master says %v and %v, want that it is one still", role, err)
	}
}

func TestClusterClient(t *testing.T) {
	certificates := servers.NewCertificates(t)
	c := servers.RedisCluster(t, servers.TLS(certificates), servers.Password("open sesame"))
	kept := open(t, redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:     c.Addrs()[:2],
		TLSConfig: &tls.Config{RootCAs: certificates.Client.RootCAs, MinVersion: tls.VersionTLS12},
		CredentialsProviderContext: func(context.Context) (string, string, error) {
			return "", "open sesame", nil
		},
	}))
	locks := newLocks(kept)
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		handOver(t, locks, name)
	}
}

// The client stays its owner's, with its pool as it was.
func TestClientIsNotClosed(t *testing.T) {
	server := servers.Redis(t, servers.Password("open sesame"))
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "open sesame", DB: 3})
	defer client.Close()
	s, err := goredis.New(t.Context(), client, redisstore.WithPrefix("p"))
	testkit.Must(t, err)
	handOver(t, newLocks(s), "kept")
	testkit.Check(t, s.Close())
	keys, err := client.Keys(t.Context(), "holdfast:*").Result()
	if err != nil || len(keys) == 0 {
		t.Errorf("the client sees the keys %v and %v in its database", keys, err)
	}
}

func TestRefusedClients(t *testing.T) {
	server := servers.Redis(t, servers.Password("open sesame"))
	for name, client := range map[string]redis.UniversalClient{
		"a ring": redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": server.Addr()}}),
		"failover by reader": redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: "m",
			RouteByLatency: true}),
	} {
		t.Cleanup(func() { client.Close() })
		if _, err := goredis.New(t.Context(), client); !errors.Is(err, holdfast.ErrUnsupported) {
			t.Errorf("%s: %v, want %v", name, err, holdfast.ErrUnsupported)
		}
	}
	for name, c := range map[string]struct {
		options redis.Options
		final   bool // a provider may return another password next time
	}{
		"a wrong password": {redis.Options{Username: "me", Password: "secret"}, true},
		"a provider's wrong password": {redis.Options{CredentialsProvider: func() (string, string) {
			return "me",
				"secret"
		}}, false},
	} {
		c.options.Addr = server.Addr()
		client := redis.NewClient(&c.options)
		t.Cleanup(func() { client.Close() })
		_, err := goredis.New(t.Context(), client)
		if err == nil || store.Final(err) != c.final || strings.Contains(err.Error(), "secret") ||
			!strings.Contains(err.Error(), server.Addr()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
