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

// How deadlocks are searched for. An owner that holds something and has waited for searchAfter says on what it
// holds what it waits for. Then it walks from line to line, and again every searchEvery. Two equal walks make a
// deadlock. So one is found within about a second of its closing.
const (
	searchAfter = 200 * time.Millisecond
	searchEvery = 500 * time.Millisecond
)

// A DeadlockError says who waits for whom in a circle. It is ErrDeadlock. One of those in the circle gets it, the
// others go on when he has given back what he holds.
type DeadlockError struct {
	Cycle []DeadlockStep
}

// A DeadlockStep is one of those in a deadlock.
type DeadlockStep struct {
	Owner        Owner // who waits
	Name         string      // for what
	Since        time.Time   // since when
	Blocker      Owner // who is before him in that line, and waits in the next step
	BlockerHolds bool        // whether the blocker holds Name, or waits for it too
	BlockerSince time.Time   // since when
}

// Error writes the circle in one line.
func (e *DeadlockError) Error() string {
	var b strings.Builder
	b.WriteString("deadlock")
	const most = 4 // steps that are written
	for i, s := range e.Cycle[:min(len(e.Cycle), most)] {
		does := "holds"
		if !s.BlockerHolds {
			does = "waits for, further ahead,"
		}
		fmt.Fprintf(&b, "%s %s waits for %s since %s, which %s %s since %s", []string{":", ";"}[min(i, 1)],
			s.Owner, store.Quote(s.Name), s.Since.Format(time.RFC3339), s.Blocker, does, s.BlockerSince.Format(time.RFC3339))
	}
	if more := len(e.Cycle) - most; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return b.String()
}

// Unwrap makes it ErrDeadlock.
func (e *DeadlockError) Unwrap() error { return ErrDeadlock }

// A search looks for a deadlock while a request waits. Its goroutine begins when the wait has lasted a while, and
// ends with the wait.
type search struct {
	request *request
	claim   *claim
	found   chan error
	ctx     context.Context
	cancel  context.CancelFunc
	timer   *time.Timer
}

// newSearch starts the search for r, which has just begun to wait, with mu held. It is nil if r's owner holds
// nothing that others could wait for.
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

// result is where the search says that it found something. Without a search that never happens.
func (s *search) result() <-chan error {
	if s == nil {
		return nil
	}
	return s.found
}

// end stops the search and takes back what it said. It is called with mu held.
func (s *search) end() {
	if s == nil {
		return
	}
	if s.cancel(); s.timer.Stop() {
		s.request.lock.client.calls.Done()
	}
	s.request.owner.stopsWaitingFor(s.claim)
}

// run says what is waited for, and walks until the wait is over or two walks in a row find the same.
func (s *search) run() {
	c := s.request.lock.client
	c.keeper.keep(s.ctx, s.say(), nil)
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

// say notes that the owner waits for the claim, and returns the claims to be kept so that the store knows: all that
// the owner has. Whoever meets only one of several waits must know of the others.
func (s *search) say() []*claim {
	c := s.request.lock.client
	c.begin()
	defer c.end()
	if s.ctx.Err() == nil {
		s.request.owner.waits = append(s.request.owner.waits, s.claim)
	}
	return slices.Clone(s.request.owner.claims)
}

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
