package frame

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A SessionServer begins, renews and ends what a server calls a session: a lease in etcd, a session in ZooKeeper or in
// Consul. H is what the store knows one by.
//
// The server counts a session's ttl from when a request reached it. So the store counts from when that request was sent
// (rule 5 of package store), which only SessionServer knows if it may have sent several.
type SessionServer[H comparable] interface {
	// Open begins a session, or takes the one that a client library has begun.
	Open(ctx context.Context) (handle H, ttl time.Duration, sent time.Time, err error)

	// Renew extends a session, or reports that the server has it no more. An error says that nothing is known.
	Renew(ctx context.Context, handle H) (stands bool, sent time.Time, err error)

	// End ends a session if the server can be reached, so that it need not expire.
	End(ctx context.Context, handle H)
}

// Sessions is the one session that all claims of a client share, and its successors. A session is renewed three times
// per ttl, and whenever it is asked for, by one renewal for all callers. When the server has it no more, all of its
// claims are gone at once, and the next Current begins another.
type Sessions[H comparable] struct {
	SessionConfig[H]
	frame *Frame

	beats    *Rounds
	openings *Rounds
	began    chan struct{} // holds a token when a session has begun
	current  *Session[H]   // nil: none yet, or lost; guarded by Mutex
}

// A SessionConfig is what Sessions has to know of a store.
type SessionConfig[H comparable] struct {
	Server SessionServer[H]

	// Mutex is the store's own, so that the store can look at claims and their session in one step.
	Mutex *Mutex

	// Lost forgets the claims of a session. It is called with Mutex locked.
	Lost func(lost *Session[H])

	// Renewed is called after each renewal that was due by itself, with its error.
	Renewed func(error)
}

// A Session is one session.
type Session[H comparable] struct {
	Handle H
	TTL    time.Duration // as the server granted it

	drift Drift
	until atomic.Pointer[time.Time]
}

// EndTimeout bounds ending a session when the store is closed.
const EndTimeout = time.Second

// NewSessions returns the sessions of a store, of which there is none yet.
func NewSessions[H comparable](f *Frame, config SessionConfig[H]) *Sessions[H] {
	s := &Sessions[H]{SessionConfig: config, frame: f, began: make(chan struct{}, 1)}
	s.beats = NewRounds(f, s.renew)
	s.openings = NewRounds(f, s.open)
	return s
}

// Until is the instant up to which the session, and so all of its claims, is valid.
func (ses *Session[H]) Until() time.Time { return *ses.until.Load() }

// Status returns the status of a claim under the session.
func (ses *Session[H]) Status(state store.State, ticket uint64, ahead int) store.Status {
	return store.Status{State: state, Ticket: ticket, Until: ses.Until(), Ahead: ahead}
}

// Extend notes that the server has extended the session when it got what was sent then.
func (ses *Session[H]) Extend(sent time.Time) {
	until := ses.drift.Until(store.Held, sent, ses.TTL)
	for old := ses.until.Load(); old == nil || until.After(*old); old = ses.until.Load() {
		if ses.until.CompareAndSwap(old, &until) {
			return
		}
	}
}

// renewalDue is when the session is to be renewed: a third of the ttl after the last renewal was sent.
func (ses *Session[H]) renewalDue() time.Time {
	return ses.Until().Add(ses.drift.Of(ses.TTL) - ses.TTL*2/3)
}

// Current returns the session, and begins one if there is none.
func (s *Sessions[H]) Current(ctx context.Context) (*Session[H], error) {
	for {
		if ses := s.get(); ses != nil {
			return ses, nil
		}
		if err := s.openings.Request().Await(ctx); err != nil {
			return nil, err
		}
	}
}

func (s *Sessions[H]) get() *Session[H] {
	s.Mutex.Lock()
	defer s.Mutex.Unlock()
	return s.current
}

// IsAt reports whether the present session has this handle. Mutex must be locked.
func (s *Sessions[H]) IsAt(handle H) bool { return s.current != nil && s.current.Handle == handle }

// Is reports whether ses is the present session. Mutex must be locked.
func (s *Sessions[H]) Is(ses *Session[H]) bool { return ses != nil && s.current == ses }

// Renew has the session renewed by a renewal that is sent after the call.
func (s *Sessions[H]) Renew() *Round { return s.beats.Request() }

// Freshen renews a session that has less than half of its ttl left, so that what is granted under it is of some use.
func (s *Sessions[H]) Freshen(ctx context.Context, ses *Session[H]) error {
	if time.Until(ses.Until()) > ses.TTL/2 {
		return nil
	}
	return s.Renew().Await(ctx)
}

