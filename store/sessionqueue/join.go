package sessionqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/grant"
)

// A joining is a call of Join in progress.
type joining[S comparable] struct {
	*store.Claim
	at    frame.Position[S]
	store *Store[S]
	began time.Time
}

// joinTries bounds the attempts of a Join while the session changes, or while the server requests another attempt.
const joinTries = 20

// Join implements store.Store.
func (s *Store[S]) Join(ctx context.Context, c store.Claim) (store.Status, error) {
	call, err := s.Frame.Begin(ctx, c.Name, c.TTL)
	if err != nil {
		return store.Status{}, err
	}
	defer call.End()
	if store.FloorTooHigh(c.Floor, time.Now()) { // the server has no clock to ask
		return store.Status{}, store.ErrFloor
	}
	end, err := s.beginJoin(call.Context, c.ID)
	if err != nil {
		return store.Status{}, call.Outcome(err)
	}
	defer end()
	j := &joining[S]{Claim: &c, at: frame.Position[S]{ID: c.ID, Name: c.Name}, store: s, began: call.Sent}
	for range joinTries {
		status, err := j.attempt(call.Context)
		if errors.Is(err, ErrOver) {
			s.Sessions.Over(j.at.Session)
			continue
		}
		if !errors.Is(err, ErrAgain) {
			if err != nil || status.State == store.Gone {
				err = s.deletes.GiveUp(&call, j.at, call.Outcome(err))
			}
			return status, err
		}
	}
	return store.Status{}, s.deletes.GiveUp(&call, j.at, s.Frame.Fault(ctx, ErrAgain))
}

// beginJoin waits until no other Join of the claim is in progress, since each would make a node. The error is that of
// ctx.
func (s *Store[S]) beginJoin(ctx context.Context, id store.ID) (end func(), err error) {
	for {
		s.mu.Lock()
		other := s.joining[id]
		if other == nil {
			done := make(chan struct{})
			s.joining[id] = done
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.joining, id)
				s.mu.Unlock()
				close(done)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// attempt tries to join once. If the error is ErrAgain or ErrOver, the caller tries again.
func (j *joining[S]) attempt(ctx context.Context) (store.Status, error) {
	s := j.store
	ses, err := s.Sessions.Current(ctx)
	if err == nil {
		err = s.deletes.Await(ctx, j.ID)
	}
	if err != nil {
		return store.Status{}, err
	}
	if j.at.Session != ses { // under another session, nothing of what was sent before can land
		j.at.Session, j.at.Unsure = ses, false
	}
	s.mu.Lock()
	known := s.known(j.Claim)
	s.mu.Unlock()
	if known != nil {
		return j.again(ctx, known)
	}
	if j.Try {
		if status, refused, err := j.refused(ctx); refused || err != nil {
			return status, err
		}
	}
	c := &claim[S]{Position: j.at, joined: j.began, demand: j.Demand}
	c.written = c.data(j.Claim)
	made, unsure, err := s.Server.Make(ctx, ses.Handle, j.Claim, c.written)
	j.at.Unsure = j.at.Unsure || unsure
	if err != nil {
		return store.Status{}, err
	}
	ses.Extend(made.Alive)
	c.Key, c.Ticket, c.version, c.state = made.Key, made.Ticket, made.Version, store.Held
	return j.made(ctx, c, made.Queue)
}

// made returns the status of a claim whose node was just made. entries is the queue at that moment, or nil if it is not
// known.
func (j *joining[S]) made(ctx context.Context, c *claim[S], entries []Entry) (status store.Status, err error) {
	s := j.store
	ahead := 0
	if c.Ticket <= j.Floor || c.Ticket > store.MaxTicket { // the server was restored from a backup
		err = fmt.Errorf("%w: it is at %d, and %d was seen", store.ErrFloor, c.Ticket, j.Floor)
	} else {
		ahead, err = j.inspectAhead(ctx, c, entries)
	}
	if err != nil || j.Try && c.state != store.Held {
		if failed := s.deletes.Now(ctx, c.Position); failed != nil {
			j.at, j.at.Unsure = c.Position, true // it may still stand: that is no final error
			return status, failed
		}
		return store.Status{Ahead: ahead}, err
	}
	if err := s.Sessions.Freshen(ctx, j.at.Session); err != nil {
		j.at, j.at.Unsure = c.Position, true
		return status, err
	}
	s.mu.Lock()
	if !s.Sessions.Is(j.at.Session) {
		s.mu.Unlock()
		return status, ErrAgain // it is gone with its session
	}
	s.admit(c)
	waits := c.state == store.Waiting
	s.mu.Unlock()
	if waits {
		j.await(ctx, c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return j.at.Session.Status(c.state, c.Ticket, ahead), nil
}

// await watches what c waits for. If one of these nodes was deleted meanwhile, or can't be watched, c is inspected
// soon.
func (j *joining[S]) await(ctx context.Context, c *claim[S]) {
	s := j.store
	s.mu.Lock()
	exclusive := c.exclusive()
	s.mu.Unlock()
	there, err := s.watchAhead(ctx, c)
	if err == nil && there && exclusive {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubt(c)
}

// inspectAhead sets the claim's status from the entries ahead of it, and returns their number. It reads the queue if
// entries is nil.
func (j *joining[S]) inspectAhead(ctx context.Context, c *claim[S], entries []Entry) (ahead int, err error) {
	if entries == nil {
		if entries, err = j.store.Server.Queue(ctx, c.Session.Handle, c.Name); err != nil {
			return 0, err
		}
	}
	if ahead = indexOf(entries, c.Key); ahead < 0 {
		return 0, ErrAgain // it was deleted by others
	}
	if err := mismatch(entries[:ahead], j.Claim); err != nil {
		return ahead, err
	}
	c.state, c.waitsFor, c.noOthers = j.store.evaluate(c.Name, entries[:ahead], j.Demand)
	return ahead, nil
}

// refused reports whether a Try cannot succeed, by a queue that is no older than the call. A Try that is refused made
// no node, so it has never blocked other claims.
func (j *joining[S]) refused(ctx context.Context) (status store.Status, refused bool, err error) {
	s := j.store
	entries, err := s.queueNow(ctx, j.at.Session.Handle, j.Name)
	if err == nil {
		err = mismatch(entries, j.Claim)
	}
	if err != nil || len(entries) == 0 {
		return status, false, err
	}
	status.Ahead = len(entries)
	state, _, _ := s.evaluate(j.Name, entries, j.Demand)
	return status, state != store.Held, nil
}

// again returns the status of a claim that has joined before.
func (j *joining[S]) again(ctx context.Context, c *claim[S]) (status store.Status, err error) {
	s := j.store
	if err := s.confirm(ctx, c.Session, []*claim[S]{c}, []store.Claim{*j.Claim}); err != nil {
		return status, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.Sessions.Is(c.Session):
		return status, ErrAgain
	case s.claims[c.ID] != c:
		return status, nil
	}
	return c.Session.Status(c.state, c.Ticket, -1), c.unknown
}

// indexOf returns the index of a node in a queue, or -1.
func indexOf(entries []Entry, key string) int {
	return slices.IndexFunc(entries, func(e Entry) bool { return e.Key == key })
}

// mismatch returns ErrMismatch if c may not join a queue that begins with these entries.
func mismatch(ahead []Entry, c *store.Claim) error {
	if len(ahead) > 0 && grant.Mismatch(ahead[0].Demand, c.Demand, c.AnyLimit) {
		return &store.MismatchError{InUse: ahead[0].Demand}
	}
	return nil
}
