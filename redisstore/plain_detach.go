package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

var detachPlainScript = newScript("plain.lua", "plain_detach.lua")

// Detach implements store.Detacher. The value of the key gets the new ID, and keeps its owner.
func (p *plainMode) Detach(ctx context.Context, c store.Claim, as store.ID, d time.Duration) (store.Status, error) {
	call, err := p.beginTransfer(ctx, &c)
	if err != nil {
		return store.Status{}, err
	}
	defer call.End()
	p.mu.Lock()
	from := p.find(&c)
	if from == nil { // of another client, or detached already
		from = &plainClaim{id: c.ID, key: p.key(c.Name)}
	}
	lateTry := from.unanswered > 0
	p.mu.Unlock()
	to := &plainClaim{id: as, key: from.key}
	e := transferring(from, to, d, "")
	if lateTry {
		e.Keys, e.Args = append(e.Keys, from.tombstone()), append(e.Args, millis(c.TTL))
	}
	ticket, try, err := p.transfer(&call, e)
	if err == nil || store.Final(err) { // after a final error the caller need not leave
		p.forget(from)
	}
	if err != nil {
		return store.Status{}, err
	}
	if ticket == 0 {
		return store.Status{}, nil
	}
	to.ticket = ticket
	status, err := try.counted(p.held(to, try.sent, d))
	return status, call.Outcome(err)
}

// Attach implements store.Detacher. Until its response has arrived it counts as a try of c: Leave writes a tombstone.
func (p *plainMode) Attach(ctx context.Context, c store.Claim, from store.ID) (store.Status, error) {
	call, err := p.beginTransfer(ctx, &c)
	if err != nil {
		return store.Status{}, err
	}
	defer call.End()
	c.Try = true // it never waits
	to, _, err := p.localClaim(&c)
	if err != nil {
		return store.Status{}, err
	}
	e := transferring(&plainClaim{id: from, key: to.key}, to, c.TTL+c.Grace, p.owners.Text(c.Owner))
	ticket, try, err := p.transfer(&call, e)
	if err != nil {
		if store.Final(err) {
			p.forget(to)
		}
		return store.Status{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	to.unanswered--
	if ticket == 0 {
		p.drop(to)
		return store.Status{}, nil
	}
	to.ticket = ticket
	p.seen = max(p.seen, ticket)
	status, err := try.counted(p.held(to, try.sent, c.TTL))
	return status, call.Outcome(err)
}

// beginTransfer checks a Detach or Attach and starts it.
func (p *plainMode) beginTransfer(ctx context.Context, c *store.Claim) (frame.Call, error) {
	if p.set.value != nil {
		return frame.Call{}, fmt.Errorf(
			"%w: with WithValue locks cannot be detached, since their values have no ticket", store.ErrUnsupported)
	}
	return p.begin(ctx, c.Name, c.TTL)
}

// transferring is one run of plain_detach.lua.
func transferring(from, to *plainClaim, life time.Duration, owner string) execution {
	was, _ := from.want()
	want, _ := to.want()
	return execution{Keys: []string{to.key, to.tombstone()}, Args: []string{was, want, millis(life), owner}}
}

// transfer runs plain_detach.lua. It returns the ticket, or 0 if the lock was not transferred. The error is that of
// call.Outcome.
func (p *plainMode) transfer(call *frame.Call, e execution) (ticket uint64, try tries, err error) {
	answer, try := p.runScript(call.Context, detachPlainScript, p.at, true, func(*connection) execution { return e })
	if try.err != nil {
		return 0, try, call.Outcome(try.err)
	}
	n, err := answer.Int64()
	if err != nil || n < 0 {
		return 0, try, p.strange(fmt.Sprint(n, err))
	}
	return uint64(n), try, nil
}
