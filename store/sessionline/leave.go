package sessionline

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

// Leave implements store.Store.
func (s *Store[S]) Leave(ctx context.Context, c store.Claim) error {
	if err := s.Frame.Check(context.Background(), c.Name); err != nil {
		return err
	}
	p, known := s.leaving(&c)
	if err := ctx.Err(); err != nil {
		s.deleteLater(p)
		s.deletes.Ask()
		return err
	}
	call := s.Frame.Call(ctx, c.TTL)
	defer call.End()
	if known {
		return call.Outcome(s.delete(call.Context, p))
	}
	// It does not stand here: it never did, or it is gone. All that is left to say is what the server says.
	in, err := s.Session(call.Context)
	if err == nil {
		_, err = s.Server.Line(call.Context, in, c.Name)
	}
	return call.Outcome(err)
}

// leaving forgets a claim, and returns where it is to be deleted.
func (s *Store[S]) leaving(left *store.Claim) (p position[S], known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, known = s.pending[left.ID]; known && p.name == left.Name {
		return p, true
	}
	c := s.known(left)
	if c == nil {
		return position[S]{}, false
	}
	s.remove(c)
	return c.position, true
}

// delete deletes a claim, and has that done later if it fails. To make void what may still land makes void what others
// are just sending, too: all that are given up at the same time share that.
func (s *Store[S]) delete(ctx context.Context, p position[S]) error {
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
		roundOver := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		if !roundOver {
			return err
		}
	}
}

// deleteLater remembers what is to be deleted. If its session is over, it went with that.
func (s *Store[S]) deleteLater(p position[S]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.Sessions.Is(p.session) {
		return
	}
	if old, known := s.pending[p.id]; known {
		p.unsure = p.unsure || old.unsure
		if p.key == "" {
			p.key, p.markers = old.key, old.markers
		}
	}
	s.pending[p.id] = p
}

// deleteNodes deletes the nodes of a claim that are known.
func (s *Store[S]) deleteNodes(ctx context.Context, p position[S]) error {
	for _, key := range p.keys() {
		err := s.Server.Delete(ctx, p.session.Handle, key)
		if errors.Is(err, ErrOver) {
			s.lose(p.session) // it went with it
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deletePending deletes what could not be deleted when that was asked for. It runs in one goroutine at a time.
func (s *Store[S]) deletePending() error {
	s.mu.Lock()
	pending := slices.Collect(maps.Values(s.pending))
	s.mu.Unlock()
	if len(pending) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.Frame.Life(), s.TTL/2)
	defer cancel()
	if slices.ContainsFunc(pending, func(p position[S]) bool { return p.unsure }) {
		err := s.Server.Void(ctx, pending[0].session.Handle)
		if errors.Is(err, ErrOver) {
			s.lose(pending[0].session) // its claims went with it
			return nil
		}
		if err != nil {
			return err
		}
	}
	return Each(pending, func(p position[S]) error { return s.deleteOne(ctx, p) })
}

// deleteOne deletes a claim that is pending. One that may have landed is looked for by its ID.
func (s *Store[S]) deleteOne(ctx context.Context, p position[S]) error {
	if p.unsure {
		entries, err := s.Server.Line(ctx, p.session.Handle, p.name)
		if err != nil && !unreadable(err) {
			return err
		}
		for _, e := range entries {
			if e.ID == p.id {
				p.markers = append(slices.Clone(p.markers), e.Key)
			}
		}
	}
	if err := s.deleteNodes(ctx, p); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.pending[p.id]; now.session == p.session && (p.unsure || !now.unsure) {
		delete(s.pending, p.id) // it does not stand any more, nor can come to
	}
	return nil
}

// deleted waits until nothing of a claim is to be deleted. What is left of it from before may be on its way out.
func (s *Store[S]) deleted(ctx context.Context, id store.ID) error {
	s.mu.Lock()
	_, pending := s.pending[id]
	s.mu.Unlock()
	if !pending {
		return nil
	}
	return s.deletes.Ask().Await(ctx)
}
