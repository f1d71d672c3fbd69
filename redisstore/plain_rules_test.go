package redisstore_test

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// The rules of the lock that plain mode shares with other libraries, seen from the server.

// The key is the name behind the prefix, both as they are. The value says who holds, and goes with the lock.
func TestPlainKeyAndValue(t *testing.T) {
	server := servers.Redis(t)
	locks := openLocks(t, server, "&prefix=lock:", holdfast.WithLabel("nightly"), holdfast.WithTTL(20*time.Second))
	lease := testkit.Lock(t, locks, "stock {42}")
	value := do(t, server, "GET", "lock:stock {42}")
	form := `^holdfast [0-9a-f]{32} ` + strconv.FormatUint(lease.Token().Ticket(), 10) +
		` \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \{"label":"nightly","host":".*"pid":\d+.*\}$`
	if !regexp.MustCompile(form).MatchString(value) {
		t.Errorf("the value is %q, want %s", value, form)
	}
	if left := number(t, do(t, server, "PTTL", "lock:stock {42}")); left <= 0 || left > 20_000 {
		t.Errorf("it has %d ms left of 20 s", left)
	}
	testkit.Unlock(t, lease)
	if keys := do(t, server, "KEYS", "*"); do(t, server, "DBSIZE") != "3" || strings.Contains(keys, "stock") {
		t.Errorf("released, and there are still the keys %s; want mark, run and identity", keys)
	}
}

// A value that is not the claim's is neither deleted nor given more time, whatever is called.
func TestPlainLeavesStrangersAlone(t *testing.T) {
	server := servers.Redis(t)
	s := openPlain(t, server, "")
	s.Notify(func(store.ID, store.Status) {})
	ours := claim("shared")
	ours.TTL = 100 * time.Millisecond
	testkit.Join(t, s, &ours, store.Held)
	testkit.Await(t, "ours has expired", func() bool { return do(t, server, "EXISTS", "shared") == "0" })

	const value = "holdfast is not mine"
	do(t, server, "SET", "shared", value, "NX", "PX", "60000")
	ours.TTL = ttl
	hasty, waiter, ghost := claim("shared"), claim("shared"), claim("shared")
	hasty.Try = true
	testkit.Keep(t, s, ours, store.Gone) // its key is another's
	testkit.Join(t, s, &hasty, store.Gone)
	testkit.Join(t, s, &waiter, store.Waiting)
	testkit.Keep(t, s, waiter, store.Waiting)
	for _, c := range []store.Claim{ours, hasty, waiter, ghost} {
		testkit.Leave(t, s, c)
	}
	for _, ticket := range []uint64{0, ours.Ticket} {
		if err := s.Break(t.Context(), "shared", ticket); !errors.Is(err, store.ErrUnsupported) ||
			!strings.Contains(err.Error(), "by hand") {
			t.Errorf("Break of another library's lock: %v", err)
		}
	}
	if got := do(t, server, "GET", "shared"); got != value {
		t.Errorf("the value became %q", got)
	}
	if left := number(t, do(t, server, "PTTL", "shared")); left <= 0 || left > 60_000 {
		t.Errorf("another's lock has %d ms left, and it was given a minute", left)
	}
}

// Another library's release is told to nobody. Who waits looks now and then, and when its time is over.
func TestPlainWaitsForStrangers(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	locks := openLocks(t, server, "&retry=20ms")
	for name, until := range map[string]func(key string){
		"given back": func(key string) { do(t, server, "DEL", key) },
		"run out":    func(key string) { do(t, server, "PEXPIRE", key, "200") },
	} {
		t.Run(name, func(t *testing.T) {
			do(t, server, "SET", name, "someone's", "NX", "PX", "60000")
			got := locking(t, locks, name)
			select {
			case <-got:
				t.Fatal("it was granted while another library held it")
			case <-time.After(100 * time.Millisecond):
			}
			until(name)
			testkit.Unlock(t, <-got)
		})
	}
}

// A key that is no string is a lock of another kind: Redisson has a hash, for one. It excludes us, and is left alone.
func TestPlainWaitsForOtherTypes(t *testing.T) {
	server := servers.Redis(t)
	locks := openLocks(t, server, "&retry=20ms")
	do(t, server, "HSET", "hash", "some-uuid:1", "1")
	_, err := locks.Mutex("hash").TryLock(t.Context())
	if !errors.Is(err, holdfast.ErrLocked) ||
		!strings.Contains(err.Error(), "locked by somebody with a key that is no string") {
		t.Fatalf("TryLock: %v, want that somebody holds it with a key that is no string", err)
	}
	got := locking(t, locks, "hash")
	do(t, server, "HSET", "hash", "some-uuid:1", "2")
	do(t, server, "DEL", "hash")
	lease := <-got
	// The other way round it is an error there, and not a wait: the guide for who moves says so.
	if _, err := server.Do("HEXISTS", "hash", "some-uuid:1"); err == nil ||
		!strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a look for a hash at what we hold: %v", err)
	}
	testkit.Unlock(t, lease)
}

