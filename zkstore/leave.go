package zkstore

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
)

// Leave implements store.Store.
func (s *Store) Leave(ctx context.Context, c store.Claim) error {
	if err := s.frame.Check(context.Background(), c.Name); err != nil {
		return err
	}
	p, known := s.leaving(&c)
	if err := ctx.Err(); err != nil {
		s.deleteLater(p)
		return err
	}
	call := s.frame.Call(ctx, c.TTL)
	defer call.End()
	if known {
		return call.Outcome(s.delete(call.Context, p))
	}
	// It does not stand here: it never did, or it is gone. All that is left to say is what the servers say.
	client, err := s.client(call.Context)
	if err == nil {
		_, err = s.readLine(call.Context, client, c.Name)
	}
	return call.Outcome(err)
}

// leaving forgets a claim, and returns where it is to be deleted.
func (s *Store) leaving(left *store.Claim) (p position, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, known = s.pending[left.ID]; known && p.name == left.Name {
		return p, true
	}
	c := s.known(left)
	if c == nil {
		return position{}, false
	}
	s.remove(c)
	return c.position, true
}

// delete deletes a claim, and has that done later if it fails. What may still land costs the session a new epoch, and
// so makes void what others are just sending: all that are given up at the same time share one.
func (s *Store) delete(ctx context.Context, p position) error {
	if !p.unsure {
		err := s.deleteNodes(ctx, p)
		if err != nil {
			s.deleteLater(p)
		}
		return err
	}
	s.deleteLater(p)
	for {
		err := s.deletes.Ask().Await(ctx)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) { // the round's limit, not the caller's
			return err
		}
	}
}

// deleteLater remembers what is to be deleted. If its session is over, it went with that.
func (s *Store) deleteLater(p position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sessions.Is(p.session) {
		return
	}
	if old, known := s.pending[p.id]; known {
		p.unsure = p.unsure || old.unsure
		if p.node == "" {
			p.node, p.markers = old.node, old.markers
		}
	}
	s.pending[p.id] = p
}

// deleteNodes deletes the nodes of a claim that are known. Nobody else ever has nodes of these names.
func (s *Store) deleteNodes(ctx context.Context, p position) error {
	for _, path := range p.paths() {
		err := request(ctx, p.session.Handle, func(conn *zk.Conn) error { return conn.Delete(path, -1) })
		switch {
		case isOver(err):
			s.lose(p.session) // it went with it
			return nil
		case err != nil && !errors.Is(err, zk.ErrNoNode):
			return pathError(path, err)
		}
	}
	return nil
}

// deletePending deletes what could not be deleted when that was asked for. It runs in one goroutine at a time.
func (s *Store) deletePending() error {
	s.mu.Lock()
	pending := slices.Collect(maps.Values(s.pending))
	s.mu.Unlock()
	if len(pending) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.frame.Life(), s.set.ttl/2)
	defer cancel()
	if slices.ContainsFunc(pending, func(p position) bool { return p.unsure }) {
		if stands, err := s.voidJoins(ctx, pending[0].session); err != nil || !stands {
			return err
		}
	}
	return each(pending, func(p position) error { return s.deleteOne(ctx, p) })
}

// deleteOne deletes a claim that is pending. One that may have landed is looked for by its ID.
func (s *Store) deleteOne(ctx context.Context, p position) error {
	if p.unsure {
		entries, err := s.readLine(ctx, p.session.Handle, p.name)
		if err != nil && !unreadable(err) {
			return err
		}
		for _, e := range entries {
			if e.id == p.id {
				p.markers = append(slices.Clone(p.markers), s.layout.path(p.name)+"/"+e.node)
			}
		}
	}
	if err := s.deleteNodes(ctx, p); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, p.id) // it does not stand any more, nor can come to
	return nil
}

// voidJoins begins another epoch of the session, in which nothing can land any more that was sent before. It reports
// whether the session stands.
func (s *Store) voidJoins(ctx context.Context, ses *session) (stands bool, err error) {
	c := ses.Handle
	stat, err := call(ctx, c, func(conn *zk.Conn) (*zk.Stat, error) {
		return conn.Set(c.path, []byte(format+s.set.about), -1)
	})
	switch {
	case isOver(err) || errors.Is(err, zk.ErrNoNode):
		s.lose(ses) // its claims went with it
		return false, nil
	case err != nil:
		return false, err
	}
	c.raiseEpoch(stat.Version)
	return true, nil
}

// deleted waits until nothing of a claim is to be deleted. What is left of it from before may be on its way out.
func (s *Store) deleted(ctx context.Context, id store.ID) error {
	s.mu.Lock()
	_, pending := s.pending[id]
	s.mu.Unlock()
	if !pending {
		return nil
	}
	return s.deletes.Ask().Await(ctx)
}
