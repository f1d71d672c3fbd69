package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A contender is a claim and the client that made it.
type contender struct {
	*client
	claim store.Claim

	sent  time.Time    // when the last acknowledged Join or Keep was sent
	last  store.Status // its response
	until time.Time    // the last Until of a status other than Gone

	pushed chan struct{} // holds a token after a push
	pushes int           // how many arrived; guarded by the client's mu

	granted []uint64 // the tickets of the grants that were pushed; guarded by the client's mu
}

// pair makes exclusive claims of two clients on one name: the first holds and the second waits.
func (t *trial) pair() (holder, waiter *contender) {
	holder, waiter = t.rivals()
	queued(holder, waiter)
	return holder, waiter
}

// pairAndOther is a pair and a third client's claim that has not joined yet. The client connects first, since that may
// take longer than the pair lives.
func (t *trial) pairAndOther() (holder, waiter, other *contender) {
	holder, waiter = t.rivals()
	other = holder.rival()
	queued(holder, waiter)
	return holder, waiter, other
}

// lastingPair is a pair with longer ttls, for cases that do several things before they keep it.
func (t *trial) lastingPair() (holder, waiter *contender) {
	holder, waiter = t.rivals()
	queued(holder.lasts(), waiter.lasts())
	return holder, waiter
}

// trio is a pair and a third client's claim that waits behind it. The ttls of the first and the last suffice for three
// Joins.
func (t *trial) trio() (holder, waiter, next *contender) {
	holder, waiter = t.rivals()
	next = waiter.rival()
	queued(holder.lasts(), waiter, next.lasts())
	return holder, waiter, next
}

// queued joins claims one after the other. The first must be held, and all others must wait.
func queued(holder *contender, waiters ...*contender) {
	holder.join(store.Held)
	for _, p := range waiters {
		p.join(store.Waiting)
	}
}

// rivals makes exclusive claims of two clients on one name, which have not joined yet.
func (t *trial) rivals() (a, b *contender) {
	a = t.open().mutex(t.name("rivals"))
	b = a.rival()
	return a, b
}

// rival makes the same claim of another client.
func (p *contender) rival() *contender { return p.t.open().mutex(p.claim.Name) }

// lasts gives the claim a ttl that does not expire while a case does several things, if claims have ttls of their own.
func (p *contender) lasts() *contender {
	if p.t.able.SessionTTL == 0 {
		p.claim.TTL = min(4*p.t.ttl, p.t.able.MaxTTL)
	}
	return p
}

// attempt calls Join once.
func (p *contender) attempt() (store.Status, error) {
	return p.request(p.t.patience(), func(ctx context.Context) (store.Status, error) { return p.Join(ctx, p.claim) })
}

// request sends a request once, with a time limit, and records the response as that of p.
func (p *contender) request(d time.Duration, send func(context.Context) (store.Status, error)) (store.Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	sent := time.Now()
	status, err := send(ctx)
	if err == nil {
		p.note(sent, status)
	}
	return status, err
}

// joinAny joins, and accepts any state.
func (p *contender) joinAny() store.Status {
	status, err := p.attempt()
	p.t.noError(err, "Join of %q", p.claim.Name)
	return status
}

// join joins and requires a state.
func (p *contender) join(want store.State) store.Status {
	status := p.joinAny()
	p.demand("Join", want)
	return status
}

// try joins with Try and requires a state.
func (p *contender) try(want store.State) store.Status {
	p.claim.Try = true
	return p.join(want)
}

// keepOnce calls Keep once, for this claim alone.
func (p *contender) keepOnce() (store.Status, error) { return p.keepWithin(p.t.patience()) }

// keepWithin is keepOnce with a time limit, for a link that may be broken.
func (p *contender) keepWithin(d time.Duration) (store.Status, error) {
	return p.request(d, func(ctx context.Context) (store.Status, error) {
		statuses, err := p.Keep(ctx, []store.Claim{p.claim})
		if err != nil {
			return store.Status{}, err
		}
		if len(statuses) != 1 {
			p.t.fatalf("Keep of one claim returned %d statuses", len(statuses))
		}
		return statuses[0], statuses[0].Err
	})
}

