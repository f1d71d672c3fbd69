package sessionline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/line"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A joining is one call of Join.
type joining[S comparable] struct {
	*store.Claim
	position[S]
	store *Store[S]
	began time.Time
}

// joinTries is how often a Join is tried while the session changes, or the server has it tried again.
const joinTries = 20

// Join implements store.Store.
func (s *Store[S]) Join(ctx context.Context, c store.Claim) (store.Standing, error) {
	call, err := s.Frame.Begin(ctx, c.Name, c.TTL)
	if err != nil {
		return store.Standing{}, err
	}
	defer call.End()
	if store.FloorTooHigh(c.Floor, time.Now()) { // the server has no clock to ask
		return store.Standing{}, store.ErrFloor
	}
	end, err := s.beginJoin(call.Context, c.ID)
	if err != nil {
		return store.Standing{}, call.Outcome(err)
	}
	defer end()
	j := &joining[S]{Claim: &c, position: position[S]{id: c.ID, name: c.Name}, store: s, began: call.Sent}
	for range joinTries {
		standing, err := j.attempt(call.Context)
		if errors.Is(err, ErrOver) {
			s.lose(j.session)
			continue
		}
		if !errors.Is(err, ErrAgain) {
			if err != nil || standing.State == store.Gone {
				err = j.giveUp(&call, call.Outcome(err))
			}
			return standing, err
		}
	}
	return store.Standing{}, j.giveUp(&call, s.Frame.Fault(ctx, ErrAgain))
}

// beginJoin waits until no other Join of the claim is under way: each would make a node.
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

// giveUp is for a claim that was not joined. If something that was sent may still be done, it is made void first; where
// that fails, the error is not final.
func (j *joining[S]) giveUp(call *frame.Call, err error) error {
	switch {
	case !j.unsure:
	case err != nil && !store.Final(err):
		j.store.deleteLater(j.position)
	default:
		if failed := j.store.delete(call.Context, j.position); failed != nil {
			return NotFinal(call.Outcome(failed))
		}
	}
	return err
}

// NotFinal returns the error about a claim that may still stand. Whatever it is, it may go away.
func NotFinal(err error) error {
	if f, ok := errors.AsType[*store.Fault](err); ok && f.Final {
		return &store.Fault{Store: f.Store, Err: f.Err}
	}
	return err
}

// attempt joins once. The error is ErrAgain or ErrOver if that is to be tried again.
func (j *joining[S]) attempt(ctx context.Context) (store.Standing, error) {
	s := j.store
	ses, err := s.Sessions.Current(ctx)
	if err == nil {
		err = s.deleted(ctx, j.ID)
	}
	if err != nil {
		return store.Standing{}, err
	}
	if j.session != ses { // under another session, nothing of what was sent before can land
		j.session, j.unsure = ses, false
	}
	s.mu.Lock()
	known := s.known(j.Claim)
	s.mu.Unlock()
	if known != nil {
		return j.again(ctx, known)
	}
	if j.Try {
		if standing, refused, err := j.refused(ctx); refused || err != nil {
			return standing, err
		}
	}
	c := &claim[S]{position: j.position, joined: j.began, ask: j.Ask}
	r := c.record(j.Claim)
	c.written = r.encode()
	made, unsure, err := s.Server.Make(ctx, ses.Handle, j.Claim, c.written)
	j.unsure = j.unsure || unsure
	if err != nil {
		return store.Standing{}, err
	}
	ses.Extend(made.Alive)
	c.key, c.ticket, c.version, c.state = made.Key, made.Ticket, made.Version, store.Held
	return j.made(ctx, c, made.Line)
}

