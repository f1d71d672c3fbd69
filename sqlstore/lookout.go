package sqlstore

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// How often the database is asked whether anything has changed, while a claim waits. With pushes it is a second look,
// for a holder that died, and for a process that died between its commit and its push. Without them it is how grants
// are found.
const (
	lookSlowly  = 200 * time.Millisecond
	lookFast    = time.Millisecond
	lookAtMost  = 50 * time.Millisecond
	lookTimeout = 5 * time.Second
)

// A lookout watches the claims of a client that wait. Its goroutine exists only while there are any.
type lookout struct {
	engine Engine
	frame  *frame.Frame

	mu      sync.Mutex
	claims  map[store.ID]store.Claim
	running bool
	fresh   bool // somebody was added since who was last asked
}

func (l *lookout) init(engine Engine, f *frame.Frame) {
	l.engine, l.frame = engine, f
	l.claims = map[store.ID]store.Claim{}
}

// add looks out for a claim that waits.
func (l *lookout) add(c *store.Claim, ticket uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.claims[c.ID]; known || l.frame.Life().Err() != nil {
		return
	}
	l.claims[c.ID] = store.Claim{ID: c.ID, Name: c.Name, Ask: c.Ask, Ticket: ticket}
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
// listened.
func (l *lookout) watch() {
	listening := l.engine.Listen()
	pause := lookFast
	changed := false // or not seen, since the last look failed
	timer := time.NewTimer(0)
	defer timer.Stop()
	for claims, fresh := l.who(); len(claims) > 0; claims, fresh = l.who() {
		if changed = changed || fresh || l.changed(); changed {
			changed = !l.look(claims) // what failed is to be done again
			pause = lookFast
		} else {
			pause = min(pause*3/2, lookAtMost)
		}
		if listening {
			pause = lookSlowly
		}
		timer.Reset(pause)
		select {
		case <-l.frame.Life().Done():
			return
		case <-timer.C:
		}
	}
}

func (l *lookout) changed() bool {
	ctx, cancel := context.WithTimeout(l.frame.Life(), lookTimeout)
	defer cancel()
	changed, err := l.engine.Changed(ctx)
	return changed || err != nil
}

// look tells of those who no longer wait. It says whether it could see.
func (l *lookout) look(claims []store.Claim) bool {
	ctx, cancel := context.WithTimeout(l.frame.Life(), lookTimeout)
	defer cancel()
	answers, err := l.engine.Look(ctx, claims)
	if err != nil {
		return false // whoever waits learns why from its next Keep
	}
	for i, a := range answers {
		if a.Err == nil && a.State != store.Waiting {
			l.remove(claims[i].ID)
			l.frame.Push(claims[i].ID, store.Standing{State: a.State, Ticket: claims[i].Ticket})
		}
	}
	return true
}
