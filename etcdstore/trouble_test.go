package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/store"
)

// Servers failing: what a store says of it, and how it goes on afterwards.

// Without a majority nothing is granted, and nobody says that somebody else has it.
func TestNoLeader(t *testing.T) {
	t.Parallel()
	type change = func(*servers.EtcdServer) error
	for name, test := range map[string]struct{ lose, mend change }{
		"killed": {func(e *servers.EtcdServer) error { return e.Kill() },
			func(e *servers.EtcdServer) error { return e.Start() }},
		"paused": {func(e *servers.EtcdServer) error { return e.Pause() },
			func(e *servers.EtcdServer) error { return e.Continue() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := servers.EtcdCluster(t, 3)
			url := "etcd://" + strings.Join(cluster.Endpoints(), ",")
			s := openAt(t, url)
			held := testkit.Held(t, s, claim("held"))
			hasty := holdfast.New(openAt(t, url+"?ttl=1s"))
			defer hasty.Close()
			each := func(do change) {
				for _, node := range cluster.Nodes[1:] {
					testkit.Must(t, do(node))
				}
			}
			each(test.lose)
			testkit.Await(t, "the one that is left knows that it has no leader", func() bool {
				metrics, err := cluster.Nodes[0].Metrics()
				return err == nil && metrics["etcd_server_has_leader"] == 0
			})
			checkFault(t, openError(t, url), false, "no leader")
			testkit.CheckHelpless(t, s, held, "etcd at 127.0.0.1:")
			if _, err := hasty.Mutex("nobody's").TryLock(t.Context()); err == nil ||
				errors.Is(err, holdfast.ErrLocked) {
				t.Errorf("TryLock without a majority: %v", err)
			}
			each(test.mend)
			each((*servers.EtcdServer).AwaitHealthy)
			testkit.Await(t, "it works again", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				return testkit.Calls(s, held)["Line"](ctx) == nil
			})
			testkit.Keep(t, s, held, store.Held)
			testkit.CheckWorks(t, s)
		})
	}
}

// A database that is full takes nobody in. Whoever is in a queue stays, is granted, and goes: none of that needs room.
func TestDatabaseFull(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "", servers.Args("--quota-backend-bytes", "1000000"))
	client := server.Client(t)
	holder := testkit.Held(t, s, claim("full"))
	second, third := testkit.Waiting(t, s, claim("full")), testkit.Waiting(t, s, claim("full"))
	fill(t, client)

	_, err := s.Join(t.Context(), claim("other"))
	checkFault(t, err, false, "its database is full", "NOSPACE")
	_, err = s.Join(t.Context(), claim("full"))
	checkFault(t, err, false, "its database is full")
	checkFault(t, openError(t, "etcd://"+server.Addr()), false, "its database is full")
	testkit.Keep(t, s, holder, store.Held)
	testkit.Keep(t, s, second, store.Waiting)
	holder.Turn = 1
	testkit.Keep(t, s, holder, store.Held) // with news that cannot be written
	testkit.Leave(t, s, holder)
	testkit.AwaitHeld(t, s, second)
	testkit.Leave(t, s, second)
	testkit.AwaitHeld(t, s, third)

	empty(t, client, server.Addr())
	testkit.Keep(t, s, third, store.Held)
	testkit.Leave(t, s, third)
	testkit.CheckWorks(t, s)
	another := openAt(t, "etcd://"+server.Addr())
	testkit.CheckWorks(t, another)
}

// fill writes until there is no room. etcd inspects its size a moment later, so it must not be done too quickly.
func fill(t *testing.T, client *clientv3.Client) {
	t.Helper()
	piece := strings.Repeat("x", 100<<10)
	n := 0
	testkit.Await(t, "the database is full", func() bool {
		n++
		_, err := client.Put(t.Context(), fmt.Sprint("filling/", n), piece)
		if err != nil && !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Fatal(err)
		}
		return err != nil
	})
}

