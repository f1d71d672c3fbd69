package redisstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// TestClockSteps sets the server's clock while a crowd contends. Forward by more than the ttl is as a loss of data:
// every claim is out at once, and whoever has one learns of it from its next renewal. Forward by less is harmless if
// that leaves time for the next renewal, also on a busy machine.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	for _, step := range []struct {
		name  string
		by    time.Duration
		loses bool
	}{
		{"forward by less than the ttl", ttl / 5, false},
		{"forward by more than the ttl", 2 * ttl, true},
		{"back", -2 * ttl, false},
	} {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			clock := servers.NewClock(t)
			s := newScene(t, ttl, "", inMemory, servers.Env(clock.Env()...))
			set := func() { clock.Step(step.by) }
			if step.loses {
				s.losing(set)
			} else {
				set()
			}
			s.slower = max(0, -step.by)
			s.Through()
			s.end(testkit.Harmless)
		})
	}
}

// A clock that is set forward by more than the ttl: the holder has the lock, and so has another, until the holder's
// next renewal.
func TestClockForwardByMoreThanTTL(t *testing.T) {
	t.Parallel()
	clock := servers.NewClock(t)
	w := newWitness(t, servers.Redis(t, inMemory, servers.Env(clock.Env()...)))
	holder := w.open(w.server.Addr(), "?ttl=30s") // it renews after ten, and the next must hold by then
	next := w.open(w.server.Addr(), "?ttl=30s")
	first := w.Take(holder)
	clock.Step(31 * time.Second)
	second := w.Take(next)
	w.mustOverlap(first, second)
	w.mustLose(first)
}

// By less than what a lease has left at least, which is two thirds of the ttl as long as renewals come through:
// nothing.
func TestClockForwardByLessThanTTL(t *testing.T) {
	t.Parallel()
	clock := servers.NewClock(t)
	w := newWitness(t, servers.Redis(t, inMemory, servers.Env(clock.Env()...)))
	holder := w.open(w.server.Addr(), "?ttl=30s")
	next := w.open(w.server.Addr(), "?ttl=30s")
	w.Take(holder)
	clock.Step(19 * time.Second)
	if _, err := next.Mutex(witnessed).TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("TryLock beside the holder: %v, want %v", err, holdfast.ErrLocked)
	}
}

// A clock that is set back: whoever lives notices nothing. Whoever died before it, and could not renew after it, is in
// the way for so much longer.
func TestClockBack(t *testing.T) {
	t.Parallel()
	const ttl, step = 5 * time.Second, 2 * time.Second
	clock := servers.NewClock(t)
	w := newWitness(t, servers.Redis(t, inMemory, servers.Env(clock.Env()...)))
	way := testkit.Proxy(t, w.server.Addr())
	holder := w.open(way.Addr(), "?ttl="+ttl.String())
	next := w.open(w.server.Addr(), "?ttl="+ttl.String())

	first := w.Take(holder)
	clock.Step(-time.Hour)
	if _, err := next.Mutex(witnessed).TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
		t.Errorf("TryLock beside the holder: %v, want %v", err, holdfast.ErrLocked)
	}
	w.Release(first)
	second := w.Take(next)
	w.Release(second)

	third := w.Take(holder)
	mend := way.Cut()
	do(t, w.server, "PING") // a renewal that came through before is done
	clock.Step(-step)
	over := third.Until()
	fourth := w.Take(next)
	if late := time.Since(over); late < step || late > step+testkit.Patience {
		t.Errorf(
			"the lock of a holder that was cut off was free %v after its lease was over, want after the step of %v",
			late, step)
	}
	mend()
	w.MustExclude(first, second, third, fourth)
}
