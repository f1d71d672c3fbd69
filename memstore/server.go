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

// A Server keeps the queues of all stores that are connected to it. It needs no closing.
type Server struct {
	identity string
	start    time.Time // deadlines on the agenda count from here

	mu        sync.Mutex
	stores    map[*Store]struct{}
	tenants   map[string]*tenant
	entries   map[store.ID]*entry   // claims and tombstones
	deadlines agenda.Agenda[*entry] // the same, by deadline
	ticket    uint64                // the last ticket drawn, of any queue
	alarm     *time.Timer           // removes expired claims between calls
	alarmAt   time.Time             // when the alarm fires; zero: it is not set
	pushes    []push                // to be delivered once mu is released
	watches   map[*watch]struct{}   // notified of changes; most servers have none

	spareQueues  pool[queue] // so that a lock that is taken again and again allocates nothing here
	spareEntries pool[entry]
}

// A push notifies a store about one of its claims.
type push struct {
	to     *Store
	id     store.ID
	status store.Status
}

// NewServer makes an empty server.
func NewServer() *Server {
	return &Server{
		identity: rand.Text(),
		start:    time.Now(),
		stores:   map[*Store]struct{}{},
		tenants:  map[string]*tenant{},
		entries:  map[store.ID]*entry{},
		watches:  map[*watch]struct{}{},
		ticket:   firstTicket(),
	}
}

// firstTicket returns where tickets begin: above those of any earlier process that drew less than one a microsecond.
func firstTicket() uint64 { return uint64(time.Now().UnixMicro()) }

// begin starts an operation: it locks mu and removes expired claims (rule 4).
func (s *Server) begin() (now time.Time) {
	s.mu.Lock()
	now = time.Now()
	for len(s.deadlines) > 0 {
		p, _ := s.deadlines.First()
		if p.deadline.After(now) {
			break
		}
		s.remove(p, now)
	}
	return now
}

// end sets the alarm, unlocks mu, and then delivers the notifications: a client that gets one may call back.
func (s *Server) end() {
	if len(s.deadlines) > 0 {
		p, _ := s.deadlines.First()
		s.setAlarm(p.deadline)
	}
	pushes := s.pushes
	s.pushes = nil
	s.mu.Unlock()
	for _, p := range pushes {
		p.to.deliver(p.id, p.status)
	}
}

// setAlarm makes the alarm fire at t or earlier. An alarm that is too early is left as it is: it finds nothing and sets
// itself again. So a claim that comes and goes sets no timer.
func (s *Server) setAlarm(t time.Time) {
	if !s.alarmAt.IsZero() && !s.alarmAt.After(t) {
		return
	}
	s.alarmAt = t
	if s.alarm == nil {
		s.alarm = time.AfterFunc(time.Until(t), s.onAlarm)
	} else {
		s.alarm.Reset(time.Until(t))
	}
}

// onAlarm removes the claims that have expired by now.
func (s *Server) onAlarm() {
	s.begin()
	s.alarmAt = time.Time{}
	s.end()
}

// remove removes p and grants the claims that now fit. p must not be used afterwards.
func (s *Server) remove(p *entry, now time.Time) {
	delete(s.entries, p.claim.ID)
	s.deadlines.Remove(p.pos)
	if q := p.queue; q != nil {
		q.remove(p)
		s.changed(q)
		s.grantNext(q, now)
	}
	s.spareEntries.put(p)
}

// grantNext grants and notifies all claims that fit, and drops the queue if it is empty (rule 9).
func (s *Server) grantNext(q *queue, now time.Time) {
	for p := q.grant(now); p != nil; p = q.grant(now) {
		s.changed(q)
		s.notify(p, store.Status{State: store.Held, Ticket: p.claim.Ticket})
	}
	if q.size == 0 && !q.newer {
		delete(q.tenant.queues, q.name)
		s.spareQueues.put(q)
	}
}

// notify adds a push to those that are delivered when the server's mutex is unlocked. A detached claim has no client
// that could be notified.
func (s *Server) notify(p *entry, status store.Status) {
	if p.store != nil {
		s.pushes = append(s.pushes, push{p.store, p.claim.ID, status})
	}
}

// tenant returns what stores with this prefix see. The caller holds mu.
func (s *Server) tenant(prefix string) *tenant {
	t := s.tenants[prefix]
	if t == nil {
		t = &tenant{map[string]*queue{}}
		s.tenants[prefix] = t
	}
	return t
}

// queue returns the queue of a name, or nil if it is empty.
func (t *tenant) queue(name string) (*queue, error) {
	q := t.queues[name]
	if q != nil && q.newer {
		return nil, store.ErrFormat
	}
	return q, nil
}

// find returns the claim with this ID in the tenant's queue of that name, or nil. The error is ErrFormat if the queue
// is in a newer format.
func (s *Server) find(t *tenant, name string, id store.ID) (*entry, error) {
	p := s.entries[id]
	if p != nil && p.queue != nil && p.queue.tenant == t && p.queue.name == name && !p.queue.newer {
		return p, nil
	}
	_, err := t.queue(name)
	return nil, err
}

// register records p and its deadline.
func (s *Server) register(p *entry, now time.Time) {
	p.deadline = now.Add(p.claim.TTL + p.claim.Grace)
	s.entries[p.claim.ID] = p
	s.deadlines.Add(p, int64(p.deadline.Sub(s.start)))
}

