package frame

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A SessionServer begins, renews and ends sessions at a server: a lease in etcd, a session in ZooKeeper or in Consul. H
// identifies a session.
//
// The server counts a session's ttl from when a request reached it. So the store counts from when that request was sent
// (rule 5 of package store). Only the SessionServer knows when that was, since it may have sent several.
type SessionServer[H comparable] interface {
	// Open begins a session, or adopts the one that a client library has begun. sent is when the request was sent.
	Open(ctx context.Context) (handle H, ttl time.Duration, sent time.Time, err error)

	// Renew extends a session; sent is when the request was sent. stands is false if the server no longer has the
	// session. After an error neither is known.
	Renew(ctx context.Context, handle H) (stands bool, sent time.Time, err error)

	// End ends a session if the server can be reached, so that it does not have to expire.
	End(ctx context.Context, handle H)
}

// Sessions keeps the one session that all claims of a client share. It is renewed three times per ttl, and whenever a
// caller requests that; concurrent requests share one renewal. When the server no longer has the session, all of its
// claims are gone at once, and the next call of Current begins another.
type Sessions[H comparable] struct {
	SessionConfig[H]
	frame *Frame

	beats    *Rounds
	openings *Rounds
	began    chan struct{} // holds a token when a session has begun
	current  *Session[H]   // nil: none yet, or lost; guarded by Mutex
}

// A SessionConfig has what Sessions needs from a store.
type SessionConfig[H comparable] struct {
	Server SessionServer[H]

	// Mutex is the store's own, so that the store can read claims and their session in one step.
	Mutex *Mutex

	// Lost forgets the claims of a session that was lost. It is called with Mutex locked.
	Lost func(lost *Session[H])

	// Renewed is called with the result of each renewal that no caller requested.
	Renewed func(error)
}

// A Session is one session.
type Session[H comparable] struct {
	Handle H
	TTL    time.Duration // as the server granted it

	drift Drift
	until atomic.Pointer[time.Time]
}

// EndTimeout bounds the request that ends the session when the store is closed.
const EndTimeout = time.Second

// NewSessions returns Sessions for a store. There is no session yet.
func NewSessions[H comparable](f *Frame, config SessionConfig[H]) *Sessions[H] {
	s := &Sessions[H]{SessionConfig: config, frame: f, began: make(chan struct{}, 1)}
	s.beats = NewRounds(f, s.renew)
	s.openings = NewRounds(f, s.open)
	return s
}

// Until returns the instant up to which the session, and so each of its claims, is valid.
func (ses *Session[H]) Until() time.Time { return *ses.until.Load() }

// Status returns the status of a claim under the session.
func (ses *Session[H]) Status(state store.State, ticket uint64, ahead int) store.Status {
	return store.Status{State: state, Ticket: ticket, Until: ses.Until(), Ahead: ahead}
}

// Extend notes that the server has extended the session on a request that was sent at sent. It never moves Until back.
func (ses *Session[H]) Extend(sent time.Time) {
	until := ses.drift.Until(store.Held, sent, ses.TTL)
	for old := ses.until.Load(); old == nil || until.After(*old); old = ses.until.Load() {
		if ses.until.CompareAndSwap(old, &until) {
			return
		}
	}
}

// renewalDue returns when the session is to be renewed: a third of the ttl after the last renewal was sent.
func (ses *Session[H]) renewalDue() time.Time {
	return ses.Until().Add(ses.drift.Of(ses.TTL) - ses.TTL*2/3)
}

// Current returns the session, and begins one if there is none. The error is ErrClosed, that of ctx, or a *store.Fault.
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

// get returns the current session, or nil if there is none.
func (s *Sessions[H]) get() *Session[H] {
	s.Mutex.Lock()
	defer s.Mutex.Unlock()
	return s.current
}

// IsAt reports whether the current session has this handle. Mutex must be locked.
func (s *Sessions[H]) IsAt(handle H) bool { return s.current != nil && s.current.Handle == handle }

// Is reports whether ses is the current session. Mutex must be locked.
func (s *Sessions[H]) Is(ses *Session[H]) bool { return ses != nil && s.current == ses }

