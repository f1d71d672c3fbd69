package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A pace is what depends on whether time is real.
type pace struct {
	ttl      time.Duration // of claims, if the store allows it
	moment   time.Duration // a message that nothing holds back has arrived by then
	slack    time.Duration // how late or early a clock may be read
	stall    time.Duration // for how long the machine or the server may be stalled in a case
	late     time.Duration // how late a busy machine may do what is due
	rounds   int           // how often each goroutine of a crowd takes the lock
	many     int           // how many claims a long queue has
	watchdog time.Duration
}

var (
	realTime = pace{
		ttl: time.Second, moment: 50 * time.Millisecond, slack: 250 * time.Millisecond, stall: time.Second / 16,
		late: 2 * time.Second, rounds: 3, many: 200, watchdog: 2 * time.Minute,
	}
	fakeTime = pace{
		ttl: 10 * time.Second, moment: time.Millisecond, slack: time.Millisecond,
		rounds: 10, many: 1000, watchdog: time.Minute,
	}
)

// An outcome is the result of a case.
type outcome struct {
	skipped  string
	failures []string
	silences int // how many of the failures are due to a slow machine or server
}

// A trial is one run of a case on one store. It collects failures instead of reporting them to a test, so that a store
// that is broken on purpose can be shown to fail.
type trial struct {
	pace
	tb      testing.TB // for the harness only
	harness Harness
	able    store.Abilities
	mark    string // makes names unique

	running sync.WaitGroup // goroutines of the case

	mu      sync.Mutex
	outcome outcome
	over    bool // failures are ignored from now on: the end of the case causes them
	clients []*client
}

// play runs the case to its end. None of its goroutines remains.
func (s scenario) play(tb testing.TB, h Harness, p pace) outcome {
	t := &trial{pace: p, tb: tb, harness: h, mark: strings.ToLower(rand.Text())}
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.able = t.open().Abilities()
		if lacks := s.needs.missing(h, t.able); lacks != "" {
			t.skipf("the store has no %s", lacks)
		}
		t.ttl = max(t.ttl, t.able.MinTTL, t.able.SessionTTL)
		s.run(t)
		t.wait()
	}()
	<-done
	t.end()
	return t.outcome
}

// end closes the clients, so that calls which still hang return.
func (t *trial) end() {
	t.mu.Lock()
	t.over = true
	clients := t.clients
	t.mu.Unlock()
	for _, c := range clients {
		c.link.Kill()
	}
	for _, c := range clients {
		_ = c.Close() // the case about Close checks its error
	}
	t.running.Wait()
}

// open connects a new client.
func (t *trial) open() *client { return t.openAt("") }

// openAt connects a new client whose names begin with prefix.
func (t *trial) openAt(prefix string) *client {
	s, link := t.harness.Open(opener{t.tb, t}, prefix)
	c := &client{Store: s, t: t, link: link, contenders: map[store.ID]*contender{}}
	_, _ = rand.Read(c.id[:]) // never fails
	s.Notify(c.onPush)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clients = append(t.clients, c)
	return c
}

// An opener is the testing.TB that a harness gets in Open. If the harness cannot connect, it is the case that fails,
// and it may be repeated.
type opener struct {
	testing.TB
	t *trial
}

// Fatal ends the case.
func (o opener) Fatal(args ...any) {
	o.t.fatalf(strings.TrimSuffix(strings.Repeat("%v ", len(args)), " "), args...)
}

// Fatalf ends the case.
func (o opener) Fatalf(format string, args ...any) { o.t.fatalf(format, args...) }

// name makes a name that no other case and no other run has.
func (t *trial) name(word string) string { return t.mark + "/" + word }

// advance lets time pass. Only the case's own goroutine may call it.
func (t *trial) advance(d time.Duration) { t.harness.Advance(d) }

// settle lets messages arrive that nothing holds back.
func (t *trial) settle() { t.advance(t.moment) }

// longTTL is for claims that are not kept while a case does many things.
func (t *trial) longTTL() time.Duration { return min(max(t.ttl, time.Minute), t.able.MaxTTL) }

// takeover returns how long after the last request of a dead holder the next claim is granted, at worst.
func (t *trial) takeover() time.Duration {
	return time.Duration(t.able.TakeoverTTLs)*t.ttl + t.able.TakeoverPlus + t.slack
}

// patience bounds every wait of a case. Anything that takes longer has failed.
func (t *trial) patience() time.Duration { return 3*t.takeover() + 10*t.ttl }

// context is for calls that nothing delays.
func (t *trial) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), t.patience())
}

// async runs fn in a goroutine of the case. The channel is closed when fn has returned or failed.
func (t *trial) async(fn func()) <-chan struct{} {
	done := make(chan struct{})
	t.running.Go(func() {
		defer close(done)
		fn()
	})
	return done
}

// delayed runs fn while a link holds its messages back, and releases them after d.
func (t *trial) delayed(release func(), d time.Duration, fn func()) {
	done := t.async(fn)
	t.advance(d)
	release()
	<-done
}

// wait waits for all that async started.
func (t *trial) wait() { t.running.Wait() }

// errorf records a failure. The case continues.
func (t *trial) errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.outcome.failures = append(t.outcome.failures, caseLine()+": "+fmt.Sprintf(format, args...))
		if slices.ContainsFunc(args, isSilence) {
			t.outcome.silences++
		}
	}
}

// isSilence reports whether an argument of a message shows that the machine or the server was too slow: the error of a
// call without a response in time, or a lapse. A response of the server is not silence, whatever it says, nor is a
// refused connection.
func isSilence(arg any) bool {
	if l, ok := arg.(lapse); ok {
		return bool(l)
	}
	err, ok := arg.(error)
	if !ok {
		return false
	}
	fault, ok := errors.AsType[*store.Fault](err)
	if !ok || fault.Final {
		return false
	}
	_, silent := errors.AsType[*store.NoResponseError](fault.Err)
	return silent || fault.Busy
}

// fatalf records a failure and ends the goroutine that calls it.
func (t *trial) fatalf(format string, args ...any) {
	t.errorf(format, args...)
	runtime.Goexit()
}

// skipf ends the case without a verdict.
func (t *trial) skipf(format string, args ...any) {
	t.mu.Lock()
	t.outcome.skipped = fmt.Sprintf(format, args...)
	t.mu.Unlock()
	runtime.Goexit()
}

// must ends the case if a call of the harness failed. It skips the case if the harness does not support the call.
func (t *trial) must(what string, err error) {
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		t.skipf("%s: %v", what, err)
	case err != nil:
		t.fatalf("%s: %v", what, err)
	}
}

// noError ends the case if a call of the store failed.
func (t *trial) noError(err error, format string, args ...any) {
	if err != nil {
		t.fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

// wantError requires that a call returned this error.
func (t *trial) wantError(what string, err, want error) {
	if !errors.Is(err, want) {
		t.errorf("%s: %v, want %v", what, err, want)
	}
}

// helperFiles are the files with helpers of cases, rather than cases.
var helperFiles = []string{"trial.go", "client.go", "contender.go"}

// caseLine returns where a failure was recorded: the source line of the case, followed by those of the checks that it
// called, as in "honesty.go:46: honesty.go:30".
func caseLine() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	here, more := frames.Next()
	var lines []string
	for f := here; more && filepath.Dir(f.File) == filepath.Dir(here.File); f, more = frames.Next() {
		if file := filepath.Base(f.File); !slices.Contains(helperFiles, file) {
			lines = append(lines, fmt.Sprintf("%s:%d", file, f.Line))
		}
	}
	slices.Reverse(lines)
	return strings.Join(lines, ": ")
}
