package consulstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// plainMode keeps each lock as Consul's own tools do, in one key that the holder's session has locked. It implements
// store.Store, except for what needs a queue. The package documentation describes its guarantees.
//
// Consul knows nothing of claims that wait. They are bids in this client, which try again when the key has changed.
type plainMode struct {
	*consul
	deletes *frame.Deletes[*session]

	mu     *frame.Mutex
	bids   map[store.ID]*bid
	owners map[string]*bid // by key: the bid that has it, or may come to; all bids have one session
}

// A bid is a claim of this client. Its position has the index at which its key was locked as the ticket, 0 if it was
// not as far as is known, and is Unsure if a request to lock the key may still land although no call awaits it. Its
// mutable fields are guarded by the mutex.
type bid struct {
	frame.Position[*session]
	state store.State // Gone while it is not known, and after it has left
	floor uint64      // that a ticket must be above

	busy     chan struct{} // holds a token while its key is being locked
	deleting chan struct{} // holds a token while its key is being deleted
}

// newPlainMode returns plain mode. It does not begin a session yet.
func newPlainMode(c *consul) *plainMode {
	p := &plainMode{consul: c, mu: frame.NewMutex(c.frame), bids: map[store.ID]*bid{}, owners: map[string]*bid{}}
	c.changed = p.onChange
	c.sessions = frame.NewSessions(c.frame, frame.SessionConfig[*session]{
		Server: c, Mutex: p.mu, Lost: p.loseBids, Renewed: p.afterRenewal,
	})
	p.deletes = frame.NewDeletes(c.frame, frame.DeletesConfig[*session]{
		Sessions: c.sessions, Limit: c.ttl / 2, Delete: p.delete, Deleted: p.deleted,
	})
	return p
}

// Notify implements store.Store.
func (p *plainMode) Notify(fn func(store.ID, store.Status)) { p.frame.Notify(fn) }

// Join implements store.Store.
func (p *plainMode) Join(ctx context.Context, c store.Claim) (store.Status, error) {
	call, err := p.begin(ctx, c.Name, c.TTL)
	if err != nil {
		return store.Status{}, err
	}
	defer call.End()
	switch {
	case !c.Exclusive():
		return store.Status{}, fmt.Errorf(
			"%w: plain mode has no shared locks; mode=queue, which is the default, has them", store.ErrUnsupported)
	case store.FloorTooHigh(c.Floor, time.Now()):
		return store.Status{}, store.ErrFloor
	}
	b, err := p.newBid(call.Context, &c)
	if err != nil {
		return store.Status{}, call.Outcome(err)
	}
	var status store.Status
	for range bidTries { // again if its session or its key has changed meanwhile
		if status, err = p.bid(call.Context, b, &c); !errors.Is(err, sessionqueue.ErrAgain) {
			break
		}
		if p.hasLeft(b) {
			err = nil // it is gone
			break
		}
	}
	if err != nil || status.State == store.Gone {
		p.mu.Lock()
		left := p.leaving(b)
		left.Unsure = left.Unsure || left.Ticket != 0 // it may be locked
		p.mu.Unlock()
		err = p.deletes.GiveUp(&call, left, call.Outcome(err))
	}
	return status, err
}

// newBid returns the bid of a claim that joins, which may exist already. If the key of an earlier bid of the claim is
// still to be deleted, that is done first.
func (p *plainMode) newBid(ctx context.Context, c *store.Claim) (*bid, error) {
	if err := p.deletes.Await(ctx, c.ID); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.find(c)
	if b == nil {
		at := frame.Position[*session]{ID: c.ID, Name: c.Name, Key: p.key(c.Name)}
		b = &bid{Position: at, floor: c.Floor, busy: make(chan struct{}, 1), deleting: make(chan struct{}, 1)}
		p.bids[c.ID] = b
	}
	return b, nil
}

// Keep implements store.Store. It confirms claims that are held, and tries again for claims that wait.
func (p *plainMode) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	return p.sessions.Keep(ctx, cs, frame.Keeping{Renew: true, Confirm: p.keep, Report: p.report})
}

// keep confirms claims that are held, and tries again for claims that wait, whose statuses it sets.
func (p *plainMode) keep(ctx context.Context, cs []store.Claim, statuses []store.Status) error {
	held, waiting := p.sort(cs)
	if err := p.confirm(ctx, held); err != nil {
		return err
	}
	return sessionqueue.Each(waiting, func(i int) error { return p.bidAgain(ctx, &cs[i], &statuses[i]) })
}

// report sets the status of a claim that is held, or gone. The mutex is locked.
func (p *plainMode) report(kept *store.Claim, status *store.Status) {
	switch b := p.find(kept); {
	case b == nil && status.Err == nil:
		*status = store.Status{} // it is gone
	case b != nil && b.state == store.Held:
		*status = b.Session.Status(store.Held, b.Ticket, -1)
	}
}

// sort returns the bids that are held, and the indexes of the claims that wait.
func (p *plainMode) sort(cs []store.Claim) (held []*bid, waiting []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range cs {
		switch b := p.find(&cs[i]); {
		case b == nil:
		case b.state == store.Held:
			held = append(held, b)
		case b.state == store.Waiting:
			waiting = append(waiting, i)
		}
	}
	return held, waiting
}