// extend moves p's deadline to a ttl from now.
func (s *Server) extend(p *entry, now time.Time) {
	p.deadline = now.Add(p.claim.TTL + p.claim.Grace)
	s.deadlines.Move(p.pos, int64(p.deadline.Sub(s.start)))
}

// join carries out a Join of a client.
func (s *Server) join(from *Store, c *store.Claim) (store.Status, error) {
	now := s.begin()
	defer s.end()
	q, err := from.tenant.queue(c.Name)
	if err != nil {
		return store.Status{}, err
	}
	if p := s.entries[c.ID]; p != nil {
		if p.queue == nil || p.queue != q {
			return store.Status{State: store.Gone}, nil // it has a tombstone
		}
		s.extend(p, now)
		return p.status(), nil
	}
	if c.Floor > s.ticket &&
		store.FloorTooHigh(c.Floor, now) { // a ticket that the server drew itself is never too high
		return store.Status{}, store.ErrFloor
	}
	if q != nil && q.first != nil && grant.Mismatch(q.first.claim.Demand, c.Demand, c.AnyLimit) {
		return store.Status{}, &store.MismatchError{InUse: q.first.claim.Demand}
	}
	if c.Try && q != nil && !q.fits(c.Demand) {
		holder := q.first.view(now)
		return store.Status{State: store.Gone, Ahead: q.size, Holder: &holder}, nil
	}
	return s.admit(from, q, c, now), nil
}

// admit draws the ticket and puts c at the end of the queue.
func (s *Server) admit(from *Store, q *queue, c *store.Claim, now time.Time) store.Status {
	if q == nil {
		q = s.spareQueues.get()
		q.tenant, q.name = from.tenant, c.Name
		from.tenant.queues[c.Name] = q
	}
	s.ticket = max(s.ticket, c.Floor) + 1
	p := s.spareEntries.get()
	p.claim, p.store, p.since = *c, from, now
	p.claim.Ticket = s.ticket
	ahead := q.size
	q.push(p)
	s.changed(q)
	s.register(p, now)
	q.grant(now) // p itself, if nothing waits before it: all others that fit are held already
	status := p.status()
	status.Ahead = ahead
	return status
}

// keep carries out a Keep of a client, and returns the status of each claim.
func (s *Server) keep(from *Store, cs []store.Claim) []store.Status {
	now := s.begin()
	defer s.end()
	statuses := make([]store.Status, len(cs))
	for i := range cs {
		statuses[i] = s.keepOne(from, &cs[i], now)
	}
	return statuses
}

// keepOne extends one claim and returns its status.
func (s *Server) keepOne(from *Store, c *store.Claim, now time.Time) store.Status {
	p, err := s.find(from.tenant, c.Name, c.ID)
	if p == nil {
		return store.Status{State: store.Gone, Err: err}
	}
	s.extend(p, now)
	p.store = from
	if p.claim.Owner != c.Owner || p.claim.Turn != c.Turn || p.claim.Units > c.Units {
		s.changed(p.queue)
	}
	p.claim.Owner, p.claim.Turn, p.claim.Waits = c.Owner, c.Turn, c.Waits
	p.queue.shrink(p, c.Units)
	s.grantNext(p.queue, now)
	return p.status()
}

// leave carries out a Leave of a client.
func (s *Server) leave(from *Store, c *store.Claim) error {
	now := s.begin()
	defer s.end()
	p, err := s.find(from.tenant, c.Name, c.ID)
	switch {
	case err != nil:
		return err
	case p != nil:
		s.remove(p, now)
	case c.Ticket == 0 && s.entries[c.ID] == nil:
		tombstone := s.spareEntries.get()
		tombstone.claim = store.Claim{ID: c.ID, Name: c.Name, TTL: c.TTL}
		s.register(tombstone, now)
	}
	return nil
}

// breakTicket removes the claim with a ticket. If there is none, it returns store.ErrNotHeld.
func (s *Server) breakTicket(t *tenant, name string, ticket uint64) error {
	now := s.begin()
	defer s.end()
	q, err := t.queue(name)
	if err != nil {
		return err
	}
	if q != nil {
		for p := q.first; p != nil; p = p.next {
			if p.claim.Ticket == ticket {
				s.notify(p, store.Status{State: store.Gone, Ticket: ticket})
				s.remove(p, now)
				return nil
			}
		}
	}
	return store.ErrNotHeld
}

// inspect returns the queue of a name.
func (s *Server) inspect(t *tenant, name string) (store.Queue, error) {
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
	for p := q.first; p != nil; p = p.next {
		l.Entries = append(l.Entries, p.view(now))
	}
	return l, nil
}

// names returns the tenant's names that are in use and begin with prefix.
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

// status returns p's status. Until is right for a direct call; over a network it counts from when the request was sent.
func (p *entry) status() store.Status {
	return store.Status{
		State:  p.state(),
		Ticket: p.claim.Ticket,
		Until:  p.deadline.Add(-p.claim.Grace - frame.OneClock.Plus),
		Ahead:  -1,
	}
}

// state returns whether the claim is held or waits.
func (p *entry) state() store.State {
	if p.held {
		return store.Held
	}
	return store.Waiting
}

// view returns p as an entry of its queue.
func (p *entry) view(now time.Time) store.Entry {
	return store.Entry{Claim: p.claim, State: p.state(), Since: p.since, Left: p.deadline.Sub(now)}
}
