package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
)

// A bid is a claim as this client knows it: the machine that decides, and the calls that wait for it. The machine is
// driven by calls, answers, pushes and its timer, one step at a time.
type bid struct {
	store *Store
	id    store.ID
	key   string
	ttl   time.Duration
	timer *time.Timer

	mu      sync.Mutex
	claim   *vote.Claim
	call    *pending      // under way; nil: none
	result  vote.Result   // of the call, once the machine has it
	outdone []*pending    // calls that came to nothing because the claim leaves; they end when it has
	told    time.Duration // when the program was told to ask again; 0: it does not wait
	ask     time.Duration // when it is to be told that it should ask now, since a push came; 0: not
	tally   tally         // of the last call
	strange bool          // somebody else has the key at a node, and that was logged
}

// A bidKey is how a bid is found. An ID means nothing under another name.
type bidKey struct {
	id  store.ID
	key string
}

// A pending is a call of the program that waits for the machine's result.
type pending struct {
	bid    *bid
	kind   vote.Op // Take, Keep or Leave
	done   chan struct{}
	sent   time.Time // when its requests were sent, or a moment before
	limit  time.Time // when it is given up, where the nodes' own time may end later than the ttl; zero: never
	result vote.Result
	fault  error // with Faulty: why
}

func (s *Store) newBid(c *store.Claim) *bid {
	b := &bid{store: s, id: c.ID, key: s.key(c.Name), ttl: c.TTL}
	b.claim = vote.NewClaim(&s.rules, b.key, s.value(c), c.TTL, c.Grace)
	b.timer = newTimer(b.wake)
	return b
}

// advance begins a call of a claim that stands: one that holds is kept, another tries. It waits for a call that is
// under way, so that no answer is older than its question. It returns nil if the claim is over.
func (b *bid) advance(ctx context.Context, out outbox, floor uint64) (*pending, error) {
	began := time.Now()
	b.mu.Lock()
	for b.call != nil {
		before := b.call
		b.mu.Unlock()
		b.store.flush(out) // nobody else need wait
		select {
		case <-before.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	switch b.claim.State() {
	case vote.Over:
		return nil, nil //nolint:nilnil // see above
	case vote.Held:
		return b.start(vote.Keep, began, out, b.claim.Keep)
	default:
		return b.start(vote.Take, began, out, func(now time.Duration) vote.Step {
			return b.claim.Try(now, floor, b.store.guess.Next(now))
		})
	}
}

// leave begins to leave. A call that is under way comes to nothing.
func (b *bid) leave() (*pending, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.call != nil && !b.store.frame.Closed() {
		b.outdone, b.call = append(b.outdone, b.call), nil
	}
	return b.start(vote.Leave, time.Now(), nil, b.claim.Leave)
}

// start begins a call that the program made at a time. The caller has mu, as for all that follow.
func (b *bid) start(kind vote.Op, began time.Time, out outbox, step func(now time.Duration) vote.Step) (*pending, error) {
	if b.store.frame.Closed() {
		return nil, store.ErrClosed
	}
	p := &pending{bid: b, kind: kind, done: make(chan struct{}), sent: time.Now()}
	if limit := began.Add(b.ttl); limit.Before(p.sent.Add(mostRounds * b.store.rules.Timeout(b.ttl))) {
		p.limit = limit
	}
	b.call, b.result, b.told = p, vote.Result{}, 0
	b.tally.begin(kind)
	b.follow(step(b.store.since(p.sent)), out)
	return p, nil
}

// mostRounds is how many rounds a call may have, of which each has the time of a request: one node may be asked before
// the others, and the ticket may need a round of its own.
const mostRounds = 3

// wait waits for the result of a call. After a ttl there is none that says anything.
func (p *pending) wait(ctx context.Context) (vote.Result, error) {
	within := ctx
	if !p.limit.IsZero() {
		var cancel context.CancelFunc
		within, cancel = context.WithDeadline(ctx, p.limit)
		defer cancel()
	}
	select {
	case <-p.done:
	case <-within.Done():
		p.bid.mu.Lock()
		defer p.bid.mu.Unlock()
		select {
		case <-p.done: // just now
		default:
			if ctx.Err() == nil {
				return vote.Result{}, p.bid.fault()
			}
			return vote.Result{}, ctx.Err()
		}
	}
	return p.result, p.fault
}

// end ends the call under way, and those that it has outdone.
func (b *bid) end(r vote.Result, fault error) {
	for _, p := range append(b.outdone, b.call) {
		if p != nil {
			p.result, p.fault = r, fault
			close(p.done)
		}
	}
	b.outdone, b.call = nil, nil
}

// follow does what the machine wants.
func (b *bid) follow(step vote.Step, out outbox) {
	s := b.store
	b.tally.sending(step.Send)
	s.post(b, step.Send, out)
	when := step.Wake
	if step.Result.Verdict != 0 {
		b.result = step.Result
	}
	if b.call != nil && b.result.Verdict != 0 {
		deadline := s.since(b.call.sent) + s.rules.Timeout(b.ttl)
		if b.result.Verdict == vote.Faulty && b.tally.asks() && b.tally.heard != s.all() && s.now() < deadline {
			when = vote.Earlier(when, deadline) // it is over, and what the others say belongs into the error
		} else {
			b.conclude(step.Again)
		}
	}
	if step.Settled && b.tally.kind == vote.Keep {
		b.settled()
	}
	b.ask = 0
	if step.Again != 0 && step.Again < b.told {
		b.ask = step.Again
		when = vote.Earlier(when, b.ask)
	}
	if b.claim.Finished() {
		when = 0
		s.drop(b)
	}
	s.setTimer(b.timer, when)
}

// conclude ends the call with the machine's result. A claim that waits is told when to try again.
func (b *bid) conclude(again time.Duration) {
	r := b.result
	var fault error
	if r.Verdict == vote.Faulty {
		fault = b.fault()
	}
	if b.claim.State() == vote.Waiting {
		r.Again, b.told = again, again
	}
	b.end(r, fault)
}

// answer implements machine.
func (b *bid) answer(r *nodeRequest, a vote.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(r, &a)
	b.follow(b.claim.Answer(b.store.now(), r.Node, r.Seq, a), nil)
}

// Subscribed implements rediskey.Waiter.
func (b *bid) Subscribed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.follow(b.claim.Listen(b.store.now()), nil)
}

// Released implements rediskey.Waiter.
func (b *bid) Released(node int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.follow(b.claim.Push(b.store.now(), node), nil)
}

// wake is called by the timer.
func (b *bid) wake() {
	b.mu.Lock()
	now := b.store.now()
	tell := b.ask != 0 && now >= b.ask
	if tell {
		b.told = 0 // once is enough
	}
	b.follow(b.claim.Wake(now), nil)
	b.mu.Unlock()
	if tell {
		b.store.frame.Push(b.id, store.Status{State: store.Waiting, Ahead: -1})
	}
}
