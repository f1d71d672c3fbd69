package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

func TestPlainURL(t *testing.T) {
	server := servers.Redis(t)
	refuseQueries(t, "redis://"+server.Addr(), map[string]string{
		"mode=fancy":                  "mode is queue or plain",
		"mode=plain&retry=0s":         "retry is a positive duration",
		"mode=plain&retry=often":      "retry is a positive duration",
		"mode=plain&drift=0.6":        "drift is a part",
		"mode=plain&drift=NaN":        "drift is a part",
		"mode=plain&drift=1ms":        "drift is a part",
		"mode=plain&startup-delay=1s": "mode=queue",
		"mode=queue&retry=1s":         "for mode=plain",
		"drift=0.1":                   "for mode=plain",
	})
	openAt(t, "redis://"+server.Addr()+"?mode=queue")
}

// The lease is over before the key is, by the drift.
func TestPlainDrift(t *testing.T) {
	server := servers.Redis(t)
	for query, drift := range map[string]time.Duration{"": ttl / 100, "&drift=0.5": ttl / 2, "&drift=0": 0} {
		s, c := openPlain(t, server, query), claim("drift"+query)
		lasts := ttl - drift - 2*time.Millisecond
		began := time.Now()
		standing, err := s.Join(t.Context(), c)
		ended := time.Now()
		if err != nil || standing.Until.Before(began.Add(lasts)) || standing.Until.After(ended.Add(lasts)) {
			t.Errorf("%q: it lasts %v of %v from when it was asked for, want %v; %v", query, standing.Until.Sub(began),
				ttl, lasts, err)
		}
	}
}

// What plain mode lacks says which mode has it.
func TestPlainLacks(t *testing.T) {
	server := servers.Redis(t)
	locks := openLocks(t, server, "")
	ctx := t.Context()
	lease := testkit.Lock(t, locks, "lacking")
	defer lease.Unlock(ctx)
	names := func() (err error) {
		for _, err = range locks.Names(ctx, "") {
			return err
		}
		return nil
	}
	for call, err := range map[string]error{
		"RLock":     second(locks.RWMutex("r").RLock(ctx)),
		"TryRLock":  second(locks.RWMutex("r").TryRLock(ctx)),
		"Acquire":   second(locks.Semaphore("s", 3).Acquire(ctx, 1)),
		"Downgrade": second(lease.Downgrade(ctx)),
		"Names":     names(),
		"a reader":  second(openPlain(t, server, "").Join(ctx, reader("r"))),
	} {
		if !errors.Is(err, holdfast.ErrUnsupported) || !strings.Contains(err.Error(), "mode=queue") {
			t.Errorf("%s: %v, want that it is not supported, and that mode=queue has it", call, err)
		}
	}
	if writer, err := locks.RWMutex("w").Lock(ctx); err != nil {
		t.Errorf("the write side of a read-write lock: %v", err)
	} else {
		testkit.Unlock(t, writer)
	}
}

func second[T any](_ T, err error) error { return err }

// What is Holdfast's own comes with plain mode too: re-entrance, grace, looking, who leads.
func TestPlainHasTheRest(t *testing.T) {
	server := servers.Redis(t)
	locks := openLocks(t, server, "", holdfast.WithLabel("nightly"), holdfast.WithTTL(20*time.Second))
	ctx := t.Context()
	outer := testkit.Lock(t, locks, "again", holdfast.WithReentrance(), holdfast.WithGrace(40*time.Second))
	inner, err := locks.Mutex("again", holdfast.WithReentrance()).Lock(outer.Context())
	if err != nil || inner.Token() != outer.Token() {
		t.Fatalf("re-entered: %v", err)
	}
	if _, err := locks.Mutex("again").Lock(outer.Context()); !errors.Is(err, holdfast.ErrReentered) {
		t.Errorf("taken again without the option: %v", err)
	}
	if left := number(t, do(t, server, "PTTL", "again")); left < 40_000 {
		t.Errorf("a ttl of 20s with a grace of 40s: the key has %d ms left", left)
	}
	line, err := locks.Inspect(ctx, "again")
	if err != nil || len(line.Entries) != 1 {
		t.Fatalf("Inspect: %+v, %v", line, err)
	}
	holder := line.Entries[0]
	if holder.Token != outer.Token() || !holder.Held || holder.Owner.Label != "nightly" || holder.Owner.PID == 0 ||
		time.Since(holder.Since).Abs() > testkit.Patience || holder.Left <= 0 {
		t.Errorf("Inspect shows %+v", holder)
	}
	testkit.Unlock(t, inner)
	if do(t, server, "EXISTS", "again") != "1" {
		t.Error("the inner Unlock released it")
	}
	testkit.Unlock(t, outer)

	leads, err := locks.Election("chief").Campaign(ctx)
	testkit.Must(t, err)
	if leader, err := locks.Election("chief").Leader(ctx); err != nil || leader.Info != "nightly" ||
		leader.Token != leads.Token() {
		t.Errorf("the leader is %+v, %v", leader, err)
	}
	testkit.Unlock(t, leads)
	if line, err := locks.Inspect(ctx, "again"); err != nil || len(line.Entries) != 0 {
		t.Errorf("released, and Inspect shows %+v, %v", line, err)
	}
}

