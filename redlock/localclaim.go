package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
)

// A localClaim is a claim of this client: the state machine that decides, and the calls that wait for it. The machine
// is driven by calls, answers, pushes and its timer, one step at a time.
type localClaim struct {
	store *Store
	id    store.ID
	key   string
	ttl   time.Duration
	timer *time.Timer

	mu            sync.Mutex
	machine       *vote.Claim
	call          *pendingCall   // in progress; nil: none
	result        vote.Result    // of the call, once the machine has it
	superseded    []*pendingCall // calls without a result because the claim leaves; they end when it has left
	recheckAt     time.Duration  // when the caller was told to retry; 0: it does not wait
	pushAt        time.Duration  // when to notify the caller that it should retry, since a push arrived; 0: never
	record        callRecord     // of the last call
	foreignLogged bool           // another client has the key at a node, and that was logged
}

// A claimKey identifies a localClaim. An ID means nothing under another name.
type claimKey struct {
	id  store.ID
	key string
}

// A pendingCall is a call that waits for the result of the machine.
type pendingCall struct {
	claim  *localClaim
	kind   vote.Op // Take, Keep or Leave
	done   chan struct{}
	sent   time.Time // when its requests were sent, or a moment before
	limit  time.Time // when to stop waiting, if the time of the nodes may end later than the ttl; zero: never
	result vote.Result
	fault  error // with Faulty: the reason
}

func (s *Store) newLocalClaim(c *store.Claim) *localClaim {
	b := &localClaim{store: s, id: c.ID, key: s.key(c.Name), ttl: c.TTL}
	b.machine = vote.NewClaim(&s.rules, b.key, s.value(c), c.TTL, c.Grace)
	b.timer = newTimer(b.wake)
	return b
}

// advance starts a call for a claim: a Keep if it is held, otherwise a try. It first waits for a call that is in
// progress, so that no answer is older than its request. It returns nil if the claim is over.
func (b *localClaim) advance(ctx context.Context, out outbox, floor uint64) (*pendingCall, error) {
	began := time.Now()
	b.mu.Lock()
	for b.call != nil {
		before := b.call
		b.mu.Unlock()
		b.store.flush(out) // other claims need not wait for this one
		select {
		case <-before.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	switch b.machine.State() {
	case vote.Over:
		return nil, nil //nolint:nilnil // see above
	case vote.Held:
		return b.start(vote.Keep, began, out, b.machine.Keep)
	default:
		return b.start(vote.Take, began, out, func(now time.Duration) vote.Step {
			return b.machine.Try(now, floor, b.store.guess.Next(now))
		})
	}
}

// leave starts to leave. A call that is in progress has no result.
func (b *localClaim) leave() (*pendingCall, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.call != nil && !b.store.frame.Closed() {
		b.superseded, b.call = append(b.superseded, b.call), nil
	}
	return b.start(vote.Leave, time.Now(), nil, b.machine.Leave)
}

// start starts a call that the program made at began. The caller holds mu, as for all methods below.
func (b *localClaim) start(kind vote.Op, began time.Time, out outbox,
	step func(now time.Duration) vote.Step) (*pendingCall, error) {
	if b.store.frame.Closed() {
		return nil, store.ErrClosed
	}
	p := &pendingCall{claim: b, kind: kind, done: make(chan struct{}), sent: time.Now()}
	if limit := began.Add(b.ttl); limit.Before(p.sent.Add(maxRounds * b.store.rules.Timeout(b.ttl))) {
		p.limit = limit
	}
	b.call, b.result, b.recheckAt = p, vote.Result{}, 0
	b.record.begin(kind)
	b.follow(step(b.store.since(p.sent)), out)
	return p, nil
}

// maxRounds is the number of rounds that a call may take. Each has the timeout of a request: one node may be tried
// before the others, and the ticket may need a round of its own.
const maxRounds = 3

// wait waits for the result of a call, for its ttl at most: after that a result means nothing.
func (p *pendingCall) wait(ctx context.Context) (vote.Result, error) {
	within := ctx
	if !p.limit.IsZero() {
		var cancel context.CancelFunc
		within, cancel = context.WithDeadline(ctx, p.limit)
		defer cancel()
	}
	select {
	case <-p.done:
	case <-within.Done():
		p.claim.mu.Lock()
		defer p.claim.mu.Unlock()
		select {
		case <-p.done: // just now
		default:
			if ctx.Err() == nil {
				return vote.Result{}, p.claim.fault()
			}
			return vote.Result{}, ctx.Err()
		}
	}
	return p.result, p.fault
}

// end ends the call in progress, and those that it has superseded.
func (b *localClaim) end(r vote.Result, fault error) {
	for _, p := range append(b.superseded, b.call) {
		if p != nil {
			p.result, p.fault = r, fault
			close(p.done)
		}
	}
	b.superseded, b.call = nil, nil
}

// follow carries out a step of the machine.
func (b *localClaim) follow(step vote.Step, out outbox) {
	s := b.store
	b.record.sending(step.Send)
	s.post(b, step.Send, out)
	when := step.Wake
	if step.Result.Verdict != 0 {
		b.result = step.Result
	}
	if b.call != nil && b.result.Verdict != 0 {
		deadline := s.since(b.call.sent) + s.rules.Timeout(b.ttl)
		if b.result.Verdict == vote.Faulty && b.record.sentAny() && b.record.responded != s.all() &&
			s.now() < deadline {
			when = vote.Earlier(when, deadline) // it is decided; the reasons of the other nodes belong into the error
		} else {
			b.conclude(step.Again)
		}
	}
	if step.Settled && b.record.kind == vote.Keep {
		b.logCounted()
	}
	b.pushAt = 0
	if step.Again != 0 && step.Again < b.recheckAt {
		b.pushAt = step.Again
		when = vote.Earlier(when, b.pushAt)
	}
	if b.machine.Finished() {
		when = 0
		s.drop(b)
	}
	s.setTimer(b.timer, when)
}

// conclude ends the call with the result of the machine. A claim that waits learns when to retry.
func (b *localClaim) conclude(again time.Duration) {
	r := b.result
	var fault error
	if r.Verdict == vote.Faulty {
		fault = b.fault()
	}
	if b.machine.State() == vote.Waiting {
		r.Again, b.recheckAt = again, again
	}
	b.end(r, fault)
}

// answer implements requester.
func (b *localClaim) answer(r *nodeRequest, a vote.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recordAnswer(r, &a)
	b.follow(b.machine.Answer(b.store.now(), r.Node, r.Seq, a), nil)
}

// Subscribed implements rediskey.Waiter.
func (b *localClaim) Subscribed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.follow(b.machine.Listen(b.store.now()), nil)
}

// Released implements rediskey.Waiter.
func (b *localClaim) Released(node int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.follow(b.machine.Push(b.store.now(), node), nil)
}

// wake is called by the timer.
func (b *localClaim) wake() {
	b.mu.Lock()
	now := b.store.now()
	tell := b.pushAt != 0 && now >= b.pushAt
	if tell {
		b.recheckAt = 0 // once is enough
	}
	b.follow(b.machine.Wake(now), nil)
	b.mu.Unlock()
	if tell {
		b.store.frame.Push(b.id, store.Status{State: store.Waiting, Ahead: -1})
	}
}