// made finds out where the claim stands whose node was just made, in a line that was so then, if that is known.
func (j *joining[S]) made(ctx context.Context, c *claim[S], entries []Entry) (standing store.Standing, err error) {
	s := j.store
	ahead := 0
	if c.ticket <= j.Floor || c.ticket > store.MaxTicket { // the server was restored from a backup
		err = fmt.Errorf("%w: it is at %d, and %d was seen", store.ErrFloor, c.ticket, j.Floor)
	} else {
		ahead, err = j.lookAhead(ctx, c, entries)
	}
	if err != nil || j.Try && c.state != store.Held {
		if failed := s.delete(ctx, c.position); failed != nil {
			j.position, j.unsure = c.position, true // it may still stand: that is no final error
			return standing, failed
		}
		return store.Standing{Ahead: ahead}, err
	}
	if err := s.Sessions.Freshen(ctx, j.session); err != nil {
		j.position, j.unsure = c.position, true
		return standing, err
	}
	s.mu.Lock()
	if !s.Sessions.Is(j.session) {
		s.mu.Unlock()
		return standing, ErrAgain // it is gone with its session
	}
	s.admit(c)
	waits := c.state == store.Waiting
	s.mu.Unlock()
	if waits {
		j.await(ctx, c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return standingIn(j.session, c.state, c.ticket, ahead), nil
}

// await watches what c waits for. If that has left meanwhile, or can't be watched, c is looked at soon.
func (j *joining[S]) await(ctx context.Context, c *claim[S]) {
	s := j.store
	s.mu.Lock()
	w, exclusive := c.waitsFor, c.exclusive()
	s.mu.Unlock()
	there, err := s.watch(ctx, c, w)
	if err == nil && there && exclusive {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubt(c)
}

// lookAhead notes the claim's state by what is ahead of it. It reads the line if that is not known.
func (j *joining[S]) lookAhead(ctx context.Context, c *claim[S], entries []Entry) (ahead int, err error) {
	if entries == nil {
		if entries, err = j.store.Server.Line(ctx, c.session.Handle, c.name); err != nil {
			return 0, err
		}
	}
	if ahead = indexOf(entries, c.key); ahead < 0 {
		return 0, ErrAgain // it was deleted by others
	}
	if err := mismatch(entries[:ahead], j.Ask); err != nil {
		return ahead, err
	}
	c.state, c.waitsFor = j.store.evaluate(c.name, entries[:ahead], j.Ask)
	c.lastOne = ahead == 1 && c.exclusive() && !j.store.Foreign
	return ahead, nil
}

// refused reports whether a Try is of no use, by what the server knows now. A claim that is refused has never been in
// the way of others.
func (j *joining[S]) refused(ctx context.Context) (standing store.Standing, refused bool, err error) {
	s := j.store
	entries, err := s.lineNow(ctx, j.session.Handle, j.Name)
	if err == nil {
		err = mismatch(entries, j.Ask)
	}
	if err != nil || len(entries) == 0 {
		return standing, false, err
	}
	standing.Ahead = len(entries)
	state, _ := s.evaluate(j.Name, entries, j.Ask)
	return standing, state != store.Held, nil
}

// again reports where a claim stands that has joined before.
func (j *joining[S]) again(ctx context.Context, c *claim[S]) (standing store.Standing, err error) {
	s := j.store
	if err := s.confirm(ctx, c.session, []*claim[S]{c}, []store.Claim{*j.Claim}); err != nil {
		return standing, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.Sessions.Is(c.session):
		return standing, ErrAgain
	case s.claims[c.id] != c:
		return standing, nil
	}
	return standingIn(c.session, c.state, c.ticket, -1), c.unknown
}

// indexOf returns the place of a node in a line, or -1.
func indexOf(entries []Entry, key string) int {
	return slices.IndexFunc(entries, func(e Entry) bool { return e.Key == key })
}

// mismatch returns the error of a claim that asks for another kind or limit than the first of these has.
func mismatch(ahead []Entry, ask store.Ask) error {
	if len(ahead) > 0 && line.Mismatch(ahead[0].Ask, ask) {
		return &store.MismatchError{InUse: ahead[0].Ask}
	}
	return nil
}