// A program can give values of its own, and others can go by them.
func TestPlainValue(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	client := handIn(t, server.Addr())
	same := ""
	value := redisstore.WithValue(func(c store.Claim) string {
		if same != "" {
			return same
		}
		return c.Owner.Label + "-" + c.ID.String()
	})
	s, err := redisstore.New(t.Context(), client, redisstore.WithPlainMode(), redisstore.WithPrefix("lock:"),
		redisstore.WithRetry(20*time.Millisecond), redisstore.WithDrift(0.02), value)
	testkit.Must(t, err)
	const ttl = 3 * time.Second // longer than a busy machine is late with a renewal
	locks := holdfast.New(s, holdfast.WithLabel("mine"), holdfast.WithTTL(ttl))
	defer locks.Close()
	lease := testkit.Lock(t, locks, "valued")
	mine := do(t, server, "GET", "lock:valued")
	if !strings.HasPrefix(mine, "mine-") || len(mine) != len("mine-")+32 {
		t.Errorf("the value is %q", mine)
	}
	time.Sleep(2 * ttl) // that is what it has to outlast
	testkit.Check(t, lease.Err())
	if err := locks.Break(t.Context(), "valued", lease.Token()); !errors.Is(err, holdfast.ErrUnsupported) {
		t.Errorf("Break of a value that has no ticket: %v", err)
	}
	testkit.Unlock(t, lease)
	if do(t, server, "EXISTS", "lock:valued") != "0" {
		t.Error("it was not released")
	}

	// A program whose values are not unique breaks its own locks, but it does not get in twice.
	same = "same"
	lease = testkit.Lock(t, locks, "valued")
	if _, err := locks.Mutex("valued").TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("TryLock with the value of the holder: %v", err)
	}
	testkit.Unlock(t, lease)
	empty, err := redisstore.New(t.Context(), client, redisstore.WithPlainMode(),
		redisstore.WithValue(func(store.Claim) string { return "" }))
	testkit.Must(t, err)
	defer empty.Close()
	if _, err := empty.Join(t.Context(), claim("empty")); !store.Final(err) {
		t.Errorf("an empty value: %v", err)
	}
}

// A claim that joins again, because an answer was lost, has the ticket that it had, whoever made its value.
func TestPlainJoinsAgain(t *testing.T) {
	server := servers.Redis(t)
	s, err := redisstore.New(t.Context(), handIn(t, server.Addr()), redisstore.WithPlainMode(),
		redisstore.WithValue(func(c store.Claim) string { return c.ID.String() }))
	testkit.Must(t, err)
	defer s.Close()
	for _, s := range []*redisstore.Store{s, openPlain(t, server, "")} {
		c := testkit.Held(t, s, claim("again"))
		first := c.Ticket
		if testkit.Join(t, s, &c, store.Held); c.Ticket != first {
			t.Errorf("joining again gave ticket %d, and before it was %d", c.Ticket, first)
		}
		if kept := testkit.Ask(t, s, c); kept.State != store.Held || kept.Ticket != first {
			t.Errorf("Keep: %v with ticket %d, want held with %d", kept.State, kept.Ticket, first)
		}
		testkit.Leave(t, s, c)
	}
}

