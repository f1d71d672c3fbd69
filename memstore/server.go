package memstore

import (
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/agenda"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/grant"
)

// A Server keeps the lines of all who are connected to it. It needs no closing.
type Server struct {
	identity string
	start    time.Time // what deadlines on the agenda count from

	mu      sync.Mutex
	stores  map[*Store]struct{}
	tenants map[string]*tenant
	places  map[store.ID]*place   // claims and tombstones
	runOut  agenda.Agenda[*place] // the same, by deadline
	ticket  uint64                // the last one given, of any resource
	alarm   *time.Timer           // removes what is out when nobody calls
	wakes   time.Time             // when the alarm goes off; zero: it is not set
	told    []push                // to be delivered when mu is free
	watches map[*watch]struct{}   // what is told of changes; most servers have none

	spareQueues pool[queue] // a lock that is taken and given back again and again needs no new memory here
	sparePlaces pool[place]
}

// A push is news for one store about one of its claims.
type push struct {
	to       *Store
	id       store.ID
	standing store.Status
}

// NewServer makes an empty server.
func NewServer() *Server {
	return &Server{
		identity: rand.Text(),
		start:    time.Now(),
		stores:   map[*Store]struct{}{},
		tenants:  map[string]*tenant{},
		places:   map[store.ID]*place{},
		ticket:   firstTicket(),
	}
}

// firstTicket is where tickets begin: above those of any earlier process that gave less than one a microsecond.
func firstTicket() uint64 { return uint64(time.Now().UnixMicro()) }

// begin starts an operation: it removes what is out by now (rule 4).
func (s *Server) begin() (now time.Time) {
	s.mu.Lock()
	now = time.Now()
	for len(s.runOut) > 0 {
		p, _ := s.runOut.First()
		if p.deadline.After(now) {
			break
		}
		s.remove(p, now)
	}
	return now
}

// end sets the alarm, lets others in, and then tells who was granted. Pushes go out without the lock, because
// whoever gets one may call back.
func (s *Server) end() {
	if len(s.runOut) > 0 {
		p, _ := s.runOut.First()
		s.setAlarm(p.deadline)
	}
	told := s.told
	s.told = nil
	s.mu.Unlock()
	for _, p := range told {
		p.to.deliver(p.id, p.standing)
	}
}

// setAlarm makes sure that the server wakes up by itself at t or before. An alarm that is too early is left as
// it is: it finds nothing and sets itself again. So a claim that comes and goes costs no timer.
func (s *Server) setAlarm(t time.Time) {
	if !s.wakes.IsZero() && !s.wakes.After(t) {
		return
	}
	s.wakes = t
	if s.alarm == nil {
		s.alarm = time.AfterFunc(time.Until(t), s.onAlarm)
	} else {
		s.alarm.Reset(time.Until(t))
	}
}

func (s *Server) onAlarm() {
	s.begin()
	s.wakes = time.Time{}
	s.end()
}

// remove takes p out and grants whoever now fits. Nobody may know p after it.
func (s *Server) remove(p *place, now time.Time) {
	delete(s.places, p.claim.ID)
	s.runOut.Remove(p.pos)
	if q := p.queue; q != nil {
		q.remove(p)
		s.changed(q)
		s.settle(q, now)
	}
	s.sparePlaces.put(p)
}

// settle grants all who fit and tells them, and forgets a line that is empty (rule 9).
func (s *Server) settle(q *queue, now time.Time) {
	for p := q.grant(now); p != nil; p = q.grant(now) {
		s.changed(q)
		s.tell(p, store.Status{State: store.Held, Ticket: p.claim.Ticket})
	}
	if q.size == 0 && !q.newer {
		delete(q.tenant.queues, q.name)
		s.spareQueues.put(q)
	}
}

func (s *Server) tell(p *place, standing store.Status) {
	s.told = append(s.told, push{p.store, p.claim.ID, standing})
}

// tenant is what a store of this prefix sees. The caller has mu.
func (s *Server) tenant(prefix string) *tenant {
	t := s.tenants[prefix]
	if t == nil {
		t = &tenant{map[string]*queue{}}
		s.tenants[prefix] = t
	}
	return t
}

// queue finds the line of a name, which is nil if it is empty.
func (t *tenant) queue(name string) (*queue, error) {
	q := t.queues[name]
	if q != nil && q.newer {
		return nil, store.ErrFormat
	}
	return q, nil
}

// find looks up a claim by its ID, as far as it stands in the tenant's line of that name. The name may be
// written in a newer format whether the claim is found or not.
func (s *Server) find(t *tenant, name string, id store.ID) (*place, error) {
	p := s.places[id]
	if p != nil && p.queue != nil && p.queue.tenant == t && p.queue.name == name && !p.queue.newer {
		return p, nil
	}
	_, err := t.queue(name)
	return nil, err
}

// enrol notes p's deadline.
func (s *Server) enrol(p *place, now time.Time) {
	p.deadline = now.Add(p.claim.TTL + p.claim.Grace)
	s.places[p.claim.ID] = p
	s.runOut.Add(p, int64(p.deadline.Sub(s.start)))
}

// prolong moves p's deadline on.
func (s *Server) prolong(p *place, now time.Time) {
	p.deadline = now.Add(p.claim.TTL + p.claim.Grace)
	s.runOut.Move(p.pos, int64(p.deadline.Sub(s.start)))
}

