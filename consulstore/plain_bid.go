package consulstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// lockFlag is the flag with which Consul's own tools mark the key of a lock.
const lockFlag = 0x2ddccbc058a50c18

// A plainValue is the value of a lock's key, for operators.
type plainValue struct {
	ID store.ID `json:"id"`
	frame.Record
}

// value returns the value of the key that a claim holds.
func (p *plainMode) value(c *store.Claim) string {
	return frame.Encode(sessionqueue.Format, plainValue{c.ID, frame.NewRecord(c, p.ttl, time.Now(), time.Time{})})
}

// decodePlain parses a value. That of another program is a zero plainValue.
func decodePlain(e *entry) (v plainValue) {
	text, ok := strings.CutPrefix(string(e.Value), sessionqueue.Format)
	if !ok || json.Unmarshal([]byte(text), &v) != nil || v.Owner == nil {
		v = plainValue{Record: frame.Record{Owner: &store.Owner{Label: "session " + e.Session}}}
	}
	return v
}

// holder returns the holder of a lock as the only entry of its queue.
func holder(name string, e *entry) store.Entry {
	v := decodePlain(e)
	all := store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders}
	at := store.Entry{Claim: store.Claim{ID: v.ID, Name: name, Demand: all, Ticket: e.ModifyIndex}, State: store.Held}
	v.Show(&at)
	return at
}

// read returns a key that is a lock's, or nil if there is none.
func (p *plainMode) read(ctx context.Context, key string) (*entry, error) {
	entries, err := p.txn(ctx, getOp(key))
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	if entries[0].Flags != lockFlag {
		return nil, final(fmt.Errorf("the key %s is no lock: it has the flags %#x", store.Quote(key), entries[0].Flags))
	}
	return &entries[0], nil
}

const (
	// bidTries bounds the attempts of a bid while its session or its key changes.
	bidTries = 20
	// delayPause is the pause after a bid that was refused because of another session's lock-delay.
	delayPause = time.Second
)

// An outcome is the result of a bid.
type outcome struct {
	taken   bool
	index   uint64 // of the key: the ticket if it was taken; 0: not known
	delayed bool   // nobody has the lock, and Consul gives it to nobody for a while
}

// bid tries to acquire the lock, and makes the claim wait if it can't. A Try that is refused is Gone. The error is
// ErrAgain if the session or the key has changed meanwhile.
func (p *plainMode) bid(ctx context.Context, b *bid, c *store.Claim) (status store.Status, err error) {
	select {
	case b.busy <- struct{}{}:
		defer func() { <-b.busy }()
	case <-ctx.Done():
		return status, ctx.Err()
	}
	if p.isHeld(b) { // another call has taken the lock for it meanwhile
		return p.again(ctx, b)
	}
	ses, err := p.sessions.Current(ctx)
	if err != nil {
		return status, err
	}
	epoch, err := p.reserve(b, ses)
	var got outcome
	if epoch != 0 {
		got, err = p.take(ctx, b, epoch, c)
	}
	switch {
	case errors.Is(err, sessionqueue.ErrOver):
		p.sessions.Over(ses)
		return status, sessionqueue.ErrAgain
	case err != nil:
		return status, err
	case got.taken && got.index <= b.floor:
		p.gone(b)
		return status, fmt.Errorf("%w: it is at %d, and %d was seen", store.ErrFloor, got.index, b.floor)
	case got.taken:
		if err := p.sessions.Freshen(ctx, ses); err != nil {
			return status, err
		}
		return p.hold(b, ses, got.index)
	case c.Try:
		return store.Status{Ahead: 1}, nil
	}
	return p.wait(b, ses, got)
}

// isHeld reports whether a bid holds the lock.
func (p *plainMode) isHeld(b *bid) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.state == store.Held
}

// again returns the status of a bid that was held.
func (p *plainMode) again(ctx context.Context, b *bid) (status store.Status, err error) {
	if err = p.confirm(ctx, []*bid{b}); err == nil {
		err = p.sessions.Freshen(ctx, b.Session)
	}
	if err == nil && p.isHeld(b) {
		status = b.Session.Status(store.Held, b.Ticket, -1)
	}
	return status, err
}

// stands returns ErrAgain if a bid or its session is gone. The mutex is locked.
func (p *plainMode) stands(b *bid, ses *frame.Session[*session]) error {
	if p.bids[b.ID] != b || !p.sessions.Is(ses) {
		return sessionqueue.ErrAgain
	}
	return nil
}

