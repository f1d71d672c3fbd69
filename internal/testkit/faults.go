package testkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// Secret is the password that tests put into URLs. No error may repeat it.
const Secret = "secret"

// CheckFault checks that err is a fault, final or not, whose text has all of these words. It must not contain Secret,
// nor match holdfast.ErrLocked.
func CheckFault(t testing.TB, err error, final bool, words ...string) {
	t.Helper()
	if _, ok := errors.AsType[*store.Fault](err); !ok {
		t.Errorf("%v, which is no *store.Fault", err)
		return
	}
	if store.Final(err) != final {
		t.Errorf("%v: final is %t, want %t", err, !final, final)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v, which does not say %q", err, word)
		}
	}
	if strings.Contains(err.Error(), Secret) {
		t.Errorf("%v, which has the password", err)
	}
	if errors.Is(err, holdfast.ErrLocked) || strings.Contains(err.Error(), "locked") {
		t.Errorf("%v, which can be taken for contention", err)
	}
}

// CheckMasked checks that a URL with Secret as its password cannot be opened, and that the error has the URL without
// it.
func CheckMasked(t testing.TB, url string) {
	t.Helper()
	locks, err := holdfast.Open(t.Context(), url)
	if err == nil {
		locks.Close()
	}
	masked := strings.Replace(url, ":"+Secret+"@", ":xxxxx@", 1)
	if err == nil || strings.Contains(err.Error(), Secret) || !strings.Contains(err.Error(), masked) {
		t.Errorf("%v", err)
	}
}

// OpenError returns the error of opening the store at a URL. The test fails if it can be opened.
func OpenError(t testing.TB, url string) error {
	t.Helper()
	s, err := store.Open(t.Context(), Locate(t, url))
	if err == nil {
		s.Close()
		t.Fatalf("%s: it could be opened", Locate(t, url))
	}
	return err
}

// CheckOpenEnds checks that opening the store at a URL where nothing responds ends with its context.
func CheckOpenEnds(t testing.TB, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	checkBrief(t, fmt.Sprint(Locate(t, url)), 3*time.Second, func() { // some libraries take a second to end
		if _, err := store.Open(ctx, Locate(t, url)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want %v", err, context.DeadlineExceeded)
		}
	})
	cancel()
	if _, err := store.Open(ctx, Locate(t, url)); !errors.Is(err, ctx.Err()) {
		t.Errorf("with a context that is done: %v", err)
	}
}

// CheckSessionTTL checks that all locks of a store have the ttl of its session: a request for a shorter ttl fails, and
// a request for a longer one gets the session's. It closes the store.
func CheckSessionTTL(t testing.TB, s store.Store, ttl time.Duration) {
	t.Helper()
	if a := s.Abilities(); a.SessionTTL != ttl || a.MinTTL != ttl {
		t.Errorf("the abilities say %v and %v, want %v", a.SessionTTL, a.MinTTL, ttl)
	}
	locks := holdfast.New(s)
	defer locks.Close()
	_, err := locks.Mutex("short", holdfast.WithTTL(ttl-time.Second)).Lock(t.Context())
	if !errors.Is(err, holdfast.ErrBadTTL) || !strings.Contains(err.Error(), ttl.String()) {
		t.Errorf("a lock with less than the session: %v", err)
	}
	lease := Lock(t, locks, "long", holdfast.WithTTL(ttl+time.Minute))
	if left := time.Until(lease.Until()); left > ttl {
		t.Errorf("a lock is believed for %v in a session of %v", left, ttl)
	}
}

// RefuseURLs checks that none of these URLs can be opened, and that each error has the words given for it.
func RefuseURLs(t testing.TB, urls map[string]string) {
	t.Helper()
	for url, words := range urls {
		locks, err := holdfast.Open(t.Context(), url)
		if err == nil {
			locks.Close()
		}
		switch {
		case err == nil || !strings.Contains(err.Error(), words) || !strings.HasPrefix(err.Error(), "holdfast: "):
			t.Errorf("%s: %v, which does not say %q", url, err, words)
		case strings.Contains(err.Error(), Secret):
			t.Errorf("%v, which has the password", err)
		}
	}
}

