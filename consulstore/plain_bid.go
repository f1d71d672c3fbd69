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
	end, err := b.begin(ctx)
	if err != nil {
		return status, err
	}
	defer end()
	if p.isHeld(b) { // another call has taken the lock for it meanwhile
		return p.again(ctx, b)
	}
	ses, err := p.sessions.Current(ctx)
	if err != nil {
		return status, err
	}
	free, err := p.reserve(b, ses)
	var got outcome
	if free {
		got, err = p.take(ctx, b, ses, c)
	}
	switch {
	case errors.Is(err, sessionqueue.ErrOver):
		p.sessions.Over(ses)
		return status, sessionqueue.ErrAgain
	case err != nil:
		return status, err
	case got.taken && got.index <= b.floor:
		p.releaseLater(b)
		p.releases.Request()
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

// begin waits until no other request to lock or release the key of the bid is in progress. The error is that of ctx.
func (b *bid) begin(ctx context.Context) (end func(), err error) {
	select {
	case b.busy <- struct{}{}:
		return func() { <-b.busy }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
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
		err = p.sessions.Freshen(ctx, b.session)
	}
	if err == nil && p.isHeld(b) {
		status = b.held()
	}
	return status, err
}

// stands returns ErrAgain if a bid or its session is gone. The mutex is locked.
func (p *plainMode) stands(b *bid, ses *frame.Session[*session]) error {
	if p.bids[b.id] != b || !p.sessions.Is(ses) {
		return sessionqueue.ErrAgain
	}
	return nil
}

// reserve makes b the only bid of this client that may have the key. It reports false if another bid is that.
func (p *plainMode) reserve(b *bid, ses *frame.Session[*session]) (free bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.stands(b, ses); err != nil {
		return false, err
	}
	if owner := p.owners[b.key]; owner != nil && owner != b {
		return false, nil
	}
	if b.session != ses { // under another session, nothing of what was sent before can land
		b.session, b.unsure, b.ticket = ses, false, 0
	}
	p.owners[b.key] = b
	return true, nil
}

// hold notes that b is held.
func (p *plainMode) hold(b *bid, ses *frame.Session[*session], ticket uint64) (store.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.stands(b, ses); err != nil {
		return store.Status{}, err
	}
	b.state, b.ticket = store.Held, ticket
	return b.held(), nil
}

// take locks the key if it is free. The modify index of that write is the ticket.
func (p *plainMode) take(
	ctx context.Context, b *bid, ses *frame.Session[*session], c *store.Claim,
) (got outcome, err error) {
	got, there, err := p.lock(ctx, b, ses.Handle, op{Verb: "check-not-exists", Key: b.key}, c)
	if err != nil || !there {
		return got, err
	}
	e, err := p.read(ctx, b.key)
	switch {
	case err != nil:
		return got, err
	case e == nil:
		return got, sessionqueue.ErrAgain
	case e.Session == ses.Handle.id && decodePlain(e).ID == b.id: // the response to an earlier request was lost
		p.locked(b, e.ModifyIndex)
		return outcome{taken: true, index: e.ModifyIndex}, nil
	case e.Session != "":
		return outcome{index: e.ModifyIndex}, nil
	}
	got, changed, err := p.lock(ctx, b, ses.Handle, checkIndexOp(b.key, e.ModifyIndex), c)
	if changed {
		got.index = e.ModifyIndex
	}
	return got, err
}

// lock locks the key if it is so. It reports whether it is not.
func (p *plainMode) lock(
	ctx context.Context, b *bid, in *session, isSo op, c *store.Claim,
) (got outcome, other bool, err error) {
	locked := lockOp(b.key, in.id, p.value(c))
	locked.Flags = lockFlag
	written, err := p.txn(ctx, checkIndexOp(in.key, in.epoch.Load()), isSo, locked)
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
		err = p.noRead(b.key)
	}
	if err != nil {
		p.mu.Lock()
		b.unsure = b.unsure || mayHaveBeenDone(err) || isFinal(err)
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
	b.ticket = index
}

// wait makes a bid wait until its key differs from what was found, or until this client's other bid for it has left.
func (p *plainMode) wait(b *bid, ses *frame.Session[*session], found outcome) (store.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.owners[b.key] == b && !b.unsure {
		delete(p.owners, b.key)
	}
	if err := p.stands(b, ses); err != nil {
		return store.Status{}, err
	}
	b.state, b.session = store.Waiting, ses
	status := store.Status{State: store.Waiting, Until: ses.Until(), Ahead: -1}
	switch owner := p.owners[b.key]; {
	case found.delayed:
		status.RecheckAt = time.Now().Add(delayPause)
	case found.index != 0:
		ses.Handle.watches.add(sessionqueue.Watch{Key: b.key, Data: true}, state{1, found.index})
	case owner == nil || owner == b: // the other one has left meanwhile
		status.RecheckAt = time.Now()
	}
	return status, nil
}

// Changed implements events: the bids for a key may try again.
func (p *plainMode) Changed(_ *session, w sessionqueue.Watch, _ bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wake(w.Key)
}

// wake pushes for the bids that wait for a key, so that they try again. The mutex is locked.
func (p *plainMode) wake(key string) {
	for _, b := range p.bids {
		if b.key == key && b.state == store.Waiting {
			p.mu.Push(b.id, store.Status{State: store.Waiting})
		}
	}
}

// Over implements events.
func (p *plainMode) Over(in *session) { p.sessions.OverAt(in) }

// loseBids removes all bids of a session that was lost. The mutex is locked. If Consul may still have the session, it
// is ended only when its holders can't believe in it any more.
func (p *plainMode) loseBids(lost *frame.Session[*session]) {
	clear(p.owners)
	clear(p.pending)
	for _, b := range p.bids {
		if b.session == lost {
			p.drop(b)
			p.mu.Push(b.id, store.Status{State: store.Gone, Ticket: b.ticket})
		}
	}
	p.sessions.EndLost(lost, nil)
}

// gone notes that a bid that was held has lost its key.
func (p *plainMode) gone(b *bid) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.unsure { // an earlier request may still lock the key
		delete(p.bids, b.id)
		p.pending[b.id] = b
		p.releases.Request()
		return
	}
	p.drop(b)
}

