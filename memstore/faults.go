package memstore

import "github.com/holdfast-go/holdfast/store"

// Revoke takes a name away from its holders: their leases are lost, and the next claims that fit are granted. It
// reports whether the name was held. It concerns the name under every prefix.
func (s *Server) Revoke(name string) bool {
	now := s.begin()
	defer s.end()
	revoked := false
	for _, t := range s.tenants {
		q := t.queues[name]
		if q == nil {
			continue
		}
		var held []*entry
		for p := q.first; p != nil && p.held; p = p.next {
			held = append(held, p)
		}
		for _, p := range held {
			s.notify(p, store.Status{State: store.Gone, Ticket: p.claim.Ticket})
			s.remove(p, now)
			revoked = true
		}
	}
	return revoked
}

// Restart simulates a server that stops and starts again. With its data, only notifications may have been lost.
// Without, it has lost everything: every lease of every client is lost, and clients learn that when they next renew
// their claims. Clients are notified that they were reconnected.
func (s *Server) Restart(keepData bool) {
	s.begin()
	if !keepData {
		for _, t := range s.tenants {
			clear(t.queues)
		}
		s.entries = map[store.ID]*entry{}
		s.deadlines = nil
		s.ticket = firstTicket()
		s.pushes = nil
	}
	for w := range s.watches {
		w.tell("")
	}
	for st := range s.stores {
		s.pushes = append(s.pushes, push{to: st, id: store.Everyone})
	}
	s.end()
}

// Erase deletes a claim of a store without prefix without notifying its client, as an operator with a database shell
// could. The next claims that fit are granted. It is for tests of stores; tests of programs use [Server.Revoke].
func (s *Server) Erase(name string, id store.ID) {
	now := s.begin()
	defer s.end()
	if p, _ := s.find(s.tenant(""), name, id); p != nil {
		s.remove(p, now)
	}
}

// Residue counts what the server holds for a name under any prefix: claims, tombstones and the queue itself.
func (s *Server) Residue(name string) int {
	s.begin()
	defer s.end()
	n := 0
	for _, t := range s.tenants {
		if t.queues[name] != nil {
			n++
		}
	}
	for _, p := range s.entries {
		if p.claim.Name == name {
			n++
		}
	}
	return n
}

// PlantNewer marks the queue of a name as written by a newer version. Clients must refuse to touch it.
func (s *Server) PlantNewer(name string) {
	s.begin()
	defer s.end()
	t := s.tenant("")
	if t.queues[name] == nil {
		t.queues[name] = &queue{tenant: t, name: name}
	}
	t.queues[name].newer = true
}
