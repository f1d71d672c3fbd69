package redlock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediskey"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A Store is one client of a deployment. It implements store.Store, except for what needs a queue. The package
// documentation describes its guarantees.
//
// It only sends and receives: package vote decides. Each claim has a state machine there, and a localClaim here that
// drives it.
type Store struct {
	settings
	frame    *frame.Frame
	identity string
	rules    vote.Rules
	nodes    []*node

	began     time.Time // from which machines count the time
	joins     throttle
	admission *admission
	guess     vote.Guess // the ticket of the next lock
	owners    rediskey.Owners

	subscriptions *rediskey.Subscriptions // to the releases that claims wait for

	mu     sync.Mutex
	claims map[claimKey]*localClaim
	conns  []*connection // the last connection to each node that was made
	seen   uint64        // the highest ticket that was granted to this client

	gate     sync.RWMutex // guards shut, and that no request is sent after it
	shut     bool
	inFlight atomic.Int64  // requests in progress
	idle     chan struct{} // holds a token when there are none, after Close has begun

	batches chan []nodeRequest // for idle senders
	resting atomic.Int64       // how many senders are idle
}

var _ store.Store = (*Store)(nil)

// Join implements store.Store: it tries once. A claim that does not acquire the lock waits in this client, and its Keep
// tries again.
func (s *Store) Join(ctx context.Context, c store.Claim) (store.Status, error) {
	if err := s.check(ctx, c.Name); err != nil {
		return store.Status{}, err
	}
	if err := s.checkClaim(&c); err != nil {
		return store.Status{}, err
	}
	b := s.localClaim(&c)
	if c.Try { // it must not wait, and is not retried
		return s.take(ctx, b, &c)
	}
	if err := s.joins.enter(ctx, c.TTL); errors.Is(err, errCrowded) {
		return store.Status{}, &store.Fault{Store: s.frame.Name, Busy: true, Err: err}
	} else if err != nil {
		return store.Status{}, err
	}
	standing, err := s.take(ctx, b, &c)
	s.joins.leave(store.Busy(err))
	return standing, err
}

// take starts a try of a claim, or a Keep if it has joined already.
func (s *Store) take(ctx context.Context, b *localClaim, c *store.Claim) (store.Status, error) {
	for began := time.Now(); ; {
		news := s.admission.nextVote()
		p, err := b.advance(ctx, nil, s.floor(c))
		if p == nil && err == nil { // it has left
			_, err = s.findKey(ctx, c, began)
		}
		if p == nil || err != nil {
			return store.Status{}, err
		}
		r, err := p.wait(ctx)
		if awaitsAdmission(err) && s.awaitVote(ctx, news) {
			continue
		}
		if err != nil && err == ctx.Err() { //nolint:errorlint // it is the context's own
			b.leave() //nolint:errcheck // a caller with an error holds nothing, whatever the result
		}
		return s.status(b, c, p, r, err)
	}
}

// checkClaim returns an error for a claim that this store does not support.
func (s *Store) checkClaim(c *store.Claim) error {
	switch {
	case !c.Exclusive():
		return fmt.Errorf("%w: redlock has no shared locks; %s", store.ErrUnsupported, alternative)
	case c.TTL+c.Grace > s.maxTTL:
		return fmt.Errorf("%w: ttl and grace are %v, and max-ttl of the deployment is %v", store.ErrUnsupported,
			c.TTL+c.Grace, s.maxTTL)
	case c.Floor >= vote.MaxTicket:
		return store.ErrFloor
	}
	return s.checkFloor(c.Floor)
}

// checkFloor returns ErrFloor for a floor that is too far ahead of the clocks of a majority, as far as they are known,
// before anything is written. The nodes would refuse it too, but only when the lock is acquired.
func (s *Store) checkFloor(floor uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, refused := 0, 0
	for _, w := range s.conns {
		if w == nil {
			continue
		}
		if known++; store.FloorTooHigh(floor, w.Info.Now()) {
			refused++
		}
	}
	if known > 0 && refused > known/2 {
		return store.ErrFloor
	}
	return nil
}