// Renew requests a renewal that is sent after the call, and returns it as a Round to wait for.
func (s *Sessions[H]) Renew() *Round { return s.beats.Request() }

// Freshen renews a session that has less than half of its ttl left, so that a claim that is granted under it is useful.
// It returns the error of the renewal.
func (s *Sessions[H]) Freshen(ctx context.Context, ses *Session[H]) error {
	if time.Until(ses.Until()) > ses.TTL/2 {
		return nil
	}
	return s.Renew().Await(ctx)
}

// Lose drops the session, because the server no longer has it, and calls Lost. It does nothing if ses is not the
// current session. Mutex must be locked.
func (s *Sessions[H]) Lose(ses *Session[H]) {
	if s.Is(ses) {
		s.current = nil
		s.Lost(ses)
	}
}

// Over is Lose for callers that have not locked Mutex.
func (s *Sessions[H]) Over(ses *Session[H]) {
	s.Mutex.Lock()
	defer s.Mutex.Unlock()
	s.Lose(ses)
}

// OverAt is Over for the session with this handle, if it is the current one.
func (s *Sessions[H]) OverAt(handle H) {
	s.Mutex.Lock()
	defer s.Mutex.Unlock()
	if s.IsAt(handle) {
		s.Lose(s.current)
	}
}

// EndLost ends a session that was lost, since the server may still have it. It does so in the background, when no
// holder can believe in the session any more, or when ended is closed because the server has ended it. ended may be
// nil.
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

// A Keeping is what [Sessions.Keep] needs from a store.
type Keeping struct {
	// Renew means that Confirm does not extend the session, so that it is renewed at the same time.
	Renew bool

	// Confirm verifies the claims at the server, so that Report knows them as they were after the call began. It may
	// set the Err of a claim whose status cannot be determined.
	Confirm func(ctx context.Context, cs []store.Claim, statuses []store.Status) error

	// Report sets the status of a claim, or its Err. It is called with Mutex locked, after the session was extended. A
	// status that it leaves as it is means that the claim is gone.
	Report func(c *store.Claim, status *store.Status)
}

// Keep is the Keep of store.Store for a store with sessions.
func (s *Sessions[H]) Keep(ctx context.Context, cs []store.Claim, k Keeping) ([]store.Status, error) {
	limit, err := s.frame.CheckAll(ctx, cs)
	if err != nil || len(cs) == 0 {
		return nil, err
	}
	call := s.frame.Call(ctx, limit)
	defer call.End()
	var renewal *Round
	if k.Renew {
		renewal = s.Renew()
	}
	statuses := make([]store.Status, len(cs))
	err = k.Confirm(call.Context, cs, statuses)
	if err == nil && renewal != nil {
		err = renewal.Await(call.Context)
	}
	if err != nil {
		return nil, call.Outcome(err)
	}
	s.Mutex.Lock()
	defer s.Mutex.Unlock()
	for i := range cs {
		k.Report(&cs[i], &statuses[i])
		if err := statuses[i].Err; err != nil {
			statuses[i] = store.Status{Err: s.frame.Fault(ctx, err)}
		}
	}
	return statuses, nil
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

// begin makes a new session the current one. It reports false if the store has been closed meanwhile.
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
		s.Over(ses)
	}
	return nil
}

// Run renews the session when that is due, until Life ends. It pauses for at least a twelfth of the ttl between two
// renewals: a renewal may have failed, or have extended nothing.
func (s *Sessions[H]) Run() {
	life := s.frame.Life()
	for life.Err() == nil {
		var due <-chan time.Time // nil if there is no session: nothing comes then
		if ses := s.get(); ses != nil {
			due = time.After(max(time.Until(ses.renewalDue()), ses.TTL/12))
		}
		select {
		case <-due:
			s.Renewed(s.Renew().Await(life))
		case <-s.began: // a session, or another, which is due at another time
		case <-life.Done():
		}
	}
}

// Close closes the store: it ends the session if the server can be reached, and then all background work. It reports
// false if the store was closed before.
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

// end ends a session at the server, within EndTimeout.
func (s *Sessions[H]) end(handle H) {
	ctx, cancel := context.WithTimeout(context.Background(), EndTimeout)
	defer cancel()
	s.Server.End(ctx, handle)
}
