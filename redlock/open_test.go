package redlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
)

// TestURLs: a URL that makes no sense is refused before anything is connected, and says why.
func TestURLs(t *testing.T) {
	t.Parallel()
	testkit.RefuseURLs(t, map[string]string{
		"redlock://h1,h2": "needs at least 3 nodes, and these are 2",
		"redlock://h1,h2,h3,h4": "odd number of nodes, and these are 4: a majority of them is " +
			"3, so that no more may fail than of 3",
		"redlock://h1,h2,h1:6379":                    "a node is named twice",
		"redlock://h1,h2,h3/x":                       "the database is a number",
		"redlock://h1,h2,h3?max-ttl=abc":             "max-ttl is a duration",
		"redlock://h1,h2,h3?max-ttl=10ms":            "max-ttl is a duration from 100ms",
		"redlock://h1,h2,h3?node-timeout=50s":        "at most half of max-ttl",
		"redlock://h1,h2,h3?tokens=none":             "tokens is saved or unsaved",
		"redlock://h1,h2,h3?allow=all":               "allow is replicas, eviction or both",
		"redlock://h1,h2,h3?retries=3":               "unknown parameter",
		"redlock://h1,h2,h3?insecure-skip-verify=no": "unknown parameter",
		"redlocks://h1,h2,h3?cert=x":                 "cert and key go together",
	})
}

// TestOpenRefuses has three nodes of which one is not suitable.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	good := newFleet(t, 3)
	replica := servers.RedisReplicas(t, 1)
	watched := servers.RedisSentinel(t)
	for _, sentinel := range watched.Sentinels[1:] { // one alone sees to no failover, however busy the machine is
		testkit.Must(t, sentinel.Kill())
	}
	clustered := servers.Redis(t, servers.Args("--cluster-enabled", "yes"))
	valkeys := servers.Redis(t, servers.Args("--cluster-enabled", "yes"), servers.Valkey())
	evicting := servers.Redis(t, servers.Args("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"))
	for name, c := range map[string]struct {
		third string
		allow string // which lets it pass
		want  string
	}{
		"one server twice": {strings.Replace(good.nodes[0].Addr(), "127.0.0.1", "localhost", 1), "",
			"it is the same server as"},
		"a replica":        {replica.Replicas[0].Addr(), "", "it is a replica"},
		"replicas":         {replica.Master.Addr(), "replicas", "it has 1 replica"},
		"a sentinel":       {watched.Sentinels[0].Addr(), "", "it is a Sentinel"},
		"watched":          {watched.Nodes[0].Addr(), "replicas", "it has 2 replicas"},
		"a cluster":        {clustered.Addr(), "", "it is a node of a cluster"},
		"a Valkey cluster": {valkeys.Addr(), "", "it is a node of a cluster"},
		"eviction":         {evicting.Addr(), "eviction", "set maxmemory-policy to noeviction"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := "redlock://" + good.nodes[0].Addr() + "," + good.nodes[1].Addr() + "," + c.third + "?max-ttl=4s"
			open := func(query string) error {
				s, err := redlock.Open(t.Context(), raw+query, redlock.WithLogger(silent))
				if err == nil {
					s.Close()
				}
				return err
			}
			// A node that is half a second behind the others is not waited for, and so not refused.
			refused := func(query string) (err error) {
				testkit.Await(t, "it is refused", func() bool { err = open(query); return err != nil })
				return err
			}
			err := refused("")
			fault, _ := errors.AsType[*store.Fault](err)
			if fault == nil || !fault.Final || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want a final fault with %q", err, c.want)
			}
			if c.allow == "" {
				if err := refused("&allow=replicas,eviction"); !store.Final(err) {
					t.Errorf("with all allowed: %v", err)
				}
				return
			}
			for _, allow := range []string{"replicas,eviction", c.allow} {
				if err := open("&allow=" + allow); err != nil {
					t.Errorf("with allow=%s: %v", allow, err)
				}
			}
		})
	}
	t.Run("Status sees a Valkey cluster", func(t *testing.T) {
		t.Parallel()
		at := "redlock://" + good.nodes[0].Addr() + "," + good.nodes[1].Addr() + "," + valkeys.Addr()
		testkit.Await(t, "it has no vote", func() bool {
			health, err := redlock.Status(t.Context(), at)
			return err == nil && health[2].State == redlock.Failing &&
				strings.Contains(health[2].Err.Error(), "it is a node of a cluster")
		})
	})
	t.Run("Status sees a Sentinel", func(t *testing.T) {
		t.Parallel()
		at := "redlock://" + good.nodes[0].Addr() + "," + good.nodes[1].Addr() + "," + watched.Nodes[0].Addr()
		testkit.Await(t, "it is seen", func() bool {
			health, err := redlock.Status(t.Context(), at)
			return err == nil && strings.Contains(strings.Join(health[2].Warnings, "; "), "a Sentinel watches it")
		})
	})
}

