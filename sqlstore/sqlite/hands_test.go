package sqlite

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	driver "modernc.org/sqlite"
)

// A trap is a moment in the work of an engine, at which a test can have something happen once.
type trap struct{ set atomic.Pointer[func()] }

func (p *trap) do(what func()) { p.set.Store(&what) }

// hold makes the caller that arrives there wait until goOn.
func (p *trap) hold(t *testing.T) (reached <-chan struct{}, goOn func()) {
	there, end := make(chan struct{}), make(chan struct{})
	goOn = sync.OnceFunc(func() { close(end) })
	t.Cleanup(goOn)
	p.do(func() { close(there); <-end })
	return there, goOn
}

func (p *trap) spring() {
	if what := p.set.Swap(nil); what != nil {
		(*what)()
	}
}

// connected is the moment after SQLite has opened a file, for whichever engine.
var connected trap

func init() {
	driver.RegisterConnectionHook(func(driver.ExecQuerierContext, string) error { connected.spring(); return nil })
}

// readingClock is the moment in which an engine asks for the time since the machine was started.
func readingClock(p *trap) Option {
	return func(e *engine) {
		now := e.clock.now
		e.clock.now = func() time.Duration { p.spring(); return now() }
	}
}

// begun is the moment in which an engine has the right to write, and has read the time, and no job yet.
func begun(p *trap) Option {
	return func(e *engine) {
		wall := e.wall
		e.wall = func() time.Time { p.spring(); return wall() }
	}
}

// visit opens a file as another program.
func visit(t *testing.T, path string) *file {
	t.Helper()
	f, err := openFile(path, privateMode)
	for isBusy(err) {
		f, err = openFile(path, privateMode)
	}
	check(t, err)
	t.Cleanup(func() { _ = f.close() })
	return f
}

// occupied has another program write to a file, until it leaves.
func occupied(t *testing.T, f *file) (leave func()) {
	t.Helper()
	if err := f.exec("BEGIN IMMEDIATE"); err != nil {
		t.Error(err)
	}
	return func() {
		if err := f.exec("COMMIT"); err != nil {
			t.Error(err)
		}
	}
}

// waitForJobs waits until so many calls wait for an engine's worker.
func waitForJobs(t *testing.T, e *engine, want int) {
	t.Helper()
	eventually(t, "the calls wait", func() bool { e.mu.Lock(); defer e.mu.Unlock(); return len(e.jobs) == want })
}

// countRows counts in a table, as an operator would.
func countRows(t *testing.T, path, from string, args ...any) (n int) {
	t.Helper()
	f := visit(t, path)
	defer f.close()
	if _, err := f.one("SELECT count(*) FROM "+from, args, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// wantRows demands so many rows of a table.
func wantRows(t *testing.T, path string, want int, from string, args ...any) {
	t.Helper()
	if n := countRows(t, path, from, args...); n != want {
		t.Errorf("%d rows of %s, want %d", n, from, want)
	}
}

// heard is what an engine pushes from now on, for itself and from its socket.
func heard(t *testing.T, e *engine) <-chan store.ID {
	t.Helper()
	told := make(chan store.ID, 16)
	e.Notify(func(id store.ID, _ store.Status) { told <- id })
	if !e.Listen() {
		t.Fatal("no socket")
	}
	return told
}

// wantPush waits for a push.
func wantPush(t *testing.T, told <-chan store.ID, want store.ID) {
	t.Helper()
	select {
	case id := <-told:
		if id != want {
			t.Errorf("told of %v, want %v", id, want)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("never told of %v", want)
	}
}