func TestPlainOptionsAreForPlainMode(t *testing.T) {
	client := handIn(t, servers.Redis(t).Addr())
	for _, option := range []redisstore.Option{redisstore.WithRetry(time.Second), redisstore.WithDrift(0.1),
		redisstore.WithValue(nil)} {
		if _, err := redisstore.New(t.Context(), client, option); !errors.Is(err, store.ErrUnsupported) {
			t.Errorf("New with an option of plain mode: %v", err)
		}
	}
	for _, option := range []redisstore.Option{redisstore.WithRetry(0), redisstore.WithDrift(-1),
		redisstore.WithPrefix("\x00"), redisstore.WithStartupDelay(time.Second)} {
		if _, err := redisstore.New(t.Context(), client, redisstore.WithPlainMode(), option); err == nil {
			t.Error("New took an option that is wrong")
		}
	}
}

// A key of Holdfast's own is no name.
func TestPlainOwnKeys(t *testing.T) {
	server := servers.Redis(t)
	if _, err := openLocks(t, server, "").Mutex("holdfast:{}:mark").TryLock(t.Context()); !errors.Is(err,
		holdfast.ErrBadName) {
		t.Errorf("%v, want a bad name", err)
	}
	if _, err := openLocks(t, server, "&prefix=hold").Mutex("fast:{x").TryLock(t.Context()); !errors.Is(err,
		holdfast.ErrBadName) {
		t.Errorf("behind a prefix: %v, want a bad name", err)
	}
}

// Plain mode and a queue do not see each other, which the documentation says loudly.
func TestPlainAndLineAreApart(t *testing.T) {
	server := servers.Redis(t)
	plain, line := openPlain(t, server, ""), openAt(t, "redis://"+server.Addr())
	testkit.Held(t, plain, claim("same"))
	testkit.Held(t, line, claim("same"))
	if plain.Abilities().Identity == line.Abilities().Identity {
		t.Error("they have one identity, as if they saw each other")
	}
}

// To move from plain mode to a queue without a pause, a release in between takes both. So each excludes the one before
// it.
func TestPlainThenBothThenLine(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	plain, line := openLocks(t, server, ""), holdfast.New(openAt(t, "redis://"+server.Addr()))
	defer line.Close()
	ctx := t.Context()
	takes := map[string]func(wait holdfast.Option) (unlocker, error){
		"plain": func(wait holdfast.Option) (unlocker, error) { return plain.Mutex("moved", wait).Lock(ctx) },
		"both": func(wait holdfast.Option) (unlocker, error) {
			return holdfast.LockAll(ctx, plain.Mutex("moved", wait), line.Mutex("moved"))
		},
		"line": func(wait holdfast.Option) (unlocker, error) { return line.Mutex("moved", wait).Lock(ctx) },
	}
	for _, pair := range [][2]string{{"plain", "both"}, {"both", "plain"}, {"both", "line"}, {"line", "both"}, {"both",
		"both"}} {
		held, err := takes[pair[0]](holdfast.WithWait(testkit.Patience))
		if err != nil {
			t.Fatalf("%s: %v", pair[0], err)
		}
		if _, err := takes[pair[1]](holdfast.WithWait(time.Second)); !errors.Is(err, holdfast.ErrLocked) {
			t.Errorf("%s while %s holds: %v, want that it is locked", pair[1], pair[0], err)
		}
		testkit.Check(t, held.Unlock(ctx))
	}
}