// forget is drop for callers that have not locked the mutex.
func (p *plainMode) forget(b *bid) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(b)
}

// drop removes a bid that has no key in Consul. Another bid of this client may try now.
func (p *plainMode) drop(b *bid) {
	b.state = store.Gone
	if p.bids[b.id] == b {
		delete(p.bids, b.id)
	}
	if p.pending[b.id] == b {
		delete(p.pending, b.id)
	}
	if p.owners[b.key] == b {
		delete(p.owners, b.key)
		p.wake(b.key)
	}
	waits := slices.ContainsFunc(slices.Collect(maps.Values(p.bids)), func(other *bid) bool {
		return other.key == b.key && other.state == store.Waiting
	})
	if b.session != nil && !waits {
		p.Unwatch(b.session.Handle, sessionqueue.Watch{Key: b.key, Data: true})
	}
}

// releaseLater makes the release of a bid pending.
func (p *plainMode) releaseLater(b *bid) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.state = store.Gone
	if p.bids[b.id] == b {
		delete(p.bids, b.id)
	}
	if p.sessions.Is(b.session) {
		p.pending[b.id] = b
	}
}

// release releases the key that a bid has, or that a request in flight may lock for it. If that fails, the release is
// pending.
func (p *plainMode) release(ctx context.Context, b *bid) error {
	end, err := b.begin(ctx)
	if err == nil {
		defer end()
		err = p.unlock(ctx, b)
	}
	switch {
	case errors.Is(err, sessionqueue.ErrOver):
		p.sessions.Over(b.session) // it went with it
	case err != nil:
		p.releaseLater(b)
		return err
	}
	p.forget(b)
	return nil
}

// unlock deletes the key of a bid. Requests of the bid that may still land are made void first.
//
// All bids of a client have one session. So a delete must not be conditional on the session alone: it can arrive late,
// when another bid has the key. It is conditional on the index at which the key was locked.
func (p *plainMode) unlock(ctx context.Context, b *bid) (err error) {
	p.mu.Lock()
	in, index, unsure, owns := b.session, b.ticket, b.unsure, p.owners[b.key] == b
	p.mu.Unlock()
	switch {
	case !owns || !unsure && index == 0:
		return nil // Consul has nothing of it
	case unsure:
		err = p.Void(ctx, in.Handle)
	default:
		_, err = p.txn(ctx, deleteAtOp(b.key, index))
		if _, changed := errors.AsType[*failedOp](err); !changed {
			return err
		}
		err = nil
	}
	var entries []entry
	if err == nil {
		entries, err = p.txn(ctx, getOp(b.key))
	}
	if err == nil && len(entries) > 0 && entries[0].Session == in.Handle.id {
		_, err = p.txn(ctx, deleteAtOp(b.key, entries[0].ModifyIndex))
	}
	return err
}

// releasePending carries out the pending releases. It runs in one goroutine at a time.
func (p *plainMode) releasePending() error {
	p.mu.Lock()
	pending := slices.Collect(maps.Values(p.pending))
	p.mu.Unlock()
	if len(pending) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.frame.Life(), p.ttl/2)
	defer cancel()
	return sessionqueue.Each(pending, func(b *bid) error { return p.release(ctx, b) })
}

// afterRenewal retries pending releases after a renewal that succeeded.
func (p *plainMode) afterRenewal(err error) {
	if err == nil {
		p.releases.Request()
	}
}
