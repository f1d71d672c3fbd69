package redisstore

import (
	"errors"
	"strconv"

	"github.com/holdfast-go/holdfast/store"
)

// A bid is a claim in plain mode, as this client knows it. All but plain, id, key and value is guarded by the store's
// mu.
type bid struct {
	plain *plainMode
	id    store.ID
	key   string
	value string // that the program gave; empty: Holdfast's own, which has the ID

	ticket  uint64 // once it has, or had, the lock
	tries   int    // to take it, so far
	unsure  int    // those of them that were not answered: they may still land, even after its end
	waiting bool   // it is to try again
	over    bool   // it has left: whatever is answered, it does not come back
}

// tombstone is the key that keeps a try from taking the lock for a bid that has left.
func (b *bid) tombstone() string { return tombstones + b.id.String() + ":" + b.key }

// tombstones are beside the other keys that are Holdfast's own, and are not a tenant's: see plainMode.
const tombstones = keyRoot + keyEnd + ":left:"

// find is the bid of a claim; nil if this client has none. An ID means nothing under another name.
func (p *plainMode) find(c *store.Claim) *bid {
	b := p.bids[c.ID]
	if b == nil || b.key != p.key(c.Name) {
		return nil
	}
	return b
}

// bid makes a bid for a claim that joins, or finds the one that it has, and begins a try of it.
func (p *plainMode) bid(c *store.Claim) (b *bid, before string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b = p.find(c); b == nil {
		if b, err = p.newBid(c); err != nil {
			return nil, "", err
		}
		p.bids[b.id] = b
		if !c.Try {
			p.subscriptions.Join(b.key, b) // before it tries: a release may be told while the answer is on its way
		}
	}
	before = b.begin()
	return b, before, nil
}

func (p *plainMode) newBid(c *store.Claim) (*bid, error) {
	b := &bid{plain: p, id: c.ID, key: p.key(c.Name)}
	if p.set.value == nil {
		return b, nil
	}
	if b.value = p.set.value(*c); b.value == "" {
		return nil, &store.Fault{Store: p.base.frame.Name, Final: true, Err: errors.New("the option Value gave an empty value")}
	}
	return b, nil
}

// begin begins a try. From now on until it is answered it may land at any time, and whoever leaves must reckon with
// that. It returns what plain_take.lua wants to know about the tries before it.
func (b *bid) begin() (before string) {
	if b.tries > 0 {
		before = strconv.FormatUint(b.ticket, 10)
	}
	b.tries++
	b.unsure++
	return before
}

// waits makes b one that waits. The caller has mu, as for all of these.
func (p *plainMode) waits(b *bid) {
	if !b.over && !b.waiting {
		b.waiting = true
		p.subscriptions.Add(b.key, b, 0)
	}
}

// settled makes b one that has the lock.
func (p *plainMode) settled(b *bid) {
	b.waiting = false
	p.subscriptions.Remove(b.key, b)
}

// drop forgets b.
func (p *plainMode) drop(b *bid) {
	p.settled(b)
	b.over = true
	if p.bids[b.id] == b {
		delete(p.bids, b.id)
	}
}

// forget is drop for who does not have mu.
func (p *plainMode) forget(b *bid) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(b)
}

// leaving makes the bid of a claim one that leaves: it never tries again. It says whether the server has to be asked,
// and whether to leave a tombstone.
func (p *plainMode) leaving(c *store.Claim) (b *bid, bury, ask bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b = p.find(c)
	if b == nil { // another client's, or left already
		return &bid{id: c.ID, key: p.key(c.Name)}, c.Ticket == 0, true
	}
	b.over = true
	p.settled(b)
	if b.ticket == 0 && b.unsure == 0 {
		p.drop(b)
		return b, false, false
	}
	return b, b.unsure > 0, true
}
