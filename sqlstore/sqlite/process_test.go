package sqlite

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func openClient(t testing.TB, path string, options ...holdfast.Option) *holdfast.Client {
	t.Helper()
	locks, err := holdfast.Open(t.Context(), "sqlite:"+path, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	return locks
}

// TestKilledHolder: two processes are excluded from each other, and the death of either, at kill -9, frees what it
// held after its ttl at the latest.
func TestKilledHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	locks := openClient(t, path, holdfast.TTL(childTTL))
	first := startHolder(t, path, "x")
	seen := first.token(t)
	if _, err := locks.Mutex("x").TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
		t.Fatalf("while another process holds it: %v", err)
	}
	for range 3 {
		next := startHolder(t, path, "x")
		waitForWaiter(t, locks, "x")
		killed := time.Now()
		first.kill()
		token := next.token(t)
		if waited := time.Since(killed); waited > 3*childTTL {
			t.Errorf("the next process waited for %v after the kill, with a ttl of %v", waited, childTTL)
		}
		if token <= seen {
			t.Errorf("token %v after %v", token, seen)
		}
		first, seen = next, token
	}
	first.in.Close()
	if err := first.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	lease, err := locks.Mutex("x").TryLock(t.Context())
	if err != nil {
		t.Fatalf("after it was given back: %v", err)
	}
	if err := lease.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestWakeAcrossProcesses: a release in one process wakes the waiter in another at once, by a datagram. On a machine that is
// busy, one of a few is woken so soon.
func TestWakeAcrossProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	locks := openClient(t, path, holdfast.TTL(30*time.Second))
	quickest := time.Hour
	for try := 0; try < 5 && quickest > lookSlowly; try++ {
		lease, err := locks.Mutex("x").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h := startHolder(t, path, "x")
		waitForWaiter(t, locks, "x")
		time.Sleep(lookSlowly) // it looks once at the beginning, and that is not what is asked for here
		given := time.Now()
		if err := lease.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.token(t)
		quickest = min(quickest, time.Since(given))
		h.in.Close() // it gives the lock back
	}
	if quickest > lookSlowly {
		t.Errorf("it took %v: nobody was told, and the second look found it", quickest)
	}
}

const lookSlowly = 50 * time.Millisecond // much less than sqlstore's, which looks once at the beginning

func waitForWaiter(t *testing.T, locks *holdfast.Client, name string) {
	t.Helper()
	waiters(t, locks, name, 1)
}

// waiters waits until so many wait.
func waiters(t *testing.T, locks *holdfast.Client, name string, want int) {
	t.Helper()
	eventually(t, "somebody waits", func() bool {
		line, err := locks.Inspect(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
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
	dir := t.TempDir()
	path, number := filepath.Join(dir, "locks.db"), filepath.Join(dir, "number")
	if err := os.WriteFile(number, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	const counters = 4
	var cmds []*exec.Cmd
	for range counters {
		cmd := childCommand(t, "count", path, number)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for n := range 12 {
		killOne(t, path, time.Duration(n%6)*10*time.Millisecond)
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Errorf("a counting process: %v", err)
		}
	}
	text, err := os.ReadFile(number)
	if want := "200"; err != nil || string(text) != want {
		t.Errorf("the number is %s (%v), want %s", text, err, want)
	}
	checkFile(t, path)
}

// killOne starts a process that wants the counters' lock, and kills it at some moment.
func killOne(t *testing.T, path string, after time.Duration) {
	t.Helper()
	cmd := childCommand(t, "hold", path, "count", "300ms")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(after) // the moment is meant to be any
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process was not killed but ended")
	}
}

// checkFile lets SQLite itself check the file.
func checkFile(t *testing.T, path string) {
	t.Helper()
	f, err := openFile(path, privateMode)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	var verdict string
	if _, err := f.one("PRAGMA integrity_check", nil, &verdict); err != nil || verdict != "ok" {
		t.Errorf("the file: %s, %v", verdict, err)
	}
}

// TestBusyFileHonoursContext: while another program sits on the file, a call waits, and no longer than its context.
func TestBusyFileHonoursContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks.db")
	locks := openClient(t, path)
	f, err := openFile(path, privateMode)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if err := f.exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err = locks.Mutex("x").Lock(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("got %v, want the context's error and no word of a lock", err)
	}
	if took := time.Since(start); took > 10*time.Second { // it would wait for as long as the file is busy
		t.Errorf("it took %v", took)
	}
	if err := f.exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	lease, err := locks.Mutex("x").Lock(t.Context())
	if err != nil {
		t.Fatalf("when the file was free again: %v", err)
	}
	if err := lease.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCloseInTheQueue: the process ahead in the queue may be stopped, and never let anybody in. Close does not wait for
// that.
func TestCloseInTheQueue(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	f, err := openFile(path, privateMode)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if err := f.exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ahead := queue{folder: e.queue.folder}
	if ahead.enter(); !ahead.wait(0, nil) {
		t.Skip("no queue on this system")
	}
	defer ahead.leave()
	late := make(chan error, 1)
	go func() { _, err := e.Join(t.Context(), newClaim("x")); late <- err }()
	eventually(t, "it waits", func() bool { e.mu.Lock(); defer e.mu.Unlock(); return len(e.jobs) == 1 })
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
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
	lease, err := holder.Mutex("x").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := operator.Break(t.Context(), "x", lease.Token()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lease.Context().Done():
	case <-time.After(5 * time.Second): // half of when it is renewed
		t.Fatal("not told")
	}
}
