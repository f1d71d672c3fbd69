package sqlstore

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// lookTimeout bounds one look at the database.
const lookTimeout = 5 * time.Second

// A lookout watches the claims of a client that wait. Its goroutine exists only while there are any.
type lookout struct {
	engine   Engine
	detector Detector // nil: the engine is none
	frame    *frame.Frame
	pace     Pace

	mu      sync.Mutex
	claims  map[store.ID]store.Claim
	running bool
	fresh   bool // somebody was added since who was last asked
}

func (l *lookout) init(engine Engine, f *frame.Frame, pace Pace) {
	l.engine, l.frame, l.pace = engine, f, pace
	l.detector, _ = engine.(Detector)
	l.claims = map[store.ID]store.Claim{}
}

// add looks out for a claim that waits.
func (l *lookout) add(c *store.Claim, ticket uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.claims[c.ID]; known || l.frame.Life().Err() != nil {
		return
	}
	l.claims[c.ID] = store.Claim{ID: c.ID, Name: c.Name, Demand: c.Demand, Ticket: ticket}
	l.fresh = true
	if !l.running {
		l.running = true
		l.frame.Go(l.watch)
	}
}

func (l *lookout) remove(id store.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.claims, id)
}

func (l *lookout) close() {
	l.mu.Lock() // nothing is started after it
	l.frame.End()
	l.mu.Unlock()
	l.frame.Wait()
}

// who are the claims that wait. If there are none, watch must end: the next to wait starts it again.
func (l *lookout) who() (claims []store.Claim, fresh bool) {
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

// watch looks until nobody waits any more. The first look is at once: the grant may have come before this client
// listened. With pushes it is a second look, for a holder that died, and for a process that died between its commit and
// its push. Without them it is how grants are found.
func (l *lookout) watch() {
	pause := l.pace.First
	failed := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for claims, fresh := l.who(); len(claims) > 0; claims, fresh = l.who() {
		listening := l.engine.Listen()
		news := fresh
		if failed || fresh || l.changed() {
			var moved bool
			moved, failed = l.look(claims)
			news = news || moved || l.detector != nil
		}
		if news {
			pause = l.pace.First
		} else {
			pause = min(pause+pause/8, l.pace.Most) // about an eighth of the time since then
		}
		if listening {
			pause = l.pace.Listening
		}
		timer.Reset(pause)
		select {
		case <-l.frame.Life().Done():
			return
		case <-timer.C:
		}
	}
}

// changed reports whether a look may see something new.
func (l *lookout) changed() bool {
	if l.detector == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(l.frame.Life(), lookTimeout)
	defer cancel()
	changed, err := l.detector.Changed(ctx)
	return changed || err != nil
}

// look delivers the standings of claims that no longer wait. It reports whether there were any, and whether it failed.
func (l *lookout) look(claims []store.Claim) (moved, failed bool) {
	ctx, cancel := context.WithTimeout(l.frame.Life(), lookTimeout)
	defer cancel()
	answers, err := l.engine.Look(ctx, claims)
	if err != nil {
		return false, true // a waiting client learns why from its next Keep
	}
	for i, a := range answers {
		if a.Err == nil && a.State != store.Waiting {
			moved = true
			l.remove(claims[i].ID)
			l.frame.Push(claims[i].ID, store.Status{State: a.State, Ticket: claims[i].Ticket})
		}
	}
	return moved, false
}
