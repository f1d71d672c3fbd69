package holdfast

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/knot"
	"github.com/holdfast-go/holdfast/store"
)

// The schedule of the search for deadlocks. When an owner that holds something has waited for searchAfter, its held
// claims publish what it waits for. Then the search walks from queue to queue, and again every searchEvery. Two walks
// in a row with the same result are a deadlock. So a deadlock is found within about a second after it was closed.
const (
	searchAfter = 200 * time.Millisecond
	searchEvery = 500 * time.Millisecond
)

// A DeadlockError is an ErrDeadlock that describes owners that wait for each other in a cycle. One of the owners gets
// it. The others continue when that owner has released what it holds.
type DeadlockError struct {
	Cycle []DeadlockStep
}

// A DeadlockStep is one wait of a deadlock.
type DeadlockStep struct {
	Owner        Owner     // the owner that waits
	Name         string    // the lock that it waits for
	Since        time.Time // since when it waits
	Blocker      Owner     // an owner ahead of it in that queue, which waits in the next step
	BlockerHolds bool      // whether the blocker holds Name; otherwise it waits for it too
	BlockerSince time.Time // since when the blocker holds or waits
}

// Error returns the cycle in one line.
func (e *DeadlockError) Error() string {
	var b strings.Builder
	b.WriteString("deadlock")
	const most = 4 // how many steps are written
	for i, s := range e.Cycle[:min(len(e.Cycle), most)] {
		does := "holds"
		if !s.BlockerHolds {
			does = "waits for, further ahead,"
		}
		fmt.Fprintf(&b, "%s %s waits for %s since %s, which %s %s since %s", []string{":", ";"}[min(i, 1)],
			s.Owner, store.Quote(s.Name), s.Since.Format(time.RFC3339), s.Blocker, does,
			s.BlockerSince.Format(time.RFC3339))
	}
	if more := len(e.Cycle) - most; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return b.String()
}

// Unwrap returns ErrDeadlock.
func (e *DeadlockError) Unwrap() error { return ErrDeadlock }

// A search searches for a deadlock while a request waits. Its goroutine starts searchAfter after the wait began, and
// ends with the wait.
type search struct {
	request *request
	claim   *claim
	found   chan error
	ctx     context.Context
	cancel  context.CancelFunc
	timer   *time.Timer
}

// newSearch starts the search for r, which has just begun to wait. It returns nil if r's owner holds nothing that other
// owners could wait for. It is called with mu held.
func (c *Client) newSearch(r *request) *search {
	o, cl := r.owner, r.queue.claim
	if o == nil || cl == nil || !c.abilities.Queue || r.lock.settings.noDeadlock || !o.holdsBeside(cl) {
		return nil
	}
	s := &search{request: r, claim: cl, found: make(chan error, 1)}
	s.ctx, s.cancel = context.WithCancel(c.closed)
	c.calls.Add(1)
	s.timer = time.AfterFunc(searchAfter, func() {
		defer c.calls.Done()
		s.run()
	})
	return s
}

// result returns the channel on which the search sends the deadlock that it found. A nil search sends nothing.
func (s *search) result() <-chan error {
	if s == nil {
		return nil
	}
	return s.found
}

// end stops the search and withdraws what it published. It is called with mu held.
func (s *search) end() {
	if s == nil {
		return
	}
	if s.cancel(); s.timer.Stop() {
		s.request.lock.client.calls.Done()
	}
	s.request.owner.stopsWaitingFor(s.claim)
}

// run publishes the wait, and walks until the wait is over or two walks in a row find the same deadlock.
func (s *search) run() {
	c := s.request.lock.client
	c.keeper.keep(s.ctx, s.publish(), nil)
	var last knot.Knot
	for s.ctx.Err() == nil {
		found, err := knot.Find(s.ctx, c.store.Queue, s.claim.Name, s.claim.ID)
		if err != nil {
			found = knot.Knot{}
		}
		if found.Found() && found.Equal(last) && found.Victim == s.claim.ID {
			s.found <- newDeadlockError(found)
			return
		}
		last = found
		c.pause(s.ctx, searchEvery)
	}
}

// publish notes that the owner waits with the claim, and returns the claims whose Keep reports that to the store: all
// claims of the owner. A search that meets only one of several waits of an owner must learn of the others.
func (s *search) publish() []*claim {
	c := s.request.lock.client
	c.begin()
	defer c.end()
	if s.ctx.Err() == nil {
		s.request.owner.waits = append(s.request.owner.waits, s.claim)
	}
	return slices.Clone(s.request.owner.claims)
}

// newDeadlockError returns the error that describes a cycle.
func newDeadlockError(k knot.Knot) *DeadlockError {
	e := &DeadlockError{}
	for _, s := range k.Cycle {
		e.Cycle = append(e.Cycle, DeadlockStep{
			Owner: s.Owner, Name: s.Name, Since: s.Waits.Since,
			Blocker: *s.Blocker.Owner, BlockerHolds: s.Blocker.State == store.Held, BlockerSince: s.Blocker.Since,
		})
	}
	return e
}