// keep keeps the claim and requires a state.
func (p *contender) keep(want store.State) store.Status {
	status, err := p.keepOnce()
	p.t.noError(err, "Keep of %q", p.claim.Name)
	p.demand("Keep", want)
	return status
}

// keepFor keeps the claims for d, as their clients would, and requires that their states do not change.
func keepFor(d time.Duration, claims ...*contender) {
	t := claims[0].t
	for end := time.Now().Add(d); ; {
		for _, p := range claims {
			p.keep(p.last.State)
		}
		left := time.Until(end)
		if left <= 0 {
			return
		}
		t.advance(min(left, t.ttl/3))
	}
}

// await keeps the claim until it is held, as a client would: after each push, at RecheckAt, and three times per ttl.
func (p *contender) await() {
	for deadline := time.Now().Add(p.t.patience()); p.last.State == store.Waiting; {
		now := time.Now()
		if now.After(deadline) {
			p.t.fatalf("%q is still waiting after %v", p.claim.Name, p.t.patience())
		}
		next := now.Add(p.claim.TTL / 3)
		if again := p.last.RecheckAt; !again.IsZero() && again.Before(next) {
			next = again
		}
		select {
		case <-p.pushed:
		case <-time.After(max(time.Until(next), time.Millisecond)): // never spins, whatever the store returns
		}
		_, err := p.keepOnce()
		p.t.noError(err, "Keep of %q while it waits", p.claim.Name)
	}
	p.demand("Keep", store.Held)
}

// succeed keeps a waiting claim that is no longer blocked, and requires that it is held. A store without a queue may
// need one more Keep: an earlier Keep may have arrived after the release, and may block the claim for a moment.
func (p *contender) succeed() {
	if p.t.able.Queue {
		p.keep(store.Held)
		return
	}
	_, err := p.keepOnce()
	p.t.noError(err, "Keep of %q while it waits", p.claim.Name)
	p.await()
}

// enter joins and waits until it is held.
func (p *contender) enter() {
	p.joinAny()
	p.await()
}

// do calls one of the store's operations on the claim.
func (p *contender) do(call call) error {
	ctx, cancel := p.t.context()
	defer cancel()
	return call.do(ctx, p.Store, p.claim)
}

// isRefused requires that every operation that takes a name returns this final error. where is part of the message.
func (p *contender) isRefused(want error, where string) {
	for _, call := range p.t.calls() {
		if !call.named {
			continue
		}
		if err := p.do(call); !errors.Is(err, want) || !store.Final(err) {
			p.t.errorf("%s %s: %v, want %v", call.name, where, err, want)
		}
	}
}

// leave leaves the queue.
func (p *contender) leave() {
	ctx, cancel := p.t.context()
	defer cancel()
	p.t.noError(p.Leave(ctx, p.claim), "Leave of %q", p.claim.Name)
}

// note records a response.
func (p *contender) note(sent time.Time, status store.Status) {
	p.sent, p.last = sent, status
	if status.State != store.Gone {
		p.claim.Ticket, p.until = status.Ticket, status.Until
	}
}

// demand ends the case if the last response differs from want.
func (p *contender) demand(call string, want store.State) {
	if p.last.State != want {
		p.t.fatalf("%s of %q (%d of %d): %v, want %v%v",
			call, p.claim.Name, p.claim.Units, p.claim.Limit, p.last.State, want, p.lapsed())
	}
}

// lapsed reports whether the claim is gone and had expired before the response arrived: the machine or the server was
// too slow to keep it.
func (p *contender) lapsed() lapse {
	return lapse(p.last.State == store.Gone && !p.until.IsZero() && time.Now().After(p.until))
}

// A lapse among the arguments of a failure marks the failure as no evidence against the store.
type lapse bool

func (l lapse) String() string {
	if l {
		return ", but it had expired"
	}
	return ""
}

// wake records a push. The caller has the client's mu.
func (p *contender) wake() {
	p.pushes++
	select {
	case p.pushed <- struct{}{}:
	default:
	}
}

// pushCount returns how many pushes arrived for the claim.
func (p *contender) pushCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pushes
}
