package redisstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// An earlier is a client of the version before claims could be detached and limits could differ. It runs the scripts
// that it had, which are in testdata, and evaluates queues with them.
type earlier struct {
	t      testing.TB
	server *servers.RedisServer
}

// run runs one of the earlier scripts on the queue of a name.
func (e earlier) run(file, name string, keys []string, args ...string) string {
	e.t.Helper()
	source := func(file string) string {
		text, err := os.ReadFile(filepath.Join("testdata", "earlier", file))
		testkit.Must(e.t, err)
		return string(text)
	}
	text := strings.Replace(source(file), "--#include line.lua\n", source("line.lua"), 1)
	keys = append([]string{redisstore.KeysOf("", name)[0]}, keys...)
	command := append([]string{"EVAL", text, strconv.Itoa(len(keys))}, keys...)
	return do(e.t, e.server, append(command, args...)...)
}

// rest is what the scripts are told of a claim, from its kind on.
func rest(c store.Claim) string {
	return fmt.Sprintf("%d %d %d %d 0 earlier {}", c.Kind, c.Limit, c.Units, c.TTL.Milliseconds())
}

func (e earlier) join(c store.Claim) string {
	e.t.Helper()
	about := fmt.Sprintf("%s %d %s", c.ID, time.Now().UnixMilli(), rest(c))
	return e.run("join.lua", c.Name, []string{redisstore.Mark("")}, about, fmt.Sprint(c.TTL.Milliseconds()), "0")
}

// keep keeps a claim and returns its state: "h", "w" or "g".
func (e earlier) keep(c store.Claim) string {
	e.t.Helper()
	run, _, _ := strings.Cut(strings.TrimPrefix(do(e.t, e.server, "GET", redisstore.Run("")), "1 "), " ")
	keys := []string{redisstore.Mark(""), redisstore.Run("")}
	answer := e.run("keep.lua", c.Name, keys, "1 "+run+" ", "0", c.ID.String(),
		fmt.Sprint(c.TTL.Milliseconds()), rest(c))
	state, ok := strings.CutPrefix(answer, "[ok ")
	if !ok {
		e.t.Fatalf("keep.lua: %s", answer)
	}
	return state[:1]
}

func (e earlier) leave(c store.Claim) {
	e.t.Helper()
	if got := e.run("leave.lua", c.Name, nil, c.ID.String()); got != "1" {
		e.t.Fatalf("leave.lua: %s", got)
	}
}

// permits returns a claim of units of a limit, which joins beside any other limit.
func permits(name string, units, limit int32) store.Claim {
	c := claim(name)
	c.Demand = store.Demand{Kind: store.Semaphore, Units: units, Limit: limit}
	c.AnyLimit = true
	return c
}

// While limits differ, a client of an earlier version grants no claim more than its own limit, whether that is the
// least of the queue or not. It joins only with the least.
func TestEarlierClientAmongLimits(t *testing.T) {
	server, s := newServer(t, "")
	old := earlier{t, server}
	lowered, raised := "lowered", "raised"
	holder, second := testkit.Held(t, s, permits(lowered, 2, 5)), testkit.Held(t, s, permits(lowered, 1, 5))
	waiter := testkit.Waiting(t, s, permits(lowered, 1, 3))
	oldWaiter, tooMuch := permits(lowered, 1, 3), permits(lowered, 1, 5)
	if got := old.join(oldWaiter); !strings.HasPrefix(got, "w ") {
		t.Errorf("an earlier client with the least limit: %s", got)
	}
	if got := old.join(tooMuch); got != "mismatch 2 3" {
		t.Errorf("an earlier client with another limit: %s", got)
	}
	if got := old.keep(oldWaiter); got != "w" {
		t.Errorf("an earlier client's renewal: %s", got)
	}
	testkit.Keep(t, s, waiter, store.Waiting) // 2 and 1 of 5 are held, and 3 are its limit
	old.leave(second)
	testkit.Keep(t, s, waiter, store.Held)
	if got := old.keep(oldWaiter); got != "w" {
		t.Errorf("an earlier client beside 3 of 3: %s", got)
	}
	testkit.Leave(t, s, holder)
	if got := old.keep(oldWaiter); got != "h" {
		t.Errorf("an earlier client beside 1 of 3: %s", got)
	}

	first := permits(raised, 3, 3)
	if got := old.join(first); len(got) != 16 {
		t.Fatalf("an earlier client alone: %s", got)
	}
	testkit.Held(t, s, permits(raised, 2, 5))
	last := testkit.Waiting(t, s, permits(raised, 3, 5))
	if got := old.keep(first); got != "h" {
		t.Errorf("an earlier client's renewal: %s", got)
	}
	testkit.Keep(t, s, last, store.Waiting)
	old.leave(first)
	testkit.Keep(t, s, last, store.Held) // 2 and 3 of 5, which the earlier script would not have granted
}

// To a client of an earlier version a detached claim is one like any other: it waits behind it until it expires, or is
// released, and its own claim can be detached by a client that knows its ID.
func TestEarlierClientBehindDetached(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "")
	old := earlier{t, server}
	as := detach(t, s, testkit.Held(t, s, claim("released")), ttl)
	waiter := claim("released")
	if got := old.join(waiter); !strings.HasPrefix(got, "w ") {
		t.Fatalf("behind a detached claim: %s", got)
	}
	old.leave(as)
	if got := old.keep(waiter); got != "h" {
		t.Errorf("when the detached claim was released: %s", got)
	}

	const short = 4 * time.Second // longer than a busy machine takes to join
	began := time.Now()
	detach(t, s, testkit.Held(t, s, claim("expires")), short)
	waiter = claim("expires")
	if got := old.join(waiter); !strings.HasPrefix(got, "w ") {
		t.Fatalf("behind a detached claim: %s", got)
	}
	testkit.Await(t, "the detached claim expires", func() bool { return old.keep(waiter) == "h" })
	if after := time.Since(began); after < short {
		t.Errorf("a claim that was detached for %v has expired after %v", short, after)
	}

	holder := claim("earlier")
	ticket, err := strconv.ParseUint(old.join(holder), 10, 64)
	testkit.Must(t, err)
	holder.Ticket = ticket
	as = detach(t, s, holder, ttl)
	if got := old.keep(holder); got != "g" {
		t.Errorf("an earlier client keeps a claim that was detached: %s", got)
	}
	old.leave(holder)
	attach(t, s, heirOf(as), as.ID, store.Held)
}