// Lose ends a session that the server has no more. Mutex must be locked.
func (s *Sessions[H]) Lose(ses *Session[H]) {
	if s.Is(ses) {
		s.current = nil
		s.Lost(ses)
	}
}

// Over is Lose when Mutex is not locked.
func (s *Sessions[H]) Over(ses *Session[H]) {
	s.Mutex.Lock()
	defer s.Mutex.Unlock()
	s.Lose(ses)
}

// OverAt is Over for the session with this handle, if it is the present one.
func (s *Sessions[H]) OverAt(handle H) {
	s.Mutex.Lock()
	defer s.Mutex.Unlock()
	if s.IsAt(handle) {
		s.Lose(s.current)
	}
}

// EndLost ends a session that was lost, once its holders can't believe in it any more, or the server has ended it,
// which closes ended: the server may still have the session. A nil channel is never closed.
func (s *Sessions[H]) EndLost(lost *Session[H], ended <-chan struct{}) {
	s.frame.Go(func() {
		select {
		case <-ended:
		case <-time.After(time.Until(lost.Until())):
		case <-s.frame.Life().Done():
		}
		s.Server.End(s.frame.Life(), lost.Handle)
	})
}

// open begins a session if there is none. It runs in one goroutine at a time.
func (s *Sessions[H]) open() error {
	switch {
	case s.get() != nil:
		return nil
	case s.frame.Closed():
		return store.ErrClosed
	}
	ctx, cancel := context.WithTimeout(s.frame.Life(), AskTimeout)
	defer cancel()
	handle, ttl, sent, err := s.Server.Open(ctx)
	if err != nil {
		return s.frame.Outcome(s.frame.Life(), ctx, AskTimeout, err)
	}
	if !s.begin(handle, ttl, sent) {
		s.end(handle)
		return store.ErrClosed
	}
	return nil
}

// begin makes a session the present one. It reports false if the store has been closed meanwhile.
func (s *Sessions[H]) begin(handle H, ttl time.Duration, sent time.Time) bool {
	s.Mutex.Lock()
	defer s.Mutex.Unlock()
	if s.frame.Closed() {
		return false
	}
	s.current = &Session[H]{Handle: handle, TTL: ttl, drift: s.frame.Drift}
	s.current.Extend(sent)
	select {
	case s.began <- struct{}{}:
	default:
	}
	return true
}

// renew renews the session if there is one. It runs in one goroutine at a time.
func (s *Sessions[H]) renew() error {
	ses := s.get()
	if ses == nil {
		return nil
	}
	limit := ses.TTL / 2
	ctx, cancel := context.WithTimeout(s.frame.Life(), limit)
	defer cancel()
	stands, sent, err := s.Server.Renew(ctx, ses.Handle)
	switch {
	case err != nil:
		return s.frame.Outcome(s.frame.Life(), ctx, limit, err)
	case stands:
		ses.Extend(sent)
	default:
		s.Mutex.Lock()
		defer s.Mutex.Unlock()
		s.Lose(ses)
	}
	return nil
}

// Run renews the session when that is due, until Life ends, and at most twelve times per ttl: a renewal may have
// failed, or have extended nothing.
func (s *Sessions[H]) Run() {
	life := s.frame.Life()
	for life.Err() == nil {
		ses := s.get()
		if ses == nil {
			select {
			case <-s.began:
			case <-life.Done():
			}
			continue
		}
		select {
		case <-time.After(max(time.Until(ses.renewalDue()), ses.TTL/12)):
		case <-s.began: // another session, which is due at another time
			continue
		case <-life.Done():
			return
		}
		s.Renewed(s.Renew().Await(life))
	}
}

// Close closes the store: it ends the session if the server can be reached, and then everything that runs in the
// background. It reports false if that has happened before.
func (s *Sessions[H]) Close() bool {
	if !s.frame.Shut() {
		return false
	}
	s.End()
	s.frame.End()
	s.frame.Wait()
	return true
}

// End ends the session of a store that is being closed.
func (s *Sessions[H]) End() {
	s.Mutex.Lock()
	ses := s.current
	s.current = nil
	s.Mutex.Unlock()
	if ses != nil {
		s.end(ses.Handle)
	}
}

func (s *Sessions[H]) end(handle H) {
	ctx, cancel := context.WithTimeout(context.Background(), EndTimeout)
	defer cancel()
	s.Server.End(ctx, handle)
}
