package sessionqueue

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// Leave implements store.Store.
func (s *Store[S]) Leave(ctx context.Context, c store.Claim) error {
	if err := s.Frame.Check(context.Background(), c.Name); err != nil {
		return err
	}
	p, known := s.leaving(&c)
	t, moving := s.leavingMove(&c)
	if err := ctx.Err(); err != nil {
		s.deletes.Later(p)
		s.deletes.Later(t.Position)
		s.deletes.Retry()
		return err
	}
	call := s.Frame.Call(ctx, c.TTL)
	defer call.End()
	if moving {
		return call.Outcome(s.leaveMove(call.Context, t))
	}
	if known {
		return call.Outcome(s.deletes.Now(call.Context, p))
	}
	// The claim is unknown here: it is detached, it never had a node, or it is gone.
	in, err := s.Session(call.Context)
	switch {
	case err != nil:
	case s.mover != nil:
		err = s.deleteByID(call.Context, in, c.Name, c.ID, true)
	default: // only for an error of the server
		_, err = s.Server.Queue(call.Context, in, c.Name)
	}
	return call.Outcome(err)
}

// leaving removes a claim, and returns what to delete. known is false if this client has no such claim.
func (s *Store[S]) leaving(left *store.Claim) (p frame.Position[S], known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, known = s.deletes.Pending(left.ID); known && p.Name == left.Name {
		return p, true
	}
	c := s.known(left)
	if c == nil {
		return frame.Position[S]{}, false
	}
	s.remove(c)
	return c.Position, true
}

// delete deletes the nodes of claims of one session.
func (s *Store[S]) delete(ctx context.Context, all []frame.Position[S]) error {
	return DeleteAll(ctx, s.Server, s.Sessions, all, s.deleteNodes)
}

// DeleteAll calls one for each of these claims of one session, after it has made requests in flight void if a claim is
// Unsure. If the session has ended, the claims ended with it. It is for [frame.DeletesConfig].
func DeleteAll[S comparable](
	ctx context.Context, server Server[S], sessions *frame.Sessions[S], all []frame.Position[S],
	one func(context.Context, frame.Position[S]) error,
) (err error) {
	ses := all[0].Session
	if slices.ContainsFunc(all, func(p frame.Position[S]) bool { return p.Unsure }) {
		err = server.Void(ctx, ses.Handle)
	}
	if err == nil {
		err = Each(all, func(p frame.Position[S]) error { return one(ctx, p) })
	}
	if errors.Is(err, ErrOver) {
		sessions.Over(ses)
		return nil
	}
	return err
}

// deleteNodes deletes the nodes of a claim, its own first: after that no marker can be made any more. A node of an
// unacknowledged Join is found by the claim's ID. Where nodes can be moved, this is the only way: the node that the
// claim had may be another claim's by now.
func (s *Store[S]) deleteNodes(ctx context.Context, p frame.Position[S]) error {
	if p.Unsure && s.mover != nil {
		err := s.deleteByID(ctx, p.Session.Handle, p.Name, p.ID, false)
		if err == nil || unreadable(err) {
			s.deletes.Done(p)
			return nil
		}
		return err
	}
	keys := slices.Clone(p.Markers)
	if p.Key != "" {
		keys = slices.Insert(keys, 0, p.Key)
	}
	if p.Unsure {
		entries, err := s.Server.Queue(ctx, p.Session.Handle, p.Name)
		if err != nil && !unreadable(err) {
			return err
		}
		for _, e := range entries {
			if e.ID == p.ID {
				keys = append(keys, e.Key)
			}
		}
	}
	for _, key := range keys {
		if err := s.Server.Delete(ctx, p.Session.Handle, key); err != nil {
			return err
		}
	}
	s.deletes.Done(p)
	return nil
}
