package redisstore

import (
	"errors"
	"strconv"

	"github.com/holdfast-go/holdfast/store"
)

// A plainClaim is a claim of this client in plain mode. All but plain, id, key and value is guarded by the mu of the
// store.
type plainClaim struct {
	plain *plainMode
	id    store.ID
	key   string
	value string // set by WithValue; empty: Holdfast's own, which has the ID

	ticket     uint64 // of the claim once it is or was held
	tries      int    // so far
	unanswered int    // tries without a response: they may still be carried out, even after the claim has ended
	waiting    bool   // it will try again
	over       bool   // it has left, and stays so whatever responses arrive
}

// tombstone returns the key that keeps a try from acquiring the lock for a claim that has left.
func (b *plainClaim) tombstone() string { return tombstones + b.id.String() + ":" + b.key }

// tombstones is the prefix of tombstones. They are among the keys that all tenants share: see settings.apply.
const tombstones = keyRoot + keyEnd + ":left:"

// find returns the plainClaim of a claim, or nil if this client has none. An ID means nothing under another name.
func (p *plainMode) find(c *store.Claim) *plainClaim {
	b := p.bids[c.ID]
	if b == nil || b.key != p.key(c.Name) {
		return nil
	}
	return b
}

// localClaim returns the plainClaim of a claim that joins, a new one if need be, and starts a try of it.
func (p *plainMode) localClaim(c *store.Claim) (b *plainClaim, before string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b = p.find(c); b == nil {
		if b, err = p.newBid(c); err != nil {
			return nil, "", err
		}
		p.bids[b.id] = b
		if !c.Try {
			// Before it tries: a release may be published while the response is on its way.
			p.subscriptions.Join(b.key, b)
		}
	}
	before = b.begin()
	return b, before, nil
}

// newBid returns the plainClaim of a new claim. It returns a final Fault if the function of WithValue returns "".
func (p *plainMode) newBid(c *store.Claim) (*plainClaim, error) {
	b := &plainClaim{plain: p, id: c.ID, key: p.key(c.Name)}
	if p.set.value == nil {
		return b, nil
	}
	if b.value = p.set.value(*c); b.value == "" {
		err := errors.New("the function of WithValue returned an empty value")
		return nil, &store.Fault{Store: p.base.frame.Name, Final: true, Err: err}
	}
	return b, nil
}

// begin starts a try. Until its response arrives it may be carried out at any time, and Leave must take that into
// account. It returns what plain_take.lua needs to know about the tries before it.
func (b *plainClaim) begin() (before string) {
	if b.tries > 0 {
		before = strconv.FormatUint(b.ticket, 10)
	}
	b.tries++
	b.unanswered++
	return before
}

// waits notes that the claim waits. The caller holds mu, as for all methods below.
func (p *plainMode) waits(b *plainClaim) {
	if !b.over && !b.waiting {
		b.waiting = true
		p.subscriptions.Add(b.key, b, 0)
	}
}

// settled notes that the claim is held.
func (p *plainMode) settled(b *plainClaim) {
	b.waiting = false
	p.subscriptions.Remove(b.key, b)
}

// drop removes the claim.
func (p *plainMode) drop(b *plainClaim) {
	p.settled(b)
	b.over = true
	if p.bids[b.id] == b {
		delete(p.bids, b.id)
	}
}

// forget is drop for callers that do not hold mu.
func (p *plainMode) forget(b *plainClaim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(b)
}

// leaving notes that a claim leaves: it never tries again. It reports whether a request has to be sent to the server,
// and whether to leave a tombstone.
func (p *plainMode) leaving(c *store.Claim) (b *plainClaim, bury, ask bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b = p.find(c)
	if b == nil { // of another client, or it has left already
		return &plainClaim{id: c.ID, key: p.key(c.Name)}, c.Ticket == 0, true
	}
	b.over = true
	p.settled(b)
	if b.ticket == 0 && b.unanswered == 0 {
		p.drop(b)
		return b, false, false
	}
	return b, b.unanswered > 0, true
}