// bidAgain tries again for a claim that waits. The claim is Gone if its session has ended. An error that concerns only
// this claim is set in its status.
func (p *plainMode) bidAgain(ctx context.Context, c *store.Claim, status *store.Status) (err error) {
	for range bidTries {
		p.mu.Lock()
		b := p.find(c)
		p.mu.Unlock()
		if b == nil {
			return nil
		}
		if *status, err = p.bid(ctx, b, c); !errors.Is(err, sessionqueue.ErrAgain) {
			break
		}
	}
	if err != nil && (store.Final(err) || isFinal(err)) {
		*status, err = store.Status{Err: err}, nil
	}
	return err
}

// confirm determines which of these bids still have their keys, as they were locked: another request of this session
// may have locked a key again after the lock was broken.
func (p *plainMode) confirm(ctx context.Context, held []*bid) error {
	for len(held) > 0 {
		batch := held[:min(len(held), maxUpdates)]
		ses := batch[0].Session
		ops := []op{checkSessionOp(ses.Handle.key, ses.Handle.id)}
		for _, b := range batch {
			ops = append(ops, checkIndexOp(b.Key, b.Ticket))
		}
		_, err := p.txn(ctx, ops...)
		failed, refused := errors.AsType[*failedOp](err)
		switch {
		case refused && failed.index == 0:
			p.sessions.Over(ses)
			return nil
		case refused:
			p.gone(batch[failed.index-1])
			held = slices.Delete(held, failed.index-1, failed.index)
		case err != nil:
			return err
		default:
			held = held[len(batch):]
		}
	}
	return nil
}

// Leave implements store.Store.
func (p *plainMode) Leave(ctx context.Context, c store.Claim) error {
	if err := p.frame.Check(context.Background(), c.Name); err != nil {
		return err
	}
	p.mu.Lock()
	left, known := p.deletes.Pending(c.ID)
	known = known && left.Name == c.Name
	if b := p.find(&c); b != nil {
		left, known = p.leaving(b), true
	}
	owns := p.owns(&left)
	p.mu.Unlock()
	call := p.frame.Call(ctx, c.TTL)
	defer call.End()
	switch {
	case owns && ctx.Err() != nil:
		p.deletes.Later(left)
		p.deletes.Retry()
		return ctx.Err()
	case owns:
		return call.Outcome(p.deletes.Now(call.Context, left))
	case known: // Consul knows nothing of it
		return nil
	}
	// The claim never had a key, or is gone: only for an error of Consul.
	_, err := p.txn(call.Context, treeOp(p.keys.id))
	return call.Outcome(err)
}

// Queue implements store.Store. It returns the holder alone. For a holder that is not Holdfast's it returns what its
// key contains.
func (p *plainMode) Queue(ctx context.Context, name string) (store.Queue, error) {
	line := store.Queue{Name: name}
	call, err := p.begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return line, err
	}
	defer call.End()
	e, err := p.read(call.Context, p.key(name))
	if err == nil && e != nil && e.Session != "" {
		line.Entries = []store.Entry{holder(name, e)}
	}
	return line, call.Outcome(err)
}

// Break implements store.Store. It deletes the key only if it still has the index that is this ticket.
func (p *plainMode) Break(ctx context.Context, name string, ticket uint64) error {
	call, err := p.begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return err
	}
	defer call.End()
	key := p.key(name)
	e, err := p.read(call.Context, key)
	if err == nil && (e == nil || e.Session == "" || e.ModifyIndex != ticket) {
		return store.ErrNotHeld
	}
	if err == nil {
		_, err = p.txn(call.Context, checkIndexOp(key, ticket), deleteOp(key))
	}
	if _, changed := errors.AsType[*failedOp](err); changed {
		return store.ErrNotHeld
	}
	return call.Outcome(err)
}

// Names returns ErrUnsupported: finding the locks would mean reading all keys of Consul.
func (p *plainMode) Names(context.Context, string) iter.Seq2[string, error] {
	err := fmt.Errorf("%w: in plain mode locks are among all other keys; mode=queue, which is the default, can list "+
		"them", store.ErrUnsupported)
	return func(yield func(string, error) bool) { yield("", err) }
}

// Queues returns the error of Names.
func (p *plainMode) Queues(ctx context.Context, prefix string) iter.Seq2[store.Queue, error] {
	return store.QueuesByName(ctx, p, prefix)
}

// Watch returns ErrUnsupported, as Names does.
func (p *plainMode) Watch(context.Context, string, func(name string)) error {
	return store.ErrUnsupported
}

// Detach returns ErrUnsupported: the lock would be locked anew for another session, and get another token.
func (p *plainMode) Detach(context.Context, store.Claim, store.ID, time.Duration) (store.Status, error) {
	return store.Status{}, store.ErrUnsupported
}

// Attach returns ErrUnsupported: no claim is detached.
func (p *plainMode) Attach(context.Context, store.Claim, store.ID) (store.Status, error) {
	return store.Status{}, store.ErrUnsupported
}

// begin checks an operation and begins it. In plain mode a name is a key, and Holdfast's own keys are refused.
func (p *plainMode) begin(ctx context.Context, name string, limit time.Duration) (frame.Call, error) {
	if key := p.key(name); strings.HasPrefix(key, root) {
		return frame.Call{}, fmt.Errorf("%w: in plain mode a name is a key, and what begins with %q is holdfast's own",
			store.ErrBadName, root)
	}
	return p.frame.Begin(ctx, name, limit)
}

// key returns the key of the lock with a name.
func (p *plainMode) key(name string) string { return p.prefix + name }

// find returns the bid of a claim, or nil. The mutex is locked.
func (p *plainMode) find(c *store.Claim) *bid {
	if b := p.bids[c.ID]; b != nil && b.Name == c.Name {
		return b
	}
	return nil
}
