package sqlite

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// open opens an engine for tests that go beneath the store.
func open(t testing.TB, path string, options ...Option) *engine {
	t.Helper()
	e, err := newEngine(t.Context(), path, options...)
	check(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "locks.db") }

var nextID byte

// newClaim is a claim for a mutex.
func newClaim(name string) *store.Claim {
	nextID++
	return &store.Claim{
		ID: store.ID{1, 15: nextID}, Name: name, TTL: 5 * time.Second, Owner: &store.Owner{Label: "test"},
		Demand: store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders},
	}
}

func join(t testing.TB, e *engine, c *store.Claim, want store.State) uint64 {
	t.Helper()
	a, err := e.Join(t.Context(), c)
	if err != nil || a.State != want {
		t.Fatalf("Join(%q): %v, %v; want %v", c.Name, a.State, err, want)
	}
	c.Ticket = a.Ticket
	return a.Ticket
}

// joined is a claim for a mutex that has joined.
func joined(t testing.TB, e *engine, name string, want store.State) *store.Claim {
	t.Helper()
	c := newClaim(name)
	join(t, e, c, want)
	return c
}

// keep keeps a claim, and demands where it stands.
func keep(t *testing.T, e *engine, c *store.Claim, want store.State) {
	t.Helper()
	if a, err := e.Keep(t.Context(), []store.Claim{*c}); err != nil || a[0].State != want {
		t.Errorf("the claim stands at %+v, %v; want %v", a, err, want)
	}
}

// above demands that a ticket is above another one.
func above(t *testing.T, before, ticket uint64) uint64 {
	t.Helper()
	if ticket <= before {
		t.Errorf("ticket %d after %d", ticket, before)
	}
	return ticket
}

// TestBelt bypasses the code: even writes to the tables by hand cannot make two exclusive holders.
func TestBelt(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	join(t, e, newClaim("x"), store.Held)
	second := joined(t, e, "x", store.Waiting)

	for what, statement := range map[string]string{
		"granting a second":     "UPDATE holdfast_claims SET state = 'held', seat = 0 WHERE state = 'waiting'",
		"a holder off its seat": "UPDATE holdfast_claims SET state = 'held' WHERE state = 'waiting'",
		"a copy of the holder": `INSERT INTO holdfast_claims (prefix, name, seat, ticket, id, state, kind, units,
			capacity,
			deadline, ttl, grace, since, turn, inbox, waits, details, format)
			SELECT prefix, name, seat, ticket + 1, 'another', state, kind, units, capacity,
			deadline, ttl, grace, since, turn, inbox, waits, details, format FROM holdfast_claims WHERE state = 'held'`,
	} {
		if err := tryOperate(path, statement); err == nil || !strings.Contains(err.Error(), "constraint failed") {
			t.Errorf("%s: %v, want a constraint that forbids it", what, err)
		}
	}
	keep(t, e, second, store.Waiting)
}

// TestReadableByPeople: what an operator sees in a database shell.
func TestReadableByPeople(t *testing.T) {
	path := newPath(t)
	locks := openClient(t, path, holdfast.WithLabel("nightly"))
	defer lock(t, locks, "report").Unlock(t.Context())
	var name, state, label, since string
	var pid int
	_, err := visit(
		t,
		path,
	).one("SELECT name, state, label, pid, since FROM holdfast_queues", nil, &name, &state, &label, &pid, &since)
	if err != nil || name != "report" || state != "held" || label != "nightly" || pid != os.Getpid() ||
		len(since) != len(time.DateTime) {
		t.Errorf("%q %q %q %d %q, %v", name, state, label, pid, since, err)
	}
}

// TestFileMode: a new file, its log and its sockets are for their owner only.
func TestFileMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has other rights")
	}
	path := newPath(t)
	e := open(t, path)
	join(t, e, newClaim("x"), store.Held)
	if !e.Listen() {
		t.Fatal("no socket")
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-wake"} {
		info, err := os.Stat(path + suffix)
		check(t, err)
		if others := info.Mode().Perm() & 0o077; others != 0 {
			t.Errorf("%s has mode %v", path+suffix, info.Mode())
		}
	}
}

// TestMachineStartedAnew: claims of before are void, tickets go on rising, also if the clock was set back meanwhile.
func TestMachineStartedAnew(t *testing.T) {
	path := newPath(t)
	first := open(t, path)
	old := joined(t, first, "x", store.Held)
	check(t, first.Close())
	second := open(t, path, started("another start", 0), clockAt(-48*time.Hour))
	above(t, old.Ticket, join(t, second, newClaim("x"), store.Held))
	keep(t, second, old, store.Gone)
}

// started makes an engine believe that its machine was started at another time.
func started(boot string, ago time.Duration) Option {
	return func(e *engine) {
		now := e.clock.now
		start := now()
		e.clock = clock{boot: boot, now: func() time.Duration { return now() - start + ago }}
	}
}

// clockAt sets an engine's clock on the wall.
func clockAt(ahead time.Duration) Option {
	return func(e *engine) { e.wall = func() time.Time { return time.Now().Add(ahead) } }
}

// TestAnotherMachine: two machines that write to one file would not agree on the time. The client that notices it
// stops.
func TestAnotherMachine(t *testing.T) {
	path := newPath(t)
	here := open(t, path)
	join(t, here, newClaim("x"), store.Held)
	open(t, path, started("elsewhere", time.Hour))
	_, err := here.Join(t.Context(), newClaim("y"))
	if err == nil || !store.Final(err) || !strings.Contains(err.Error(), "another machine") {
		t.Errorf("got %v", err)
	}
}

