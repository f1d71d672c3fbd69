package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
)

// Hosts that vanish without a word: to connect to them hangs, and what was sent to them is not refused.

// The dark is where vanished hosts are.
type dark struct {
	hosts   sync.Map
	givenUp atomic.Int64 // how many attempts to connect were ended before their time
}

func (d *dark) take(addresses ...string) {
	for _, address := range addresses {
		d.hosts.Store(address, true)
	}
}

// dial connects to an address, and hangs if its host has vanished.
func (d *dark) dial(ctx context.Context, address string) (net.Conn, error) {
	if _, gone := d.hosts.Load(address); gone {
		<-ctx.Done()
		if errors.Is(ctx.Err(), context.Canceled) {
			d.givenUp.Add(1)
		}
		return nil, ctx.Err()
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", address)
}

func (d *dark) open(t *testing.T, raw string) *redisstore.Store {
	t.Helper()
	return mustOpen(t, func() (*redisstore.Store, error) {
		return redisstore.OpenPath(t.Context(), testkit.Locate(t, raw), d.dial)
	})
}

// Sentinels whose hosts have vanished are asked beside the others, and not before them. It takes two connections to
// open a store, so that they are asked twice.
func TestVanishedSentinels(t *testing.T) {
	t.Parallel()
	s := servers.RedisSentinel(t)
	for _, test := range []struct {
		gone   int
		within time.Duration // what it takes at least to ask one after the other
	}{{1, 2 * time.Second}, {2, 4 * time.Second}} {
		var d dark
		d.take(s.Addrs()[:test.gone]...)
		// A busy machine may be slow. To ask one after the other is slow every time.
		testkit.Await(
			t,
			fmt.Sprintf("with %d of 3 sentinels gone a store is opened within %v", test.gone, test.within),
			func() bool {
				began := time.Now()
				kept := d.open(t, sentinelURL(s))
				opened := time.Since(began)
				testkit.CheckWorks(t, kept)
				began = time.Now()
				testkit.Check(t, kept.Close())
				closed := time.Since(began)
				t.Logf("with %d of 3 sentinels gone it took %v to open a store, and %v to close it", test.gone, opened,
					closed)
				return opened < test.within && closed < time.Second
			},
		)
	}
}

// The master's host vanishes, and the store tries to reach it when the sentinels name another.
func TestVanishedMasterIsLeft(t *testing.T) {
	t.Parallel()
	servers := servers.RedisSentinel(t)
	var d dark
	s := d.open(t, sentinelURL(servers))
	old, err := servers.Master()
	testkit.Must(t, err)
	d.take(old.Addr())
	testkit.Must(t, old.Kill())
	done := make(chan struct{})
	defer func() { <-done }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // somebody always tries
		defer close(done)
		for ctx.Err() == nil {
			s.Join(ctx, claim("always")) //nolint:errcheck // that is the point
		}
	}()
	_, err = servers.AwaitFailover(old)
	testkit.Must(t, err)
	began := time.Now()
	reach(t, s)
	if took := time.Since(began); took > time.Second && d.givenUp.Load() == 0 {
		t.Errorf("the new master was found %v after the failover, when the attempts to reach the old one had failed",
			took)
	}
}

// When one of a store's connections leads to another server, so must all: also the one for what replicas acknowledge.
func TestAckedFollowsCommands(t *testing.T) {
	t.Parallel()
	before, after := servers.RedisReplicas(t, 1), servers.RedisReplicas(t, 1)
	acknowledged(t, before.Master, 1)
	acknowledged(t, after.Master, 1)
	var way signpost
	way.to.Store(before.Master)
	s := openDetour(t, "redis://signpost:6379?wait-replicas=1&wait-timeout=10s",
		func(string) string { return way.to.Load().Addr() })
	var commands []string // the connections for them, of which there is one; what replicas must acknowledge comes later
	for client := range strings.Lines(do(t, before.Master, "CLIENT", "LIST", "TYPE", "normal")) {
		if strings.Contains(client, " name=holdfast ") {
			id, _, _ := strings.Cut(strings.TrimPrefix(client, "id="), " ")
			commands = append(commands, id)
		}
	}
	if len(commands) != 1 {
		t.Fatalf("there are %d connections, want that for commands", len(commands))
	}
	testkit.Held(t, s, claim("acked"))
	way.to.Store(after.Master)
	do(t, before.Master, "CLIENT", "KILL", "ID", commands[0])
	reach(t, s)
	testkit.Await(t, "a grant goes where commands go", func() bool {
		_, err := s.Join(t.Context(), claim("acked"))
		return err == nil && do(t, after.Master, "EXISTS", redisstore.KeysOf("", "acked")[0]) == "1"
	})
}