// A lock that is held is kept, and one that somebody took away is not put back.
func TestPlainRenewal(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	const ttl = 3 * time.Second // longer than a busy machine is late with a renewal
	locks := openLocks(t, server, "", holdfast.WithTTL(ttl))
	lost, replaced := testkit.Lock(t, locks, "lost"), testkit.Lock(t, locks, "replaced")
	for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		testkit.Must(t, errors.Join(lost.Err(), replaced.Err()))
	}
	do(t, server, "DEL", "lost")
	do(t, server, "SET", "replaced", "another's", "PX", "60000")
	for _, lease := range []*holdfast.Lease{lost, replaced} {
		select {
		case <-lease.Context().Done():
		case <-time.After(soon):
			t.Fatalf("%q was taken away, and its holder still believes", lease.Name())
		}
		if err := lease.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("Unlock after a loss: %v", err)
		}
	}
	if got := do(t, server, "MGET", "lost", "replaced"); got != "[<nil> another's]" {
		t.Errorf("in the place of what was lost there is %s", got)
	}
}

// A try that landed without its answer is cleaned up by Leave, and one that lands later finds a tombstone.
func TestPlainLostAnswer(t *testing.T) {
	server := servers.Redis(t)
	s, p := openThroughProxy(t, server)
	do(t, server, "SET", "lost", "another's")
	waiter := testkit.Waiting(t, s, claim("lost"))
	do(t, server, "DEL", "lost")
	release := p.Hold(proxy.Replies)
	keepInVain(t, s, waiter)
	testkit.Await(t, "the try has landed", func() bool { return do(t, server, "EXISTS", "lost") == "1" })
	release()
	testkit.Leave(t, s, waiter)
	if do(t, server, "EXISTS", "lost") != "0" {
		t.Error("Leave left the lock behind")
	}
	testkit.Join(t, s, &waiter, store.Gone) // as the try would, that comes now
	tombstones := do(t, server, "KEYS", "holdfast:{}:left:*")
	if left := number(t, do(t, server, "PTTL", strings.Trim(tombstones, "[]"))); left <= 0 ||
		left > ttl.Milliseconds() {
		t.Errorf("the tombstones %s have %d ms left", tombstones, left)
	}
}

// openThroughProxy opens a store in plain mode behind a proxy.
func openThroughProxy(t *testing.T, server *servers.RedisServer) (*redisstore.Store, *proxy.Proxy) {
	t.Helper()
	p := testkit.Proxy(t, server.Addr())
	s, err := redisstore.OpenThrough(t.Context(), testkit.Locate(t, "redis://"+server.Addr()+"?mode=plain"), p.Addr())
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	s.Notify(func(store.ID, store.Status) {})
	return s, p
}

// keepInVain keeps a claim, and gets no answer.
func keepInVain(t *testing.T, s store.Store, c store.Claim) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Keep(ctx, []store.Claim{c}); err == nil {
		t.Fatal("Keep has an answer that was held back")
	}
}

// Who has left never tries again, also if the server could not be told.
func TestPlainLeftIsLeft(t *testing.T) {
	server := servers.Redis(t)
	s, p := openThroughProxy(t, server)
	do(t, server, "SET", "left", "another's")
	waiter := testkit.Waiting(t, s, claim("left"))
	release := p.Hold(proxy.Replies)
	keepInVain(t, s, waiter) // now one try is not known to have ended
	release()
	mend := p.Cut()
	if err := s.Leave(t.Context(), waiter); err == nil {
		t.Error("Leave over a broken link gave no error")
	}
	do(t, server, "DEL", "left")
	mend()
	reach(t, s)
	testkit.Keep(t, s, waiter, store.Gone)
}

// Of who waited in vain the server never knew anything, and so it need not be told.
func TestPlainGivenUpWait(t *testing.T) {
	server := servers.Redis(t)
	s := openPlain(t, server, "")
	s.Notify(func(store.ID, store.Status) {})
	do(t, server, "SET", "taken", "another's")
	waiter := testkit.Waiting(t, s, claim("taken"))
	before := calls(t, server, "evalsha") + calls(t, server, "eval")
	testkit.Leave(t, s, waiter)
	if n := calls(t, server, "evalsha") + calls(t, server, "eval") - before; n != 0 {
		t.Errorf("leaving took %d calls", n)
	}
	testkit.Keep(t, s, waiter, store.Gone)
	if keys := do(t, server, "KEYS", "holdfast:{}:left:*"); keys != "[]" {
		t.Errorf("it left %s", keys)
	}
}

// Tickets rise among those who are of Holdfast, whoever held in between, and through a loss of all data.
func TestPlainTicketsRise(t *testing.T) {
	server := servers.Redis(t)
	a, b := openLocks(t, server, ""), openLocks(t, server, "")
	var last holdfast.Token
	for i, locks := range []*holdfast.Client{a, b, b, a, b} {
		lease := testkit.Lock(t, locks, "tickets")
		if lease.Token() <= last {
			t.Errorf("token %v after %v", lease.Token(), last)
		}
		last = lease.Token()
		testkit.Unlock(t, lease)
		if i == 2 {
			do(t, server, "FLUSHALL")
		}
		do(t, server, "SET", "tickets", "another's", "NX")
		do(t, server, "DEL", "tickets")
	}
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	testkit.Must(t, err)
	return n
}