// empty does what an operator does with a database that is full.
func empty(t *testing.T, client *clientv3.Client, endpoint string) {
	t.Helper()
	answer, err := client.Delete(t.Context(), "filling/", clientv3.WithPrefix())
	if err == nil {
		_, err = client.Compact(t.Context(), answer.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err == nil {
		_, err = client.Defragment(t.Context(), endpoint)
	}
	if err == nil {
		_, err = client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	}
	testkit.Must(t, err)
}

// A login expires: a simple one when it is not used, a JWT in any case. Nobody notices: not who goes on all the time,
// not who comes after a pause, not who has waited meanwhile, and not who has lost his connection too.
func TestLoginRunsOut(t *testing.T) {
	t.Parallel()
	pair := servers.NewCertificates(t)
	for name, token := range map[string][]string{
		// etcd looks once a second for the one, and rounds the other down to a second.
		"simple": {"--auth-token", "simple", "--auth-token-ttl", "1"},
		"JWT": {"--auth-token", "jwt,ttl=2s,sign-method=ES256,pub-key=" + pair.CertFile + ",priv-key=" +
			pair.KeyFile},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := servers.Etcd(t, servers.Password("open sesame"), servers.Args(token...))
			key, end := documentedRange(t, "")
			addUser(t, server.Client(t), "me", key, end, clientv3.PermReadWrite)
			p := testkit.Proxy(t, server.Addr())
			url := "etcd://me:secret@" + p.Addr()
			locks := holdfast.New(openAt(t, url+"?ttl=5s"))
			defer locks.Close()
			lasting := testkit.Lock(t, locks, "lasting")
			handOvers(t, server, p, openAt(t, url), openAt(t, url))
			if err := lasting.Err(); err != nil {
				t.Errorf("a lease that was held all the time: %v", err)
			}
		})
	}
}

// handOvers passes a lock from one store to another, while their logins expire and their connections end.
func handOvers(t *testing.T, server *servers.EtcdServer, p *proxy.Proxy, from, to *etcdstore.Store) {
	t.Helper()
	const longer = 2200 * time.Millisecond // than a login lasts
	told := testkit.Listen(to)
	holder, waiter := claim("passed"), claim("passed")
	pause := func() { time.Sleep(longer) }
	reconnect := func() {
		p.CloseAll()
		for _, s := range []*etcdstore.Store{from, to} { // calls find out, and may fail by it
			testkit.Await(t, "it is connected again", func() bool {
				_, err := s.Keep(t.Context(), []store.Claim{holder, waiter})
				return err == nil
			})
		}
	}
	began := time.Now()
	for _, test := range []struct {
		name      string
		meanwhile []func()
		again     func() bool
	}{
		{"all the time", nil, func() bool { return time.Since(began) < longer }},
		{"after a pause", []func(){pause}, nil},
		{"after a new connection", []func(){reconnect}, nil},
		{"after a pause and a new connection", []func(){pause, reconnect}, nil},
	} {
		before := logins(t, server)
		for again := true; again; again = test.again != nil && test.again() {
			holder, waiter = claim("passed"), claim("passed")
			testkit.Join(t, from, &holder, store.Held)
			testkit.Join(t, to, &waiter, store.Waiting)
			testkit.Keep(t, to, waiter, store.Waiting)
			for _, happens := range test.meanwhile {
				happens()
			}
			testkit.Leave(t, from, holder)
			for status := (store.Status{}); status.State != store.Held; {
				testkit.NextTold(t, told, test.name)
				status = testkit.Ask(t, to, waiter)
			}
			testkit.Leave(t, to, waiter)
		}
		if logins(t, server) == before {
			t.Errorf("%s: nobody has logged in again, so that this shows nothing", test.name)
		}
	}
}

// logins is how often anybody has logged in so far.
func logins(t *testing.T, server *servers.EtcdServer) int {
	t.Helper()
	calls, err := server.Calls()
	testkit.Must(t, err)
	return calls["Authenticate"].Started
}