// Calls returns each of a store's calls.
func Calls(s store.Store, c store.Claim) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Join":  func(ctx context.Context) error { _, err := s.Join(ctx, c); return err },
		"Keep":  func(ctx context.Context) error { _, err := s.Keep(ctx, []store.Claim{c}); return err },
		"Leave": func(ctx context.Context) error { return s.Leave(ctx, c) },
		"Break": func(ctx context.Context) error { return s.Break(ctx, c.Name, 1) },
		"Line":  func(ctx context.Context) error { _, err := s.Queue(ctx, c.Name); return err },
		"Names": func(ctx context.Context) error {
			for _, err := range s.Names(ctx, "") {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// CheckHelpless checks that no call of a store whose servers have no majority does anything, nor takes long. held is a
// claim that it holds. Errors that are not those of a context have these words.
func CheckHelpless(t testing.TB, s store.Store, held store.Claim, words ...string) {
	t.Helper()
	calls := Calls(s, Claim("unlucky", held.TTL))
	calls["Keep of what is held"] = Calls(s, held)["Keep"]
	for name, call := range calls {
		if err := callWithin(t, name, 200*time.Millisecond, call); !errors.Is(err, context.DeadlineExceeded) {
			CheckFault(t, err, false, words...)
		}
	}
	for _, try := range []bool{false, true} {
		bounded := Claim("unlucky", 200*time.Millisecond)
		bounded.Try = try
		_, err := s.Join(t.Context(), bounded)
		CheckFault(t, err, false, words...)
	}
}

// CheckSilent checks that no call of a store whose server does not respond takes longer than its context, or than the
// ttl of the claim, and that the error has these words then. It closes the store, which ends too.
func CheckSilent(t testing.TB, s store.Store, c store.Claim, words ...string) {
	t.Helper()
	for name, call := range Calls(s, c) {
		err := callWithin(t, name, 50*time.Millisecond, call)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want %v", name, err, context.DeadlineExceeded)
		}
	}
	for _, name := range []string{"Join", "Keep", "Leave"} {
		checkBrief(t, fmt.Sprintf("%s with a ttl of %v", name, c.TTL), 5*time.Second, func() {
			CheckFault(t, Calls(s, c)[name](context.Background()), false, words...)
		})
	}
	checkBrief(t, "Close", 5*time.Second, func() { s.Close() })
}

// checkBrief checks that a call takes no longer than limit.
func checkBrief(t testing.TB, what string, limit time.Duration, call func()) {
	t.Helper()
	began := time.Now()
	call()
	if took := time.Since(began); took > limit {
		t.Errorf("%s took %v", what, took)
	}
}

// callWithin makes a call with a context that ends after limit, checks that it does not take much longer, and returns
// its error.
func callWithin(t testing.TB, name string, limit time.Duration, call func(context.Context) error) (err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	checkBrief(t, name, 2*time.Second, func() { err = call(ctx) })
	return err
}

// CheckClosed closes a store twice, and checks that every call returns store.ErrClosed then.
func CheckClosed(t testing.TB, s store.Store, held store.Claim) {
	t.Helper()
	for range 2 {
		Check(t, s.Close())
	}
	for name, call := range Calls(s, held) {
		if err := call(t.Context()); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s of a store that was closed: %v", name, err)
		}
	}
}

// Nobody returns an address where no server listens, until the test ends: its port is that of a client.
func Nobody(t testing.TB) string {
	t.Helper()
	client, err := net.Dial("tcp", Silent(t))
	Must(t, err)
	t.Cleanup(func() { client.Close() })
	return client.LocalAddr().String()
}

// Silent returns an address where connections are accepted and nothing responds.
func Silent(t testing.TB) string {
	t.Helper()
	return listen(t).Addr().String() // the kernel accepts for it
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// CheckWorks checks that Tour returns no error.
func CheckWorks(t testing.TB, s store.Store) {
	t.Helper()
	Check(t, Tour(t.Context(), s))
}

// Tour makes every call of a store with queues, with several claims of one client, and returns the first error.
func Tour(ctx context.Context, s store.Store) error {
	told := Listen(s)
	var err error
	join := func(c *store.Claim, want store.State) {
		status, e := s.Join(ctx, *c)
		if c.Ticket = status.Ticket; e == nil && status.State != want {
			e = fmt.Errorf("it is %v, want %v", status.State, want)
		}
		err = cmp.Or(err, e)
	}
	keep := func(c *store.Claim, want store.State) {
		if err != nil {
			return
		}
		statuses, e := s.Keep(ctx, []store.Claim{*c})
		if e == nil && statuses[0].State != want {
			e = cmp.Or(statuses[0].Err, fmt.Errorf("it is %v, want %v", statuses[0].State, want))
		}
		err = e
	}
	claim := func(name string) store.Claim { return Claim(name, time.Minute) }
	alone, holder, waiter, hasty, ghost := claim("alone"), claim("tour"), claim("tour"), claim("tour"), claim("tour")
	hasty.Try = true
	join(&alone, store.Held)
	keep(&alone, store.Held)
	err = cmp.Or(err, s.Leave(ctx, alone))
	join(&holder, store.Held)
	join(&waiter, store.Waiting)
	join(&hasty, store.Gone)
	err = cmp.Or(err, s.Leave(ctx, ghost)) // its Join may still come
	holder.Turn = 1
	keep(&holder, store.Held) // with news
	l, e := s.Queue(ctx, "tour")
	if err = cmp.Or(err, e); err == nil && (len(l.Entries) != 2 || l.Entries[0].Turn != 1 || l.Entries[0].Left <= 0) {
		err = fmt.Errorf("the line is %+v", l)
	}
	for name, e := range s.Names(ctx, "t") {
		if err = cmp.Or(err, e); err == nil && name != "tour" {
			err = fmt.Errorf("a name is %q", name)
		}
	}
	err = cmp.Or(err, s.Break(ctx, "tour", holder.Ticket))
	for granted := false; err == nil && !granted; { // the holder may be notified of its loss, too
		select {
		case id := <-told:
			granted = id == waiter.ID || id == store.Everyone // then every claim must be kept
		case <-time.After(Patience):
			err = errors.New("the waiter was not told")
		}
	}
	keep(&holder, store.Gone)
	keep(&waiter, store.Held)
	return cmp.Or(err, s.Leave(ctx, waiter))
}
