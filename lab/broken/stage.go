package broken

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/history"
)

// awaitEvery is how often a condition is polled.
const awaitEvery = 5 * time.Millisecond

// patience is how long a required step may take, on a busy machine.
const patience = 20 * time.Second

// A stage is one play of a schedule, with the broken lock or with Holdfast's. A schedule runs in one goroutine, and
// calls the methods of the stage and of its players. If a step fails, the schedule ends there.
type stage struct {
	ctx      context.Context
	lab      *Lab
	rung     *Rung
	holdfast bool // the players have Holdfast's lock
	random   *rand.Rand
	lock     string // the lock's name

	addrs   []string      // of the servers, for players that are added from now on
	proxied bool          // the players reach them through proxies
	bound   time.Duration // how long a wait may last; 0: it is not what the rung is about

	dir      string
	recorder *history.Recorder
	players  []*player
	running  sync.WaitGroup // what players do in the background
	cleanups []func() error

	mu   sync.Mutex
	show Performance
}

// run plays the schedule and checks its history.
func (s *stage) run() (show *Performance, err error) {
	if s.dir, err = os.MkdirTemp("", "holdfast-lab-"); err != nil {
		return nil, err
	}
	s.cleanup(func() error { return os.RemoveAll(s.dir) })
	if s.recorder, err = history.Create(s.dir, ""); err != nil {
		return nil, errors.Join(err, s.clear())
	}
	err = s.try()
	s.show.End = history.Now()
	err = errors.Join(err, s.leave(), s.recorder.Close())
	recorded, failed := history.LoadDir(s.dir)
	if err := errors.Join(err, failed, s.clear()); err != nil {
		return nil, err
	}
	s.show.History = recorded
	s.judge()
	return &s.show, nil
}

// A failure ends a schedule.
type failure struct{ error }

// try plays the schedule until a step fails.
func (s *stage) try() (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	s.rung.schedule(s)
	return pause(s.ctx, s.millis(40, 80)) // all players continue for a while
}

// must ends the schedule if a step has failed.
func (s *stage) must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// leave ends what the players believe and do. Faults end, so that no player hangs.
func (s *stage) leave() error {
	for _, p := range s.players {
		p.stopBelieving()
	}
	for _, p := range s.players {
		for _, w := range p.waits {
			w.cancel()
		}
	}
	for _, p := range s.players {
		for _, link := range p.links {
			link.Heal()
		}
	}
	var errs []error
	for _, p := range s.players {
		errs = append(errs, p.leave())
	}
	s.running.Wait()
	for _, p := range s.players {
		for _, link := range p.links {
			errs = append(errs, link.Close())
		}
	}
	return errors.Join(errs...)
}

func (s *stage) clear() error {
	var errs []error
	for _, cleanup := range slices.Backward(s.cleanups) {
		errs = append(errs, cleanup())
	}
	return errors.Join(errs...)
}

// cleanup registers a function for the end of the play. The last one is called first.
func (s *stage) cleanup(f func() error) { s.cleanups = append(s.cleanups, f) }

// tell records a step. Who is the player; empty for a step of the schedule. The play begins with the first step:
// everything before it was preparation.
func (s *stage) tell(who, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := history.Now()
	if len(s.show.Events) == 0 {
		s.show.Started, s.show.Begin = time.Now(), at
	}
	s.show.Events = append(s.show.Events, Event{at, who, fmt.Sprintf(format, args...)})
}

// breaks records a fault that begins now, with its description. It lasts until the returned function is called, or
// until the end of the play.
func (s *stage) breaks(name, target, format string, args ...any) (mended func()) {
	s.tell("", format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.show.Faults)
	s.show.Faults = append(s.show.Faults, Fault{name, target, history.Interval{Begin: history.Now()}})
	end := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if f := &s.show.Faults[i]; f.End == 0 {
			f.End = history.Now()
		}
	}
	s.cleanup(func() error { end(); return nil })
	return end
}

// await waits until a condition holds.
func (s *stage) await(what string, isSo func() bool) {
	for deadline := time.Now().Add(patience); !isSo(); {
		if time.Now().After(deadline) {
			s.must(fmt.Errorf("%s: not after %v", what, patience))
		}
		s.must(pause(s.ctx, awaitEvery))
	}
}

// millis returns low to high milliseconds, by the seed.
func (s *stage) millis(low, high int64) time.Duration {
	return time.Duration(low+s.random.Int64N(high-low+1)) * time.Millisecond
}

// seconds returns low to high seconds, by the seed.
func (s *stage) seconds(low, high int64) time.Duration { return 1000 * s.millis(low, high) }

// boundsWaits makes the waits of clients subject to the checks.
func (s *stage) boundsWaits(bound time.Duration) {
	s.bound = bound * time.Duration(max(s.lab.Leniency, 1))
}

// starts starts servers for this play alone.
func (s *stage) starts(start func(testing.TB)) {
	stop, err := servers.Outside(s.ctx, start)
	s.must(err)
	s.cleanup(stop)
}

// alone waits until no other play that counts is under way, and keeps others out until the play is over.
func (s *stage) alone() {
	s.lab.alone.Lock()
	s.cleanup(func() error { s.lab.alone.Unlock(); return nil })
}

// onRedis makes the players use a Redis server that other plays use too.
func (s *stage) onRedis() *servers.RedisServer {
	server := share(s, "redis", func(t testing.TB) *servers.RedisServer { return servers.Redis(t) })
	s.on(server.Addr())
	return server
}

// on makes the players use servers at these addresses, each player through proxies of its own.
func (s *stage) on(addrs ...string) { s.addrs, s.proxied = addrs, true }

// onFile makes the players use a file.
func (s *stage) onFile() { s.addrs, s.proxied = []string{filepath.Join(s.dir, "locks.db")}, false }
