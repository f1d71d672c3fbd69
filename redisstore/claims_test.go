package redisstore_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// What most tests of this package do with a store, and what they look at behind its back.

const ttl = 2 * time.Minute // longer than any of these tests should take, also where servers fail over on a busy machine

var lastID atomic.Uint64

// claim makes a claim for everything.
func claim(name string) store.Claim {
	c := store.Claim{
		Name: name, TTL: ttl, Owner: &store.Owner{Host: "test"},
		Ask: store.Ask{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders},
	}
	binary.BigEndian.PutUint64(c.ID[8:], lastID.Add(1))
	return c
}

func reader(name string) store.Claim {
	c := claim(name)
	c.Units = 1
	return c
}

// join joins, demands a state, and notes the ticket.
func join(t testing.TB, s *redisstore.Store, c *store.Claim, want store.State) store.Standing {
	t.Helper()
	standing, err := s.Join(t.Context(), *c)
	if err != nil || standing.State != want {
		t.Fatalf("Join of %q: %v and %v, want %v", c.Name, standing.State, err, want)
	}
	c.Ticket = standing.Ticket
	return standing
}

// keep keeps one claim and demands a state.
func keep(t testing.TB, s *redisstore.Store, c store.Claim, want store.State) store.Standing {
	t.Helper()
	standing := ask(t, s, c)
	if standing.State != want {
		t.Fatalf("Keep of %q: %v, want %v", c.Name, standing.State, want)
	}
	return standing
}

// ask keeps one claim.
func ask(t testing.TB, s *redisstore.Store, c store.Claim) store.Standing {
	t.Helper()
	standings, err := s.Keep(t.Context(), []store.Claim{c})
	if err != nil || len(standings) != 1 || standings[0].Err != nil {
		t.Fatalf("Keep of %q: %+v and %v", c.Name, standings, err)
	}
	return standings[0]
}

// granted waits until the claim is held, as a client would that asks often.
func granted(t testing.TB, s *redisstore.Store, c store.Claim) {
	t.Helper()
	await(t, c.Name+" is granted", func() bool { return ask(t, s, c).State == store.Held })
}

func leave(t testing.TB, s *redisstore.Store, c store.Claim) {
	t.Helper()
	if err := s.Leave(t.Context(), c); err != nil {
		t.Fatalf("Leave of %q: %v", c.Name, err)
	}
}

// newServer starts a server and opens a store on it, with these parameters.
func newServer(t testing.TB, query string, options ...servers.Option) (*servers.RedisServer, *redisstore.Store) {
	t.Helper()
	server := servers.Redis(t, options...)
	return server, openAt(t, "redis://"+server.Addr()+query)
}

// do sends the server a command that must work.
func do(t testing.TB, server *servers.RedisServer, args ...string) string {
	t.Helper()
	answer, err := server.Do(args...)
	if err != nil {
		t.Fatalf("%s: %v", args[0], err)
	}
	return fmt.Sprint(answer)
}

// calls is how often the server has run a command so far, also from inside scripts; "" is for all commands but INFO.
func calls(t testing.TB, server *servers.RedisServer, command string) (n int) {
	t.Helper()
	for line := range strings.Lines(do(t, server, "INFO", "commandstats")) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok || name == "info" || command != "" && name != command {
			continue
		}
		count, _, _ := strings.Cut(rest, ",")
		c, err := strconv.Atoi(count)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		n += c
	}
	return n
}

// patience is for what must happen, on a machine that is busy.
const patience = 30 * time.Second

// await waits until something is so.
func await(t testing.TB, what string, isSo func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !isSo(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %v", what, patience)
		}
	}
}

// reach waits until the store reaches its server again.
func reach(t testing.TB, s *redisstore.Store) {
	t.Helper()
	await(t, "the server is reached", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Line(ctx, "reach")
		return err == nil
	})
}
