package sqlite

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func openClient(t testing.TB, path string, options ...holdfast.Option) *holdfast.Client {
	t.Helper()
	locks, err := holdfast.Open(t.Context(), "sqlite:"+path, options...)
	check(t, err)
	t.Cleanup(func() { locks.Close() })
	return locks
}

func lock(t testing.TB, locks *holdfast.Client, name string) *holdfast.Lease {
	t.Helper()
	lease, err := locks.Mutex(name).Lock(t.Context())
	check(t, err)
	return lease
}

// killInTurn has processes wait for one lock, and kills each as soon as it holds the lock and the next one waits. The
// next must have it within most, with a greater token. It returns the last one.
func killInTurn(t *testing.T, locks *holdfast.Client, path string, ttl, most time.Duration) *child {
	t.Helper()
	first := startHolder(t, path, "x", ttl)
	seen := first.token(t)
	if _, err := locks.Mutex("x").TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
		t.Fatalf("while another process holds it: %v", err)
	}
	for range 3 {
		next := startHolder(t, path, "x", ttl)
		waiters(t, locks, "x", 1)
		killed := time.Now()
		first.bury()
		token := next.token(t)
		if waited := time.Since(killed); waited > most {
			t.Errorf("the next process waited for %v after the kill, with a ttl of %v", waited, ttl)
		}
		if token <= seen {
			t.Errorf("token %v after %v", token, seen)
		}
		first, seen = next, token
	}
	return first
}

// TestKilledHolder: two processes are excluded from each other, and the death of either, at kill -9, frees what it
// held after its ttl at the latest.
func TestKilledHolder(t *testing.T) {
	const ttl = 2 * time.Second
	path := newPath(t)
	locks := openClient(t, path, holdfast.WithTTL(ttl))
	last := killInTurn(t, locks, path, ttl, 3*ttl)
	last.in.Close()
	check(t, last.Wait())
	lease, err := locks.Mutex("x").TryLock(t.Context())
	if err != nil {
		t.Fatalf("after it was given back: %v", err)
	}
	check(t, lease.Unlock(t.Context()))
}

// TestWakeAcrossProcesses: a release in one process wakes the waiter in another at once, by a datagram. On a machine
// that is busy, one of a few is woken so soon.
func TestWakeAcrossProcesses(t *testing.T) {
	path := newPath(t)
	locks := openClient(t, path, holdfast.WithTTL(30*time.Second))
	quickest := time.Hour
	for try := 0; try < 5 && quickest > lookSlowly; try++ {
		lease := lock(t, locks, "x")
		h := startHolder(t, path, "x", 2*time.Second)
		waiters(t, locks, "x", 1)
		time.Sleep(lookSlowly) // it looks once at the beginning, and that is not what is asked for here
		given := time.Now()
		check(t, lease.Unlock(t.Context()))
		h.token(t)
		quickest = min(quickest, time.Since(given))
		h.in.Close() // it gives the lock back
	}
	if quickest > lookSlowly {
		t.Errorf("it took %v: nobody was told, and the second look found it", quickest)
	}
}

const lookSlowly = 50 * time.Millisecond // much less than sqlstore's, which looks once at the beginning

// waiters waits until so many wait.
func waiters(t *testing.T, locks *holdfast.Client, name string, want int) {
	t.Helper()
	eventually(t, "somebody waits", func() bool {
		line, err := locks.Inspect(t.Context(), name)
		check(t, err)
		return len(line.Waiters()) >= want
	})
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// TestKillStorm: processes that add to a number under the lock, while others are killed at any moment. Nothing that
// was added is lost, and the file stays usable.
func TestKillStorm(t *testing.T) {
	path, number := newPath(t), filepath.Join(t.TempDir(), "number")
	check(t, os.WriteFile(number, []byte("0"), 0o600))
	var counters [4]*child
	for i := range counters {
		counters[i] = startChild(t, "count", path, number)
	}
	for n := range 12 {
		victim := startHolder(t, path, "count", 300*time.Millisecond)
		time.Sleep(time.Duration(n%6) * 10 * time.Millisecond) // the moment is meant to be any
		check(t, victim.Process.Kill())
		if err := victim.Wait(); err == nil {
			t.Error("the process was not killed but ended")
		}
	}
	for _, c := range counters {
		if err := c.Wait(); err != nil {
			t.Errorf("a counting process: %v", err)
		}
	}
	text, err := os.ReadFile(number)
	if want := "200"; err != nil || string(text) != want {
		t.Errorf("the number is %s (%v), want %s", text, err, want)
	}
	checkFile(t, path)
}

// checkFile lets SQLite itself check the file.
func checkFile(t *testing.T, path string) {
	t.Helper()
	var verdict string
	if _, err := visit(t, path).one("PRAGMA integrity_check", nil, &verdict); err != nil || verdict != "ok" {
		t.Errorf("the file: %s, %v", verdict, err)
	}
}

// TestBusyFileHonoursContext: while another program sits on the file, a call waits, and no longer than its context.
func TestBusyFileHonoursContext(t *testing.T) {
	path := newPath(t)
	locks := openClient(t, path)
	leave := occupied(t, visit(t, path))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := locks.Mutex("x").Lock(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("got %v, want the context's error and no word of a lock", err)
	}
	if took := time.Since(start); took > 10*time.Second { // it would wait for as long as the file is busy
		t.Errorf("it took %v", took)
	}
	leave()
	check(t, lock(t, locks, "x").Unlock(t.Context()))
}

// TestCloseInTheQueue: the process ahead in the queue may be stopped, and never let anybody in. Close does not wait for
// that.
func TestCloseInTheQueue(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	occupied(t, visit(t, path))
	ahead := queue{folder: e.queue.folder}
	if ahead.enter(); !ahead.wait(0, nil) {
		t.Skip("no queue on this system")
	}
	defer ahead.leave()
	late := joinLater(t.Context(), e, newClaim("x"))
	waitForJobs(t, e, 1)
	closes(t, e, late)
}

// closes demands that Close returns soon, and that it ends the call under way.
func closes(t *testing.T, s io.Closer, late <-chan error) {
	t.Helper()
	select {
	case err := <-later(s.Close):
		check(t, err)
	case <-time.After(30 * time.Second):
		t.Fatal("Close waits")
	}
	if err := <-late; !errors.Is(err, store.ErrClosed) {
		t.Errorf("the call under way: %v", err)
	}
}

// TestBrokenHolderIsTold at once, though it never waited.
func TestBrokenHolderIsTold(t *testing.T) {
	path := newPath(t)
	holder, operator := openClient(t, path), openClient(t, path)
	lease := lock(t, holder, "x")
	check(t, operator.Break(t.Context(), "x", lease.Token()))
	select {
	case <-lease.Context().Done():
	case <-time.After(5 * time.Second): // half of when it is renewed
		t.Fatal("not told")
	}
}