// floor returns the number above which the ticket of a claim must be.
func (s *Store) floor(c *store.Claim) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(c.Floor, s.seen)
}

// status returns the status of a claim after a call.
func (s *Store) status(b *localClaim, c *store.Claim, p *pendingCall, r vote.Result, err error) (store.Status, error) {
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded), errors.Is(err, store.ErrClosed):
		return store.Status{}, err
	case err != nil:
		if p.kind == vote.Take && store.Final(err) {
			b.leave() //nolint:errcheck // it holds nothing
		}
		return store.Status{}, err
	}
	switch r.Verdict {
	case vote.Won:
		s.noteHeld(b, r.Ticket)
		return store.Status{State: store.Held, Ticket: r.Ticket, Until: s.local(p.sent, r.Until)}, nil
	case vote.Lost:
		return s.lostStatus(b, c, p, r), nil
	default: // it is over
		s.subscriptions.Remove(b.key, b)
		return store.Status{}, nil
	}
}

// lostStatus returns the status of a claim that did not acquire the lock.
func (s *Store) lostStatus(b *localClaim, c *store.Claim, p *pendingCall, r vote.Result) store.Status {
	if !c.Try {
		s.awaitRelease(b, r.Awaits)
		return store.Status{
			State: store.Waiting, Ahead: -1, RecheckAt: s.local(p.sent, r.Again),
			Until: s.frame.Drift.Until(store.Waiting, p.sent, c.TTL),
		}
	}
	b.leave() //nolint:errcheck // it already releases what it took
	gone := store.Status{Ahead: -1}
	if r.Holder.Code == vote.Denied {
		gone.Ahead, gone.Holder = 1, holder(c.Name, &r.Holder)
	}
	return gone
}

// local converts a time of a machine to an instant, by the wall clock of when the request was sent.
func (s *Store) local(sent time.Time, t time.Duration) time.Time {
	return sent.Add(t - s.since(sent))
}

// Keep implements store.Store. It renews claims that are held at all nodes, many locks with one request, and tries
// again for claims that wait.
func (s *Store) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	if _, err := s.frame.CheckAll(ctx, cs); err != nil || len(cs) == 0 {
		return nil, err
	}
	for i := range cs {
		if err := rediskey.Check("redlock", s.key(cs[i].Name)); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	out := make(outbox, len(s.nodes))
	calls := make([]*pendingCall, len(cs))
	errs := make([]error, len(cs))
	bids := make([]*localClaim, len(cs))
	for _, waits := range []bool{false, true} { // what is held is not to be late because others try
		var wave wave
		for i := range cs {
			if waits != (cs[i].Ticket == 0) {
				continue
			}
			if bids[i] = s.find(&cs[i]); bids[i] != nil {
				if errs[i] = ctx.Err(); errs[i] == nil {
					calls[i], errs[i] = bids[i].advance(ctx, out, s.floor(&cs[i]))
				}
			}
			if wave.add(calls[i]) {
				s.flush(out)
				wave.wait(ctx)
			}
		}
		s.flush(out)
	}
	for i := range cs {
		if calls[i] == nil && errs[i] == nil { // it is not known, or over
			_, errs[i] = s.findKey(ctx, &cs[i], began)
		}
	}
	standings := make([]store.Status, len(cs))
	known := false
	for i, p := range calls {
		if p != nil {
			var r vote.Result
			r, errs[i] = p.wait(ctx)
			standings[i], errs[i] = s.status(bids[i], &cs[i], p, r, errs[i])
		}
		standings[i].Err = errs[i]
		known = known || errs[i] == nil || store.Final(errs[i]) && !errors.Is(errs[i], store.ErrClosed)
	}
	if !known {
		return nil, errs[0]
	}
	return standings, nil
}

