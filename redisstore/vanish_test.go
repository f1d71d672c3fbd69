package redisstore_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// Hosts that vanish without a word: to connect to them hangs, and what was sent to them is not refused.

// The dark is where vanished hosts are.
type dark struct{ hosts sync.Map }

func (d *dark) take(addresses ...string) {
	for _, address := range addresses {
		d.hosts.Store(address, true)
	}
}

// dial connects to an address, and hangs if its host has vanished.
func (d *dark) dial(ctx context.Context, address string) (net.Conn, error) {
	if _, gone := d.hosts.Load(address); gone {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", address)
}

func (d *dark) open(t *testing.T, raw string) *redisstore.Store {
	t.Helper()
	s, err := redisstore.OpenPath(t.Context(), locate(t, raw), d.dial)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Sentinels whose hosts have vanished are asked beside the others, and not before them. It takes two connections to open
// a store, so that they are asked twice.
func TestVanishedSentinels(t *testing.T) {
	t.Parallel()
	s := servers.RedisSentinel(t)
	for _, test := range []struct {
		gone   int
		within time.Duration
	}{{1, 2 * time.Second}, {2, 4 * time.Second}} {
		var d dark
		d.take(s.Addrs()[:test.gone]...)
		began := time.Now()
		kept := d.open(t, sentinelURL(s))
		if took := time.Since(began); took > test.within {
			t.Errorf("with %d of 3 sentinels gone it took %v to open a store", test.gone, took)
		}
		works(t, kept)
		began = time.Now()
		if err := kept.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("with %d of 3 sentinels gone it took %v to close it", test.gone, took)
		}
	}
}

// The master's host vanishes, and the store tries to reach it when the sentinels name another.
func TestVanishedMasterIsLeft(t *testing.T) {
	t.Parallel()
	servers := servers.RedisSentinel(t)
	var d dark
	s := d.open(t, sentinelURL(servers))
	old, err := servers.Master()
	if err != nil {
		t.Fatal(err)
	}
	d.take(old.Addr())
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
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
	if _, err := servers.AwaitFailover(old); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	reach(t, s)
	if took := time.Since(began); took > time.Second {
		t.Errorf("the new master was found %v after the failover", took)
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
	s, err := redisstore.OpenDetour(t.Context(), locate(t, "redis://signpost:6379?wait-replicas=1"),
		func(string) string { return way.to.Load().Addr() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	first := claim("acked")
	join(t, s, &first, store.Held)
	way.to.Store(after.Master)
	killed := 0
	for client := range strings.Lines(do(t, before.Master, "CLIENT", "LIST", "TYPE", "normal")) {
		if strings.Contains(client, " name=holdfast ") && !strings.Contains(client, " cmd=wait ") {
			id, _, _ := strings.Cut(strings.TrimPrefix(client, "id="), " ")
			do(t, before.Master, "CLIENT", "KILL", "ID", id)
			killed++
		}
	}
	if killed != 1 {
		t.Fatalf("%d connections were killed, want that for commands", killed)
	}
	reach(t, s)
	await(t, "a grant goes where commands go", func() bool {
		_, err := s.Join(t.Context(), claim("acked"))
		return err == nil && do(t, after.Master, "EXISTS", redisstore.KeysOf("", "acked")[0]) == "1"
	})
}
