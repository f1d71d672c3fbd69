package storetest

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A contender is one claim and the client that made it: what a case moves about.
type contender struct {
	*client
	claim store.Claim

	sent  time.Time    // when the last acknowledged Join or Keep was sent
	last  store.Status // its answer
	until time.Time    // the last Until that was not of a claim gone

	pushed chan struct{} // holds a token after a push
	pushes int           // how many came; guarded by the client's mu

	granted []uint64 // the tickets of the grants that were pushed; guarded by the client's mu
}

// pair makes two clients' claims for everything, of one name: the first holds and the second waits.
func (t *trial) pair() (holder, waiter *contender) {
	holder, waiter = t.rivals()
	holder.join(store.Held)
	waiter.join(store.Waiting)
	return holder, waiter
}

// lastingPair is a pair for cases with a few things to do before they keep it.
func (t *trial) lastingPair() (holder, waiter *contender) {
	holder, waiter = t.rivals()
	holder.lasts().join(store.Held)
	waiter.lasts().join(store.Waiting)
	return holder, waiter
}

// trio is a pair and another client's claim that waits behind it. The first and the last have time for three to join.
func (t *trial) trio() (holder, waiter, next *contender) {
	holder, waiter = t.rivals()
	next = waiter.rival()
	holder.lasts().join(store.Held)
	waiter.join(store.Waiting)
	next.lasts().join(store.Waiting)
	return holder, waiter, next
}

// rivals makes two clients' claims for everything, of one name, that have not joined yet.
func (t *trial) rivals() (a, b *contender) {
	a = t.open().mutex(t.name("rivals"))
	b = a.rival()
	return a, b
}

// rival makes the same claim by another client.
func (p *contender) rival() *contender { return p.t.open().mutex(p.claim.Name) }

// lasts gives the claim a ttl that does not run out while a case has a few things to do, if it can have one of its own.
func (p *contender) lasts() *contender {
	if p.t.able.SessionTTL == 0 {
		p.claim.TTL = min(4*p.t.ttl, p.t.able.MaxTTL)
	}
	return p
}

// attempt is one Join.
func (p *contender) attempt() (store.Status, error) {
	ctx, cancel := p.t.context()
	defer cancel()
	sent := time.Now()
	standing, err := p.Join(ctx, p.claim)
	if err == nil {
		p.note(sent, standing)
	}
	return standing, err
}

// enrol joins, wherever it comes to stand.
func (p *contender) enrol() store.Status {
	standing, err := p.attempt()
	if err != nil {
		p.t.fatalf("Join of %q: %v", p.claim.Name, err)
	}
	return standing
}

// join joins and demands a state.
func (p *contender) join(want store.State) store.Status {
	standing := p.enrol()
	p.demand("Join", want)
	return standing
}

// try joins only if it is held at once.
func (p *contender) try(want store.State) store.Status {
	p.claim.Try = true
	return p.join(want)
}

// ask is one Keep of this claim alone.
func (p *contender) ask() (store.Status, error) { return p.askFor(p.t.patience()) }

// askFor is one Keep of this claim alone, over a link that may be broken.
func (p *contender) askFor(d time.Duration) (store.Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	sent := time.Now()
	standings, err := p.Keep(ctx, []store.Claim{p.claim})
	if err != nil {
		return store.Status{}, err
	}
	if len(standings) != 1 {
		p.t.fatalf("Keep of one claim gave %d standings", len(standings))
	}
	if standings[0].Err != nil {
		return store.Status{}, standings[0].Err
	}
	p.note(sent, standings[0])
	return standings[0], nil
}

// keep keeps the claim and demands a state.
func (p *contender) keep(want store.State) store.Status {
	standing, err := p.ask()
	if err != nil {
		p.t.fatalf("Keep of %q: %v", p.claim.Name, err)
	}
	p.demand("Keep", want)
	return standing
}

// keepFor keeps the claims for d, as their clients would, and demands that each stays as it is.
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

// await keeps the claim until it is held, as a client would: when a push came, when the store said to ask again,
// and three times per ttl in any case.
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
		case <-time.After(max(time.Until(next), time.Millisecond)): // never spins, whatever the store says
		}
		if _, err := p.ask(); err != nil {
			p.t.fatalf("Keep of %q while it waits: %v", p.claim.Name, err)
		}
	}
	p.demand("Keep", store.Held)
}

// succeed keeps a claim that waits and that nobody blocks any more, and demands that it is held. Where there is no line it may
// have to ask once more: what it asked before may have landed after the release, and be in its own way for a moment.
func (p *contender) succeed() {
	if p.t.able.Queue {
		p.keep(store.Held)
		return
	}
	if _, err := p.ask(); err != nil {
		p.t.fatalf("Keep of %q while it waits: %v", p.claim.Name, err)
	}
	p.await()
}

// enter joins and waits until it is held.
func (p *contender) enter() {
	p.enrol()
	p.await()
}

// leave leaves the line.
func (p *contender) leave() {
	ctx, cancel := p.t.context()
	defer cancel()
	if err := p.Leave(ctx, p.claim); err != nil {
		p.t.fatalf("Leave of %q: %v", p.claim.Name, err)
	}
}

// note remembers an answer.
func (p *contender) note(sent time.Time, standing store.Status) {
	p.sent, p.last = sent, standing
	if standing.State != store.Gone {
		p.claim.Ticket, p.until = standing.Ticket, standing.Until
	}
}

// demand ends the case if the last answer was another than want.
func (p *contender) demand(call string, want store.State) {
	if p.last.State != want {
		p.t.fatalf("%s of %q (%d of %d): %v, want %v%v", call, p.claim.Name, p.claim.Units, p.claim.Limit, p.last.State, want,
			p.lapsed())
	}
}

// lapsed reports whether the claim is gone and its time had passed before the response came: the machine or the server
// was too slow to keep it.
func (p *contender) lapsed() lapse {
	return lapse(p.last.State == store.Gone && !p.until.IsZero() && time.Now().After(p.until))
}

// A lapse in the arguments of a failure says that the failure proves nothing about the store.
type lapse bool

func (l lapse) String() string {
	if l {
		return ", but its time had passed"
	}
	return ""
}

// wake notes a push. The caller has the client's mu.
func (p *contender) wake() {
	p.pushes++
	select {
	case p.pushed <- struct{}{}:
	default:
	}
}

// pushCount is how many pushes came for the claim.
func (p *contender) pushCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pushes
}
