package memstore

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Detach implements store.Detacher.
func (st *Store) Detach(ctx context.Context, c store.Claim, as store.ID, d time.Duration) (store.Status, error) {
	return st.transfer(ctx, c, c.ID, as, d)
}

// Attach implements store.Detacher.
func (st *Store) Attach(ctx context.Context, c store.Claim, from store.ID) (store.Status, error) {
	return st.transfer(ctx, c, from, c.ID, c.TTL)
}

// transfer renames the claim from to the ID to, with a ttl. It becomes the claim c of this client if to is c's ID, and
// a detached one otherwise.
func (st *Store) transfer(
	ctx context.Context, c store.Claim, from, to store.ID, ttl time.Duration,
) (store.Status, error) {
	call, err := st.frame.Begin(ctx, c.Name, c.TTL)
	if err != nil {
		return store.Status{}, err
	}
	defer call.End()
	status, err := send(&call, st.route(), func() (store.Status, error) {
		now := st.server.begin()
		defer st.server.end()
		repeated := st.server.entries[to] != nil
		p, err := st.server.rename(st.tenant, c.Name, from, to)
		if p == nil {
			return store.Status{State: store.Gone}, err
		}
		if repeated && p.deadline.After(now.Add(ttl)) {
			return p.status(), nil
		}
		p.claim.TTL, p.claim.Grace, p.store = ttl, 0, nil
		if from != c.ID {
			p.claim.Grace, p.store = c.Grace, st
			p.claim.Owner, p.claim.Turn, p.claim.Waits = c.Owner, c.Turn, c.Waits
		}
		st.server.extend(p, now)
		st.server.changed(p.queue)
		return p.status(), nil
	})
	status.Until = call.Until(status.State, ttl)
	return status, err
}

// rename gives the held claim from the ID to, unless the claim to is in the queue already, and returns it. It returns
// nil if neither is in the queue, if from waits, or if there is a tombstone for to.
func (s *Server) rename(t *tenant, name string, from, to store.ID) (*entry, error) {
	if there := s.entries[to]; there != nil {
		if there.queue == nil {
			return nil, nil
		}
		return s.find(t, name, to)
	}
	p, err := s.find(t, name, from)
	if p == nil || !p.held {
		return nil, err
	}
	delete(s.entries, from)
	p.claim.ID = to
	s.entries[to] = p
	return p, nil
}
