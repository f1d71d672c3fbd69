package sqlstore

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// pollTimeout bounds one poll of the database.
const pollTimeout = 5 * time.Second

// A poller polls the database for the claims of a client that wait. Its goroutine exists only while there are any.
type poller struct {
	engine   Engine
	detector Detector // the engine, or nil if it is not a Detector
	frame    *frame.Frame
	pace     Pace

	mu      sync.Mutex
	claims  map[store.ID]store.Claim
	running bool
	fresh   bool // a claim was added since the last call of waiting
}

func (l *poller) init(engine Engine, f *frame.Frame, pace Pace) {
	l.engine, l.frame, l.pace = engine, f, pace
	l.detector, _ = engine.(Detector)
	l.claims = map[store.ID]store.Claim{}
}

// add polls for a claim that waits, until it is removed or no longer waits.
func (l *poller) add(c *store.Claim, ticket uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.claims[c.ID]; known || l.frame.Life().Err() != nil {
		return
	}
	l.claims[c.ID] = store.Claim{ID: c.ID, Name: c.Name, Demand: c.Demand, Ticket: ticket}
	l.fresh = true
	if !l.running {
		l.running = true
		l.frame.Go(l.run)
	}
}

func (l *poller) remove(id store.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.claims, id)
}

func (l *poller) close() {
	l.mu.Lock() // add starts nothing after this
	l.frame.End()
	l.mu.Unlock()
	l.frame.Wait()
}

// waiting returns the claims that wait, and whether one was added since the last call. If there are none, run must end:
// the next call of add starts it again.
func (l *poller) waiting() (claims []store.Claim, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	claims = make([]store.Claim, 0, len(l.claims))
	for _, c := range l.claims {
		claims = append(claims, c)
	}
	l.running = len(claims) > 0
	fresh, l.fresh = l.fresh, false
	return claims, fresh
}

// run polls until no claim waits. It polls at once at first: a grant may have been made before this client subscribed.
// With pushes, polling finds what they miss: a holder that died, and a process that died between its commit and its
// push. Without pushes, polling is how grants are found.
func (l *poller) run() {
	pause := l.pace.First
	failed := false
	var recheck time.Time // when a claim ahead can expire, as the last poll has found; zero: not known
	timer := time.NewTimer(0)
	defer timer.Stop()
	for claims, fresh := l.waiting(); len(claims) > 0; claims, fresh = l.waiting() {
		listening := l.engine.Listen()
		news := fresh
		if failed || fresh || l.changed() {
			var moved bool
			moved, failed, recheck = l.poll(claims)
			news = news || moved || l.detector != nil
		}
		if news {
			pause = l.pace.First
		} else {
			pause = min(pause+pause/8, l.pace.Most) // about an eighth of the time since the last change
		}
		if listening {
			pause = l.pace.Listening
		}
		next := pause
		if !recheck.IsZero() {
			next = min(next, max(time.Until(recheck), l.pace.First))
		}
		timer.Reset(next)
		select {
		case <-l.frame.Life().Done():
			return
		case <-timer.C:
		}
	}
}

// changed reports whether a poll may find something new.
func (l *poller) changed() bool {
	if l.detector == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(l.frame.Life(), pollTimeout)
	defer cancel()
	changed, err := l.detector.Changed(ctx)
	return changed || err != nil
}

// poll pushes the status of claims that no longer wait. It reports whether there were any, whether it failed, and when
// to poll again because something ahead of the others can expire.
func (l *poller) poll(claims []store.Claim) (moved, failed bool, recheck time.Time) {
	ctx, cancel := context.WithTimeout(l.frame.Life(), pollTimeout)
	defer cancel()
	answers, err := l.engine.Poll(ctx, claims)
	if err != nil {
		return false, true, recheck // a waiting client learns why from its next Keep
	}
	for i, a := range answers {
		switch {
		case a.Err != nil:
		case a.State != store.Waiting:
			moved = true
			l.remove(claims[i].ID)
			l.frame.Push(claims[i].ID, store.Status{State: a.State, Ticket: claims[i].Ticket})
		case a.RecheckIn > 0:
			if at := time.Now().Add(a.RecheckIn); recheck.IsZero() || at.Before(recheck) {
				recheck = at
			}
		}
	}
	return moved, false, recheck
}