// TestClockSetBack: a ticket is above the last one, whatever the clock says.
func TestClockSetBack(t *testing.T) {
	path := newPath(t)
	before := join(t, open(t, path), newClaim("x"), store.Held)
	above(t, before, join(t, open(t, path, clockAt(-time.Hour)), newClaim("y"), store.Held))
}

// TestFloorMovesEverybody: a ticket above one client's floor is below the next ticket of all clients.
func TestFloorMovesEverybody(t *testing.T) {
	path := newPath(t)
	a, b := open(t, path), open(t, path)
	high := newClaim("x")
	high.Floor = uint64(time.Now().Add(time.Hour).UnixMicro())
	first := above(t, high.Floor, join(t, a, high, store.Held))
	above(t, first, join(t, b, newClaim("y"), store.Held))
}

// TestReplacedFile: when the file is deleted and made anew, the old holder learns at its next renewal that it holds
// nothing, and tokens still rise.
func TestReplacedFile(t *testing.T) {
	path := newPath(t)
	locks := openClient(t, path, holdfast.WithTTL(300*time.Millisecond))
	lease := lock(t, locks, "x")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		check(t, os.Remove(path+suffix))
	}
	second := lock(t, openClient(t, path), "x")
	if second.Token() <= lease.Token() {
		t.Errorf("token %v after %v", second.Token(), lease.Token())
	}
	select {
	case <-lease.Context().Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the old holder was not told")
	}
	check(t, second.Unlock(t.Context()))
}

// occupy keeps an engine's worker busy until release.
func occupy(t *testing.T, e *engine) (release func()) {
	t.Helper()
	begun, end := make(chan struct{}), make(chan struct{})
	done := later(func() error {
		_, err := write(context.Background(), e, func(*transaction) (int, error) { close(begun); <-end; return 0, nil })
		return err
	})
	<-begun
	return func() { close(end); check(t, <-done) }
}

// TestSlowDisk: a call returns when its context is done, also while the disk makes the one before it wait. What had
// not begun does not happen any more.
func TestSlowDisk(t *testing.T) {
	e := open(t, newPath(t))
	release := occupy(t, e)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	c := newClaim("x")
	if _, err := e.Join(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	release()
	l, err := e.Queue(t.Context(), "x")
	if err != nil || len(l.Entries) != 0 {
		t.Errorf("the line has %d places, %v", len(l.Entries), err)
	}
}

// TestWithoutSockets: where no socket can be had, a waiter looks by itself, and soon.
func TestWithoutSockets(t *testing.T) {
	path := newPath(t)
	deaf := open(t, path, func(e *engine) { e.notifier.folder = filepath.Join(path, "not a folder") })
	other := open(t, path)
	holder, waiter := newClaim("x"), newClaim("x")
	join(t, other, holder, store.Held)
	s := newStore(deaf)
	defer s.Close()
	granted := make(chan store.Status, 1)
	s.Notify(func(id store.ID, status store.Status) {
		if id == waiter.ID {
			granted <- status
		}
	})
	if status, err := s.Join(t.Context(), *waiter); err != nil || status.State != store.Waiting {
		t.Fatalf("%v, %v", status.State, err)
	}
	if deaf.Listen() {
		t.Fatal("it has a socket")
	}
	given := time.Now()
	check(t, other.Leave(t.Context(), holder))
	select {
	case status := <-granted:
		if status.State != store.Held {
			t.Errorf("told %v", status.State)
		}
		if took := time.Since(given); took > time.Second {
			t.Errorf("it took %v", took)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("never told")
	}
}

// TestLongPath: a socket's address is short, a path need not be.
func TestLongPath(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a way around it; elsewhere waiters look by themselves")
	}
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40), "odd ?#%41 'name'")
	check(t, os.MkdirAll(dir, 0o700))
	path := filepath.Join(dir, "locks.db")
	a, b := open(t, path), open(t, path)
	holder, waiter := newClaim("x"), newClaim("x")
	join(t, a, holder, store.Held)
	told := heard(t, b)
	join(t, b, waiter, store.Waiting)
	check(t, a.Leave(t.Context(), holder))
	wantPush(t, told, waiter.ID)
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file is elsewhere: %v", err)
	}
}

// TestHostileInbox: a name in the table is never a path out of the folder.
func TestHostileInbox(t *testing.T) {
	b := notifier{folder: filepath.Join(t.TempDir(), "wake")}
	for _, inbox := range []string{"../../etc/passwd", "/etc/passwd", "..", ".", "", `a\b`, "a/b"} {
		_ = b.at(inbox, func(a *net.UnixAddr) error { t.Errorf("%q is at %s", inbox, a.Name); return nil })
	}
}

// TestClosed: calls after Close, and those that were under way, get ErrClosed.
func TestClosed(t *testing.T) {
	e := open(t, newPath(t))
	release := occupy(t, e)
	late := joinLater(t.Context(), e, newClaim("x"))
	waitForJobs(t, e, 1)
	closed := later(e.Close)
	if err := <-late; !errors.Is(err, store.ErrClosed) {
		t.Errorf("under way: %v", err)
	}
	release()
	check(t, <-closed)
	if _, err := e.Join(t.Context(), newClaim("x")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("after it: %v", err)
	}
}

// TestRestOfTheFile: the file may have other tables, which are left alone.
func TestRestOfTheFile(t *testing.T) {
	path := newPath(t)
	operate(t, path, "CREATE TABLE stock (item TEXT, left INTEGER)")
	operate(t, path, "INSERT INTO stock VALUES ('chair', 7)")
	e := open(t, path)
	join(t, e, newClaim("x"), store.Held)
	var left int
	if _, err := visit(t, path).one("SELECT left FROM stock", nil, &left); err != nil || left != 7 {
		t.Errorf("%d, %v", left, err)
	}
}