func (s *Server) join(from *Store, c *store.Claim) (store.Status, error) {
	now := s.begin()
	defer s.end()
	q, err := from.tenant.queue(c.Name)
	if err != nil {
		return store.Status{}, err
	}
	if p := s.places[c.ID]; p != nil {
		if p.queue == nil || p.queue != q {
			return store.Status{State: store.Gone}, nil // its tombstone
		}
		s.prolong(p, now)
		return p.standing(), nil
	}
	if c.Floor > s.ticket && store.FloorTooHigh(c.Floor, now) { // one of its own is never too high
		return store.Status{}, store.ErrFloor
	}
	if q != nil && q.first != nil && grant.Mismatch(q.first.claim.Demand, c.Demand) {
		return store.Status{}, &store.MismatchError{InUse: q.first.claim.Demand}
	}
	if c.Try && q != nil && !q.fits(c.Demand) {
		holder := q.first.seen(now)
		return store.Status{State: store.Gone, Ahead: q.size, Holder: &holder}, nil
	}
	return s.admit(from, q, c, now), nil
}

// admit draws the ticket and gives c its place.
func (s *Server) admit(from *Store, q *queue, c *store.Claim, now time.Time) store.Status {
	if q == nil {
		q = s.spareQueues.get()
		q.tenant, q.name = from.tenant, c.Name
		from.tenant.queues[c.Name] = q
	}
	s.ticket = max(s.ticket, c.Floor) + 1
	p := s.sparePlaces.get()
	p.claim, p.store, p.since = *c, from, now
	p.claim.Ticket = s.ticket
	ahead := q.size
	q.push(p)
	s.changed(q)
	s.enrol(p, now)
	q.grant(now) // p itself, if nobody waits before it: all others that fit are held already
	standing := p.standing()
	standing.Ahead = ahead
	return standing
}

func (s *Server) keep(from *Store, cs []store.Claim) []store.Status {
	now := s.begin()
	defer s.end()
	standings := make([]store.Status, len(cs))
	for i := range cs {
		standings[i] = s.keepOne(from, &cs[i], now)
	}
	return standings
}

func (s *Server) keepOne(from *Store, c *store.Claim, now time.Time) store.Status {
	p, err := s.find(from.tenant, c.Name, c.ID)
	if p == nil {
		return store.Status{State: store.Gone, Err: err}
	}
	s.prolong(p, now)
	p.store = from
	if p.claim.Owner != c.Owner || p.claim.Turn != c.Turn || p.claim.Units > c.Units {
		s.changed(p.queue)
	}
	p.claim.Owner, p.claim.Turn, p.claim.Waits = c.Owner, c.Turn, c.Waits
	p.queue.shrink(p, c.Units)
	s.settle(p.queue, now)
	return p.standing()
}

func (s *Server) leave(from *Store, c *store.Claim) error {
	now := s.begin()
	defer s.end()
	p, err := s.find(from.tenant, c.Name, c.ID)
	switch {
	case err != nil:
		return err
	case p != nil:
		s.remove(p, now)
	case c.Ticket == 0 && s.places[c.ID] == nil:
		tombstone := s.sparePlaces.get()
		tombstone.claim = store.Claim{ID: c.ID, Name: c.Name, TTL: c.TTL}
		s.enrol(tombstone, now)
	}
	return nil
}

func (s *Server) breakTicket(t *tenant, name string, ticket uint64) error {
	now := s.begin()
	defer s.end()
	q, err := t.queue(name)
	if err != nil {
		return err
	}
	if q != nil {
		for p := q.first; p != nil; p = p.after {
			if p.claim.Ticket == ticket {
				s.tell(p, store.Status{State: store.Gone, Ticket: ticket})
				s.remove(p, now)
				return nil
			}
		}
	}
	return store.ErrNotHeld
}

func (s *Server) line(t *tenant, name string) (store.Queue, error) {
	now := s.begin()
	defer s.end()
	return t.read(name, now)
}

// read reads a queue. The server's mutex is locked.
func (t *tenant) read(name string, now time.Time) (store.Queue, error) {
	l := store.Queue{Name: name}
	q, err := t.queue(name)
	if err != nil || q == nil {
		return l, err
	}
	l.Entries = make([]store.Entry, 0, q.size)
	for p := q.first; p != nil; p = p.after {
		l.Entries = append(l.Entries, p.seen(now))
	}
	return l, nil
}

// names lists what a tenant has lines of.
func (s *Server) names(t *tenant, prefix string) []string {
	s.begin()
	defer s.end()
	var names []string
	for name, q := range t.queues {
		if strings.HasPrefix(name, prefix) && q.size > 0 {
			names = append(names, name)
		}
	}
	return names
}

// standing is where p stands. Until is right for a caller without a wire; with one, it was sent before.
func (p *place) standing() store.Status {
	return store.Status{
		State:  p.state(),
		Ticket: p.claim.Ticket,
		Until:  p.deadline.Add(-p.claim.Grace - frame.OneClock.Plus),
		Ahead:  -1,
	}
}

func (p *place) state() store.State {
	if p.held {
		return store.Held
	}
	return store.Waiting
}

// seen is p as others see it.
func (p *place) seen(now time.Time) store.Entry {
	return store.Entry{Claim: p.claim, State: p.state(), Since: p.since, Left: p.deadline.Sub(now)}
}
