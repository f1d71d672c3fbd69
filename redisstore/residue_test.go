package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// After everything that can be done with a queue, identity, mark and run are left, and each is one key for all names.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "")
	short := func(c store.Claim) store.Claim {
		c.TTL = 3 * time.Second // longer than it takes to make a queue
		return c
	}
	for _, name := range []string{"plain", "{brace}", "new\nline", "*", "a|b", "%7B"} {
		left, dead, waiting := short(claim(name)), short(claim(name)), short(reader(name))
		testkit.Join(t, s, &left, store.Held)
		testkit.Join(t, s, &dead, store.Waiting)
		testkit.Leave(t, s, short(claim(name))) // a tombstone
		testkit.Leave(t, s, left)
		testkit.Join(t, s, &waiting, store.Waiting)
		testkit.Leave(t, s, short(claim(name+"'s tombstone alone")))
	}
	for _, key := range strings.Fields(strings.Trim(do(t, server, "KEYS", "holdfast:{|*"), "[]")) {
		if left := do(t, server, "PTTL", key); !strings.Contains(key, "\n") && strings.HasPrefix(left, "-1") {
			t.Errorf("the key %s has no expiry", key)
		}
	}
	testkit.Await(t, "all is gone", func() bool { return do(t, server, "DBSIZE") == "3" })
}

// A line that is used all the time keeps its keys, though none of them was made to last.
func TestLineOutlivesItsFirstExpiry(t *testing.T) {
	t.Parallel()
	_, s := newServer(t, "")
	holder, waiter := claim("lasting"), claim("lasting")
	const short = 3 * time.Second // longer than a busy machine takes from one Keep to the next
	holder.TTL, waiter.TTL = short, short
	testkit.Join(t, s, &holder, store.Held)
	testkit.Join(t, s, &waiter, store.Waiting)
	for end := time.Now().Add(3 * short); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		testkit.Keep(t, s, holder, store.Held)
		testkit.Keep(t, s, waiter, store.Waiting)
	}
	testkit.Leave(t, s, holder)
	testkit.Keep(t, s, waiter, store.Held)
}

// The order of a queue that was empty but for a tombstone is a key made again. It must expire too.
func TestOrderMadeAnewExpires(t *testing.T) {
	server, s := newServer(t, "")
	testkit.Leave(t, s, claim("anew")) // a tombstone
	testkit.Held(t, s, claim("anew"))
	for _, key := range redisstore.KeysOf("", "anew") {
		if left := do(t, server, "PTTL", key); strings.HasPrefix(left, "-") {
			t.Errorf("the key %s expires in %s", key, left)
		}
	}
	other := claim("anew")
	other.Try = true
	testkit.Join(t, s, &other, store.Gone)
}

// A tombstone is not renewed by leaving again, or else a client that leaves forever keeps it forever.
func TestTombstoneIsNotRenewed(t *testing.T) {
	server, s := newServer(t, "")
	c := claim("buried")
	testkit.Leave(t, s, c)
	testkit.Join(t, s, &c, store.Gone)
	deadline := func() string { return do(t, server, "ZSCORE", redisstore.KeysOf("", "buried")[3], c.ID.String()) }
	before := deadline()
	time.Sleep(5 * time.Millisecond) // the server counts in milliseconds
	testkit.Leave(t, s, c)
	if after := deadline(); after != before {
		t.Errorf("the tombstone was to last until %s, and after leaving again until %s", before, after)
	}
}