// TestNewOfClients: clients stay the caller's.
func TestNewOfClients(t *testing.T) {
	t.Parallel()
	f := newCalmFleet(t, 3)
	clients := make([]rueidis.Client, 3)
	for i, n := range f.nodes {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{n.Addr()}, DisableCache: true})
		testkit.Must(t, err)
		t.Cleanup(client.Close)
		clients[i] = client
	}
	if _, err := redlock.New(t.Context(), clients[:2]); err == nil ||
		!strings.Contains(err.Error(), "at least 3 nodes") {
		t.Errorf("two clients: %v", err)
	}
	s, err := redlock.New(t.Context(), clients, redlock.WithMaxTTL(time.Minute), redlock.WithPrefix("app:"),
		redlock.WithNodeTimeout(20*time.Second), redlock.WithLogger(silent))
	testkit.Must(t, err)
	c := testkit.Held(t, s, claimOf("new"))
	testkit.Await(t, "the key is there", func() bool { return do(t, f.nodes[0], "EXISTS", "app:new") == int64(1) })
	testkit.Check(t, s.Leave(t.Context(), c))
	s.Close()
	for _, client := range clients {
		if err := client.Do(t.Context(), client.B().Ping().Build()).Error(); err != nil {
			t.Errorf("a client was closed: %v", err)
		}
	}
}

// TestIdentity: it is one for all clients, in whatever order they name the nodes, and stays when a minority has lost
// its data. A prefix makes another.
func TestIdentity(t *testing.T) {
	t.Parallel()
	f := newCalmFleet(t, 3)
	a := f.open(t).Abilities().Identity
	_, err := f.nodes[1].Do("FLUSHALL")
	testkit.Must(t, err)
	f.nodes[0], f.nodes[2] = f.nodes[2], f.nodes[0]
	if b := f.open(t).Abilities().Identity; a != b || len(a) < 20 {
		t.Errorf("one deployment is %q and %q", a, b)
	}
	if c := f.open(t, redlock.WithPrefix("p")).Abilities().Identity; a == c {
		t.Errorf("two prefixes have the identity %q", c)
	}
}

// TestMaxTTLIsFixed: a client with another max-ttl than the deployment is refused for good.
func TestMaxTTLIsFixed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	s, err := f.tryOpen(t, redlock.WithMaxTTL(5*time.Second))
	if err == nil {
		s.Close()
	}
	if !store.Final(err) || !strings.Contains(err.Error(), "a deployment with max-ttl=4s, and this client has 5s") {
		t.Error(err)
	}
	_, err = f.open(t).
		Join(t.Context(), func() store.Claim { c := claimOf("long"); c.TTL = 5 * time.Second; return c }())
	if !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("a ttl above max-ttl: %v", err)
	}
}

// TestNewerRecord: nodes of a newer version are not touched.
func TestNewerRecord(t *testing.T) {
	t.Parallel()
	f := newFreshFleet(t, 3)
	for _, n := range f.nodes {
		_, err := n.Do("SET", redlock.RecordKey, "2 of the future")
		testkit.Must(t, err)
	}
	s, err := f.tryOpen(t)
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, store.ErrFormat) {
		t.Error(err)
	}
}

// TestOpenCancelled: a context that is done ends it.
func TestOpenCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := redlock.Open(ctx, "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
