package etcdstore

import (
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
)

// A place is a claim of this client that stands in etcd, as far as is known. All but what does not change is guarded by
// the store's mu.
type place struct {
	id      store.ID
	name    string
	key     string
	ticket  uint64 // the key's create revision
	session *session
	joined  time.Time // when Join was called
	since   time.Time // when it was answered

	ask     store.Ask
	state   store.State // Waiting or Held
	granted time.Time   // if it had to wait
	asOf    int64       // the revision at which it was last looked at

	said     string // the value that was last written
	mod      int64  // the key's mod revision then
	doubtful bool   // a Join of it may still be under way

	blocker blocker // what it waits for
	moved   bool    // that is known to have changed
	unknown error   // why it could not be judged where it stands

	ahead *watch // on what it waits for
	own   *watch // on its own key
}

// exclusive says whether it holds only if nobody is ahead.
func (p *place) exclusive() bool { return p.ask.Units == p.ask.Limit }

// news is what its key has to say now.
func (p *place) news(c *store.Claim) record {
	r := record{
		ID: p.id, Kind: p.ask.Kind, Units: min(p.ask.Units, c.Units), Limit: p.ask.Limit, TTL: p.session.ttl.Milliseconds(),
		Joined: millis(p.joined), Turn: c.Turn, Owner: c.Owner, Waits: c.Waits,
	}
	if p.state == store.Held && time.Since(p.granted) > tellGrant {
		r.Granted = millis(p.granted)
	}
	return r
}

// tellGrant is how long a claim that had to wait is held before it says in its key since when. A short hold costs no
// write for it.
const tellGrant = time.Second

// admit notes that the claim of a Join stands. If it is known already, it is that one.
func (s *Store) admit(j *joining, ses *session, l *landing) *place {
	p := s.places[j.ID]
	if p == nil || p.ticket != l.ticket {
		if p != nil {
			s.remove(p) // somebody took it out, and nobody has noticed
		}
		p = &place{
			id: j.ID, name: j.Name, key: j.key, ticket: l.ticket, session: ses, ask: j.Ask, joined: j.began, since: time.Now(),
			state: store.Waiting, asOf: l.asOf, said: l.value, mod: l.mod,
		}
		s.places[j.ID] = p
		s.watchSoon(p)
	}
	p.doubtful = p.doubtful || j.unsure
	return p
}

// hold notes that p is held. Nobody behind can change that: it ends when its key goes.
func (s *Store) hold(p *place, waited bool) {
	if p.state == store.Held {
		return
	}
	p.state = store.Held
	s.unwatchAhead(p)
	if waited {
		p.granted = time.Now()
		s.push(p.id, store.Standing{State: store.Held, Ticket: p.ticket})
	}
}

// gone notes that p stands no more.
func (s *Store) gone(p *place) {
	if !s.remove(p) {
		return
	}
	s.push(p.id, store.Standing{State: store.Gone, Ticket: p.ticket})
	switch {
	case p.session != s.session: // it went with its session
	case p.doubtful:
		s.debts[p.id] = p.debt()
	default:
		s.vacate(p.name, p.id)
	}
}

// remove forgets p.
func (s *Store) remove(p *place) bool {
	if s.places[p.id] != p {
		return false
	}
	delete(s.places, p.id)
	delete(s.doubts, p)
	s.unwatchAhead(p)
	if p.own != nil {
		s.lookout.remove(p.own)
		p.own = nil
	}
	return true
}

// waitFor has p watch what blocks it, as it was at a revision.
func (s *Store) waitFor(p *place, b blocker, asOf int64) {
	p.moved = false
	if p.ahead != nil && p.blocker == b {
		return
	}
	s.unwatchAhead(p)
	p.blocker = b
	w := &watch{key: b.key, puts: !p.exclusive(), asOf: asOf}
	if b.key == "" { // the whole line
		w.key = s.keys.line(p.name)
		w.end = clientv3.GetPrefixRangeEnd(w.key)
	}
	w.told = func(e *mvccpb.Event) { s.blockerMoved(p, w, e) }
	p.ahead = w
	s.lookout.add(w)
}

func (s *Store) unwatchAhead(p *place) {
	if p.ahead != nil {
		s.lookout.remove(p.ahead)
		p.ahead = nil
	}
}

// blockerMoved is told when something happened to what p waits for.
func (s *Store) blockerMoved(p *place, w *watch, e *mvccpb.Event) {
	if e != nil && e.Type == mvccpb.Event_PUT && e.Kv.CreateRevision >= int64(p.ticket) { //nolint:gosec // a revision
		return // in a line that is watched as a whole: somebody behind
	}
	s.mu.Lock()
	defer s.unlock()
	if p.ahead != w {
		return // it waits for something else by now
	}
	p.moved = p.moved || e != nil
	s.doubt(p)
}

// ownGone is told when p's own key was removed, or may have been.
func (s *Store) ownGone(p *place) {
	s.mu.Lock()
	defer s.unlock()
	s.doubt(p)
}

// watchAfter is how long a claim stands before its own key is watched, so that whoever takes it away is noticed at once.
// A lock that is given back sooner costs no watch.
const watchAfter = 25 * time.Millisecond

// watchSoon has p's own key watched if it stands a little longer.
func (s *Store) watchSoon(p *place) {
	s.unwatched = append(s.unwatched, p)
	if len(s.unwatched) == 1 {
		s.watchTimer.Reset(watchAfter)
	}
}

// watchOwn watches the own keys of those who stand for long enough.
func (s *Store) watchOwn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return
	}
	now := time.Now()
	due := 0
	for _, p := range s.unwatched {
		if left := watchAfter - now.Sub(p.since); left > watchAfter/8 {
			s.watchTimer.Reset(left)
			break
		}
		due++
		if s.places[p.id] == p && p.own == nil {
			p.own = &watch{key: p.key, asOf: p.asOf, told: func(*mvccpb.Event) { s.ownGone(p) }}
			s.lookout.add(p.own)
		}
	}
	s.unwatched = append(s.unwatched[:0:0], s.unwatched[due:]...)
}