// hasLeft reports whether a bid that joins was removed by Leave.
func (p *plainMode) hasLeft(b *bid) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bids[b.ID] != b
}

// reserve makes b the only bid of this client that may have the key, and returns the epoch in which the key may be
// locked for it: if b leaves from now on, another begins. The epoch is 0 if another bid may have the key.
func (p *plainMode) reserve(b *bid, ses *frame.Session[*session]) (epoch uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.stands(b, ses); err != nil {
		return 0, err
	}
	if owner := p.owners[b.Key]; owner != nil && owner != b {
		return 0, nil
	}
	if b.Session != ses { // under another session, nothing of what was sent before can land
		b.Session, b.Unsure, b.Ticket = ses, false, 0
	}
	p.owners[b.Key] = b
	return ses.Handle.epoch.Load(), nil
}

// hold notes that b is held.
func (p *plainMode) hold(b *bid, ses *frame.Session[*session], ticket uint64) (store.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.stands(b, ses); err != nil {
		return store.Status{}, err
	}
	b.state, b.Ticket = store.Held, ticket
	return ses.Status(store.Held, ticket, -1), nil
}

// take locks the key if it is free. The modify index of that write is the ticket.
func (p *plainMode) take(ctx context.Context, b *bid, epoch uint64, c *store.Claim) (got outcome, err error) {
	got, there, err := p.lock(ctx, b, epoch, op{Verb: "check-not-exists", Key: b.Key}, c)
	if err != nil || !there {
		return got, err
	}
	e, err := p.read(ctx, b.Key)
	switch {
	case err != nil:
		return got, err
	case e == nil:
		return got, sessionqueue.ErrAgain
	case e.Session == b.Session.Handle.id && decodePlain(e).ID == b.ID: // the response to an earlier request was lost
		p.locked(b, e.ModifyIndex)
		return outcome{taken: true, index: e.ModifyIndex}, nil
	case e.Session != "":
		return outcome{index: e.ModifyIndex}, nil
	}
	got, changed, err := p.lock(ctx, b, epoch, checkIndexOp(b.Key, e.ModifyIndex), c)
	if changed {
		got.index = e.ModifyIndex
	}
	return got, err
}

// lock locks the key if it is so. It reports whether it is not.
func (p *plainMode) lock(
	ctx context.Context, b *bid, epoch uint64, isSo op, c *store.Claim,
) (got outcome, other bool, err error) {
	in := b.Session.Handle
	locked := lockOp(b.Key, in.id, p.value(c))
	locked.Flags = lockFlag
	written, err := p.txn(ctx, checkIndexOp(in.key, epoch), isSo, locked)
	failed, refused := errors.AsType[*failedOp](err)
	switch {
	case refused && failed.index == 0:
		return got, false, p.readEpoch(ctx, in)
	case refused && failed.index == 1:
		return got, true, nil
	case refused && strings.Contains(failed.what, "lock delay"):
		return outcome{delayed: true}, false, nil
	case refused:
		return got, false, errors.Join(sessionqueue.ErrOver, failed)
	case err == nil && len(written) == 0:
		err = p.noRead(b.Key)
	}
	if err != nil {
		p.mu.Lock()
		b.Unsure = b.Unsure || mayHaveBeenDone(err) || isFinal(err)
		p.mu.Unlock()
		return got, false, err
	}
	got = outcome{taken: true, index: written[len(written)-1].ModifyIndex}
	p.locked(b, got.index)
	return got, false, nil
}

// locked notes the index at which the key of a bid was locked.
func (p *plainMode) locked(b *bid, index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.Ticket = index
}

// wait makes a bid wait until its key differs from what was found, or until this client's other bid for it has left.
func (p *plainMode) wait(b *bid, ses *frame.Session[*session], found outcome) (store.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.stands(b, ses); err != nil {
		return store.Status{}, err // if it has left, its key is the delete's
	}
	if p.owners[b.Key] == b && !b.Unsure {
		delete(p.owners, b.Key)
	}
	b.state, b.Session = store.Waiting, ses
	status := ses.Status(store.Waiting, 0, -1)
	switch owner := p.owners[b.Key]; {
	case found.delayed:
		status.RecheckAt = time.Now().Add(delayPause)
	case found.index != 0:
		ses.Handle.watches.add(sessionqueue.Watch{Key: b.Key, Data: true}, state{1, found.index})
	case owner == nil || owner == b: // the other one has left meanwhile
		status.RecheckAt = time.Now()
	}
	return status, nil
}

// onChange lets the bids for a key try again.
func (p *plainMode) onChange(_ *session, w sessionqueue.Watch, _ bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wake(w.Key)
}

