package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/history"
)

// satOn is what sitters lock.
const satOn = "sat on"

// sitFor is how long a sitter holds if nothing happens.
const sitFor = sessionTTL / 2

// A crowd holds for milliseconds. Sitters hold one lock in turns, each for long, so that a fault always finds somebody
// who holds. The first has the crowd's first process's ways.
type sitters struct {
	stop    context.CancelFunc
	running sync.WaitGroup
	lost    atomic.Int32 // how often somebody lost the lock

	mu      sync.Mutex
	sitting int  // who holds, counted from 1
	stays   bool // who holds now is to hold on
}

// newSitters lets one client for each URL sit, and writes down what they believe.
func newSitters(t *testing.T, dir string, urls ...string) *sitters {
	t.Helper()
	s := &sitters{}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	t.Cleanup(s.end)
	for i, url := range urls {
		locks, err := holdfast.Open(t.Context(), url)
		testkit.Must(t, err)
		recorder, err := history.Create(dir, fmt.Sprintf("sitter %d", i+1))
		testkit.Must(t, err)
		s.running.Go(func() {
			for ctx.Err() == nil {
				if err := s.sit(ctx, i+1, locks, recorder); err != nil && ctx.Err() == nil && !testkit.Passes(err) &&
					!errors.Is(err, holdfast.ErrLost) {
					t.Errorf("sitter %d: %v", i+1, err)
				}
			}
			if err := errors.Join(locks.Close(), recorder.Close()); err != nil {
				t.Errorf("sitter %d: %v", i+1, err)
			}
		})
	}
	return s
}

// sit takes the lock once.
func (s *sitters) sit(ctx context.Context, who int, locks *holdfast.Client, recorder *history.Recorder) error {
	lease, err := locks.Mutex(satOn).Lock(ctx)
	if err != nil {
		return err
	}
	hold := history.Hold{Resource: lease.Name(), Kind: history.Exclusive, Token: lease.Token()}
	belief, ok := recorder.Begin(hold, func() bool { return lease.Context().Err() == nil })
	if ok {
		end := time.Now().Add(sitFor)
		for belief.Check() && ctx.Err() == nil && s.sits(who, time.Now().Before(end)) {
			time.Sleep(time.Millisecond)
		}
		s.getUp(who)
		belief.End()
	}
	err = lease.Unlock(context.WithoutCancel(ctx))
	if errors.Is(err, holdfast.ErrLost) {
		s.lost.Add(1)
	}
	return err
}

// sits says whether the one who holds is to hold on: if he likes to, or has to.
func (s *sitters) sits(who int, likes bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sitting = who
	if !likes && !s.stays {
		s.sitting = 0
	}
	return s.sitting == who
}

// getUp notes that this one does not hold any more.
func (s *sitters) getUp(who int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sitting == who {
		s.sitting = 0
	}
}

// stay returns when this one sits, and has everyone who holds hold on.
func (s *sitters) stay(t *testing.T, who int) {
	t.Helper()
	testkit.Await(t, fmt.Sprintf("sitter %d sits", who), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stays = s.sitting == who
		return s.stays
	})
}

// goOn ends stay.
func (s *sitters) goOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stays = false
}

// end has all release what they hold.
func (s *sitters) end() {
	s.stop()
	s.running.Wait()
}