// On the way from plain to line, the token of the queue is the one for fences: the plain lock is taken first, and both
// draw from one mark.
func TestTokensRiseFromPlainToLine(t *testing.T) {
	server := servers.Redis(t)
	plain, line := openLocks(t, server, ""), holdfast.New(openAt(t, "redis://"+server.Addr()))
	defer line.Close()
	ctx := t.Context()
	last := holdfast.Token(0)
	drawn := func(release string, token holdfast.Token) {
		if token <= last {
			t.Errorf("release %s has token %v, and before it was %v", release, token, last)
		}
		last = token
	}
	for range 5 {
		lease := testkit.Lock(t, plain, "moved")
		drawn("A", lease.Token())
		testkit.Unlock(t, lease)
		both, err := holdfast.LockAll(ctx, plain.Mutex("moved"), line.Mutex("moved"))
		testkit.Must(t, err)
		drawn("B, its plain lock", both.Tokens()[0])
		drawn("B", both.Tokens()[1])
		testkit.Must(t, both.Unlock(ctx))
		lease = testkit.Lock(t, line, "moved")
		drawn("C", lease.Token())
		testkit.Unlock(t, lease)
	}
}

// An unlocker is a lease, or several.
type unlocker interface {
	Unlock(ctx context.Context) error
}

// A prefix is put before the name as it is, so that another library's key can be named at all. So two prefixes can come
// to mean the same key: then it is one lock, with one mark and one channel.
func TestPlainPrefixesRunTogether(t *testing.T) {
	server := servers.Redis(t)
	short, long := openLocks(t, server, "&prefix=a"+never), openLocks(t, server, "&prefix=ab"+never)
	lease := testkit.Lock(t, short, "bc")
	got := locking(t, long, "c")
	waitsFor(t, server, "abc")
	testkit.Unlock(t, lease)
	next := woken(t, got)
	if next.Token() <= lease.Token() {
		t.Errorf("token %v after %v", next.Token(), lease.Token())
	}
	testkit.Unlock(t, next)
}

// plainACL is the one of the package's documentation.
var plainACL = strings.Fields("on >secret resetkeys ~lock:* ~holdfast:{}:* resetchannels &holdfast:{}:push:* -@all " +
	"+ping +info +time +select +subscribe +unsubscribe +publish +eval +evalsha +get +set +incr +del +exists " +
	"+pexpire +pttl")

// plainTour does all that can be done in plain mode.
func plainTour(ctx context.Context, at store.Location) error {
	s, err := store.Open(ctx, at)
	if err != nil {
		return err
	}
	locks := holdfast.New(s)
	defer locks.Close()
	first, err := locks.Mutex("tour").Lock(ctx)
	if err != nil {
		return err
	}
	_, tried := locks.Mutex("tour").TryLock(ctx)
	if !errors.Is(tried, holdfast.ErrLocked) {
		return tried
	}
	kept := claim("kept")
	if _, err := s.Join(ctx, kept); err != nil {
		return err
	}
	standings, err := s.Keep(ctx, []store.Claim{kept})
	if err != nil {
		return err
	}
	if err := standings[0].Err; err != nil {
		return err
	}
	if err := s.Leave(ctx, claim("kept")); err != nil { // with a tombstone
		return err
	}
	if _, err := locks.Inspect(ctx, "tour"); err != nil {
		return err
	}
	return locks.Break(ctx, "tour", first.Token())
}

func TestPlainACL(t *testing.T) {
	server := servers.Redis(t)
	at := testkit.Locate(t, "redis://me:secret@"+server.Addr()+"/1?mode=plain&prefix=lock:")
	set := func(rules []string) {
		do(t, server, append([]string{"ACL", "SETUSER", "me", "reset"}, rules...)...)
		do(t, server, "ACL", "LOG", "RESET")
	}
	set(plainACL)
	testkit.Check(t, plainTour(t.Context(), at))
	if got := do(t, server, "ACL", "LOG"); got != "[]" {
		t.Errorf("the server refused: %s", got)
	}
	for i, rule := range plainACL {
		// rueidis pings when it is idle, and channels are left when there are many.
		if !strings.ContainsAny(rule[:1], "+~&") || slices.Contains([]string{"+ping", "+unsubscribe"}, rule) {
			continue
		}
		do(t, server, "FLUSHALL")
		do(t, server, "SCRIPT", "FLUSH")
		set(slices.Delete(slices.Clone(plainACL), i, i+1))
		if err := plainTour(t.Context(), at); err == nil || !strings.Contains(err.Error(), "lacks a permission") {
			t.Errorf("without %s: %v", rule, err)
		}
	}
}