// wake pushes for the bids that wait for a key, so that they try again. The mutex is locked.
func (p *plainMode) wake(key string) {
	for _, b := range p.bids {
		if b.Key == key && b.state == store.Waiting {
			p.mu.Push(b.ID, store.Status{State: store.Waiting})
		}
	}
}

// loseBids removes all bids of a session that was lost, except those that join: they try again under the next one. If
// Consul may still have the session, it is ended only when its holders can't believe in it any more. The mutex is
// locked.
func (p *plainMode) loseBids(lost *frame.Session[*session]) {
	clear(p.owners)
	p.deletes.Forget()
	for _, b := range p.bids {
		if b.Session == lost && b.state != store.Gone {
			p.leaving(b)
			p.mu.Push(b.ID, store.Status{State: store.Gone, Ticket: b.Ticket})
		}
	}
	p.sessions.EndLost(lost, nil)
}

// gone ends a bid that has lost its key, or must not have it. Should the key be locked for it, it is deleted.
func (p *plainMode) gone(b *bid) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deletes.Remember(p.leaving(b))
	p.deletes.Retry()
}

// leaving removes a bid, and returns what is to be deleted if the bid owns its key. The mutex is locked.
func (p *plainMode) leaving(b *bid) frame.Position[*session] {
	left := b.Position
	left.Unsure = b.Unsure || len(b.busy) > 0 // a request is in flight
	b.state = store.Gone
	waits := func(other *bid) bool { return other.Key == b.Key && other.state == store.Waiting }
	if p.bids[b.ID] == b {
		delete(p.bids, b.ID)
	}
	if b.Session != nil && !slices.ContainsFunc(slices.Collect(maps.Values(p.bids)), waits) {
		p.Unwatch(b.Session.Handle, sessionqueue.Watch{Key: b.Key, Data: true})
	}
	return left
}

// owns reports whether a bid that has left still has its key, or may come to. The mutex is locked.
func (p *plainMode) owns(left *frame.Position[*session]) bool {
	owner := p.owners[left.Key]
	return owner != nil && owner.ID == left.ID && p.bids[left.ID] != owner
}

// deleted notes that a bid has no key any more: another bid of this client may try. The mutex is locked.
func (p *plainMode) deleted(left frame.Position[*session]) {
	if p.owns(&left) {
		delete(p.owners, left.Key)
		p.wake(left.Key)
	}
}

// delete deletes the keys of bids that have left, all of one session.
func (p *plainMode) delete(ctx context.Context, all []frame.Position[*session]) error {
	return sessionqueue.DeleteAll(ctx, p.consul, p.sessions, all, p.deleteKey)
}

// deleteKey deletes the key of a bid. If the bid is Unsure, its requests are void already.
//
// All bids of a client have one session. So a delete must not be conditional on the session alone: it can arrive late,
// when another bid has the key. It is conditional on the index at which the key was locked. And what is found under the
// key is the bid's own only while the bid owns it: so calls for the same bid do this one after another.
func (p *plainMode) deleteKey(ctx context.Context, left frame.Position[*session]) (err error) {
	p.mu.Lock()
	owner, owns := p.owners[left.Key], p.owns(&left)
	p.mu.Unlock()
	if owns {
		select {
		case owner.deleting <- struct{}{}:
			defer func() { <-owner.deleting }()
		case <-ctx.Done():
			return ctx.Err()
		}
		p.mu.Lock()
		owns = p.owners[left.Key] == owner
		p.mu.Unlock()
	}
	if owns && (left.Unsure || left.Ticket != 0) {
		err = p.unlock(ctx, &left)
	}
	if err == nil {
		p.deletes.Done(left)
	}
	return err
}

// unlock deletes the key of a bid that owns it.
func (p *plainMode) unlock(ctx context.Context, left *frame.Position[*session]) error {
	if !left.Unsure {
		_, err := p.txn(ctx, deleteAtOp(left.Key, left.Ticket))
		if _, changed := errors.AsType[*failedOp](err); !changed {
			return err
		}
	}
	entries, err := p.txn(ctx, getOp(left.Key))
	if err == nil && len(entries) > 0 && entries[0].Session == left.Session.Handle.id {
		_, err = p.txn(ctx, deleteAtOp(left.Key, entries[0].ModifyIndex))
	}
	return err
}

// afterRenewal retries pending deletes after a renewal that succeeded.
func (p *plainMode) afterRenewal(err error) {
	if err == nil {
		p.deletes.Retry()
	}
}
