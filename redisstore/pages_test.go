package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// crowd puts claims behind those that stand in a queue, many in each script: one by one would take minutes. They have
// the tickets from first on.
func crowd(t testing.TB, server *servers.RedisServer, name string, first uint64, claims int) {
	t.Helper()
	const script = `
		local L, ticket, n, ms = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), redis.call('TIME')[1] * 1000
		for i = 0, n - 1 do
			local id = string.format('%032x', ticket + i)
			redis.call('HSET', L .. ':r', id, string.format('%d %d 1 1048576 1048576 600000 0 nobody {}', ticket + i, ms))
			redis.call('ZADD', L .. ':o', string.format('%d', ticket + i), id)
			redis.call('ZADD', L .. ':d', string.format('%d', ms + 600000), id)
		end
		return n`
	for at := 0; at < claims; at += 5000 {
		n := min(5000, claims-at)
		from := strconv.FormatUint(first+uint64(at), 10)
		do(t, server, "EVAL", script, "1", redisstore.KeysOf("", name)[0], from, strconv.Itoa(n))
	}
}

// Who stands in a long queue is read in short scripts, between which the server serves others and the caller can give
// up.
func TestLongLineIsReadInPages(t *testing.T) {
	t.Parallel()
	const claims, most = 50_000, 1000
	server, s := newServer(t, "")
	testkit.Held(t, s, claim("x"))
	waiter := testkit.Waiting(t, s, claim("x"))
	crowd(t, server, "x", waiter.Ticket+1, claims)

	before := calls(t, server, "evalsha")
	line, err := s.Queue(t.Context(), "x")
	if err != nil || len(line.Entries) != claims+2 {
		t.Fatalf("%d places, %v", len(line.Entries), err)
	}
	if scripts := calls(t, server, "evalsha") - before; scripts < claims/most {
		t.Errorf("%d places were read by %d scripts, of which none may read more than %d", claims, scripts, most)
	}
	if !slices.IsSortedFunc(line.Entries, func(a, b store.Entry) int { return int(a.Ticket) - int(b.Ticket) }) {
		t.Error("they are not in order")
	}
	for i, p := range line.Entries {
		if (p.State == store.Held) != (i == 0) || i > 1 && p.Ticket != waiter.Ticket+uint64(i-1) {
			t.Fatalf("place %d: %+v", i, p)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before = calls(t, server, "evalsha")
	if _, err := s.Queue(&fading{ctx, cancel, 10}, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("a Line that was given up: %v", err)
	}
	if scripts := calls(t, server, "evalsha") - before; scripts < 1 || scripts > 10 {
		t.Errorf("it went on for %d scripts", scripts)
	}
}

// A fading context is cancelled when it was asked for its deadline a few times, as each call of the server does.
type fading struct {
	context.Context
	cancel context.CancelFunc
	left   int
}

func (f *fading) Deadline() (time.Time, bool) {
	if f.left--; f.left == 0 {
		f.cancel()
	}
	return f.Context.Deadline()
}

// What joining, renewing, being granted and leaving cost is the same in a queue of 30,000 as in a short one.
func TestLongLineCostsNoMore(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "")
	cost := func(name string, claims int) (n int) {
		holder, next, last := claim(name), claim(name), claim(name)
		testkit.Join(t, s, &holder, store.Held)
		testkit.Join(t, s, &next, store.Waiting)
		crowd(t, server, name, next.Ticket+1, claims)
		do(t, server, "SET", redisstore.Mark(""), strconv.FormatUint(next.Ticket+uint64(claims), 10))
		before := calls(t, server, "")
		testkit.Join(t, s, &last, store.Waiting)
		testkit.Keep(t, s, last, store.Waiting)
		testkit.Leave(t, s, holder)
		testkit.Keep(t, s, next, store.Held)
		testkit.Leave(t, s, last)
		return calls(t, server, "") - before
	}
	cost("warm", 1) // the server knows the scripts then
	short, long := cost("short", 1), cost("long", 30_000)
	if long > short+5 { // the time may be another when something is granted
		t.Errorf("%d commands in a short line, %d in a long one", short, long)
	}
}