// Leave implements store.Store. It returns when a majority has no key of the claim any more. The release is repeated at
// the other nodes until they have acknowledged it, or until the key has expired there. Leave waits for nodes that are
// only slow, for the ttl of the claim.
func (s *Store) Leave(ctx context.Context, c store.Claim) error {
	if err := s.check(ctx, c.Name); err != nil {
		return err
	}
	b := s.find(&c)
	if b == nil {
		return s.leaveUnknown(ctx, &c)
	}
	s.subscriptions.Remove(b.key, b)
	for limit := time.Now().Add(c.TTL); ; {
		p, err := b.leave()
		if err != nil {
			return err
		}
		if _, err = p.wait(ctx); !store.Busy(err) || time.Now().After(limit) {
			return err
		}
	}
}

// Notify implements store.Store.
func (s *Store) Notify(fn func(store.ID, store.Status)) { s.frame.Notify(fn) }

const alternative = "redis://, etcd:// and sqlite: have them"

// Abilities implements store.Store.
func (s *Store) Abilities() store.Abilities {
	a := store.Abilities{
		Store:        s.frame.Name,
		Identity:     s.identity,
		Grace:        true,
		Alternative:  alternative,
		MinTTL:       minTTL,
		MaxTTL:       s.maxTTL,
		TakeoverTTLs: 1,
		TakeoverPlus: 2 * time.Second, // waiters may split the votes a few times
		Tokens:       store.SurvivesRestart | store.SurvivesDataLoss | store.SurvivesClockBack,
	}
	if s.unsaved {
		a.Tokens = 0
	}
	return a
}

// Close implements store.Store. Locks that were not released are held until their ttl has passed. Requests that are in
// progress have a moment to arrive.
func (s *Store) Close() error {
	if !s.frame.Shut() {
		return nil
	}
	if s.inFlight.Load() > 0 {
		select {
		case <-s.idle:
		case <-time.After(s.rules.Timeout(s.maxTTL)):
		}
	}
	s.gate.Lock()
	s.shut = true
	s.gate.Unlock()
	s.frame.End()
	for _, n := range s.nodes {
		n.close()
	}
	s.frame.Wait()
	s.admission.stop()
	s.mu.Lock()
	left := slices.Collect(maps.Values(s.claims))
	clear(s.claims)
	s.mu.Unlock()
	for _, b := range left {
		b.mu.Lock()
		b.timer.Stop()
		b.end(vote.Result{}, store.ErrClosed)
		b.mu.Unlock()
	}
	return nil
}

// check returns an error for a call that must not be sent.
func (s *Store) check(ctx context.Context, name string) error {
	if err := s.frame.Check(ctx, name); err != nil {
		return err
	}
	return rediskey.Check("redlock", s.key(name))
}

// key returns the key of the lock with a name.
func (s *Store) key(name string) string { return s.prefix + name }

// localClaim returns the localClaim of a claim that joins. If it may wait, it is subscribed to releases before it
// tries: one may be published while the answer is on its way.
func (s *Store) localClaim(c *store.Claim) *localClaim {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.lookup(c)
	if b == nil {
		b = s.newLocalClaim(c)
		s.claims[claimKey{b.id, b.key}] = b
	}
	if !c.Try {
		s.subscriptions.Join(b.key, b)
	}
	return b
}

// awaitRelease subscribes a claim to releases at a node, unless the claim was dropped meanwhile.
func (s *Store) awaitRelease(b *localClaim, node int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[claimKey{b.id, b.key}] == b {
		s.subscriptions.Add(b.key, b, node)
	}
}

// find returns the localClaim of a claim, or nil if this client has none.
func (s *Store) find(c *store.Claim) *localClaim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookup(c)
}

// lookup is find for callers that have locked mu. A claim is identified by its ID together with its name.
func (s *Store) lookup(c *store.Claim) *localClaim { return s.claims[claimKey{c.ID, s.key(c.Name)}] }

// noteHeld notes that a claim is held.
func (s *Store) noteHeld(b *localClaim, ticket uint64) {
	s.subscriptions.Remove(b.key, b)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = max(s.seen, ticket)
}

// drop removes a claim from the store.
func (s *Store) drop(b *localClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := (claimKey{b.id, b.key}); s.claims[key] == b {
		delete(s.claims, key)
	}
	s.subscriptions.Remove(b.key, b)
}
