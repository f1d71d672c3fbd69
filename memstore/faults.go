package memstore

import "github.com/holdfast-go/holdfast/store"

// Restart stands for a server that stops and comes back. With its data, only pushes may have been lost. Without,
// it has forgotten everything: every lease of every client is lost, and the clients learn it when they next keep
// their claims. Clients are told that they were reconnected.
func (s *Server) Restart(keepData bool) {
	s.begin()
	if !keepData {
		for _, t := range s.tenants {
			clear(t.queues)
		}
		s.places = map[store.ID]*place{}
		s.runOut = nil
		s.ticket = firstTicket()
		s.told = nil
	}
	for w := range s.watches {
		w.tell("")
	}
	for st := range s.stores {
		s.told = append(s.told, push{to: st, id: store.Everyone})
	}
	s.end()
}

// Erase takes a claim of a store without prefix away behind its owner's back. Whoever now fits is granted.
func (s *Server) Erase(name string, id store.ID) {
	now := s.begin()
	defer s.end()
	if p, _ := s.find(s.tenant(""), name, id); p != nil {
		s.remove(p, now)
	}
}

// Residue counts what the server holds for a name of any tenant: claims, tombstones and the line itself.
func (s *Server) Residue(name string) int {
	s.begin()
	defer s.end()
	n := 0
	for _, t := range s.tenants {
		if t.queues[name] != nil {
			n++
		}
	}
	for _, p := range s.places {
		if p.claim.Name == name {
			n++
		}
	}
	return n
}

// PlantNewer leaves something under a name that only a newer version could read. Clients must refuse to touch
// it.
func (s *Server) PlantNewer(name string) {
	s.begin()
	defer s.end()
	t := s.tenant("")
	if t.queues[name] == nil {
		t.queues[name] = &queue{tenant: t, name: name}
	}
	t.queues[name].newer = true
}
