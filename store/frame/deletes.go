package frame

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Position describes where a claim is stored at a server with sessions, or where a request in flight may still store
// it.
type Position[H comparable] struct {
	ID      store.ID
	Name    string
	Session *Session[H]
	Key     string   // empty: not known
	Markers []string // the keys of what belongs to it and is deleted with it
	Ticket  uint64   // 0: not known
	Unsure  bool     // a Join, Detach or Attach of it may still land
}

// Deletes deletes the keys of claims that have left, or whose Join failed. If the server does not respond, the delete
// is pending. It is retried until the server has confirmed that the claim has no key and that no request in flight can
// create one, or until the session has ended: a session that lives on would keep the claim forever.
type Deletes[H comparable] struct {
	DeletesConfig[H]
	rounds  *Rounds
	pending map[store.ID]Position[H] // guarded by the Mutex of Sessions
}

// A DeletesConfig has what Deletes needs from a store.
type DeletesConfig[H comparable] struct {
	Sessions *Sessions[H]

	// Limit bounds how long the server may take for the pending deletes. It is set before the first claim is deleted.
	Limit time.Duration

	// Delete deletes claims of one session, and calls Done for each. For claims that are Unsure it first makes requests
	// in flight void, so that they cannot create keys later. It returns nil if the session has ended.
	Delete func(ctx context.Context, all []Position[H]) error

	// Deleted is called when a claim has no key any more, no request in flight can create one, and its session lives.
	// The Mutex of Sessions is locked. It may be nil.
	Deleted func(Position[H])
}

// NewDeletes returns Deletes for a store, with nothing pending.
func NewDeletes[H comparable](f *Frame, config DeletesConfig[H]) *Deletes[H] {
	d := &Deletes[H]{DeletesConfig: config, pending: map[store.ID]Position[H]{}}
	d.rounds = NewRounds(f, func() error { return d.deletePending(f.Life()) })
	return d
}

// Pending returns the Position of a claim whose delete is pending; pending is false if there is none. The Mutex of
// Sessions must be locked.
func (d *Deletes[H]) Pending(id store.ID) (p Position[H], pending bool) {
	p, pending = d.pending[id]
	return p, pending
}

// Now deletes a claim. If that fails, it returns the error, and the delete is pending. For a claim that is Unsure,
// requests in flight are made void, which also affects other requests of the session that are just being sent. So all
// deletes of that kind that are requested at the same time share one round.
func (d *Deletes[H]) Now(ctx context.Context, p Position[H]) error {
	if !p.Unsure {
		err := d.Delete(ctx, []Position[H]{p})
		if err != nil {
			d.Later(p)
		}
		return err
	}
	d.Later(p)
	for {
		err := d.round(ctx, p)
		if !errors.Is(err, errDeleteLimit) || ctx.Err() != nil {
			return err
		}
	}
}

// round waits for a round that begins now. It returns the error of the round, or that of ctx, unless the claim was
// deleted: then the error is about other claims.
func (d *Deletes[H]) round(ctx context.Context, p Position[H]) error {
	err := d.rounds.Request().Await(ctx)
	d.Sessions.Mutex.Lock()
	defer d.Sessions.Mutex.Unlock()
	if _, pending := d.pending[p.ID]; !pending && d.Sessions.Is(p.Session) {
		return nil
	}
	return err
}

// GiveUp ends a claim whose Join failed with err, or was refused if err is nil. It returns the error for the caller of
// Join. If a request of that Join may still take effect, the claim is deleted: before GiveUp returns if err is nil or
// final, and later otherwise. If the delete fails, GiveUp returns an error that is not final.
func (d *Deletes[H]) GiveUp(call *Call, p Position[H], err error) error {
	switch {
	case !p.Unsure:
		d.neverJoined(p)
	case err != nil && !store.Final(err):
		d.Later(p)
	default:
		if failed := d.Now(call.Context, p); failed != nil {
			return NotFinal(call.Outcome(failed))
		}
	}
	return err
}

// neverJoined notes that a claim has no key, unless its delete is pending for another reason.
func (d *Deletes[H]) neverJoined(p Position[H]) {
	d.Sessions.Mutex.Lock()
	defer d.Sessions.Mutex.Unlock()
	if _, pending := d.pending[p.ID]; !pending {
		d.deleted(p)
	}
}

// Later makes the delete of a claim pending. If the session of the claim has ended, it does nothing: the claim ended
// with it.
func (d *Deletes[H]) Later(p Position[H]) {
	d.Sessions.Mutex.Lock()
	defer d.Sessions.Mutex.Unlock()
	d.Remember(p)
}

// Remember is Later for callers that have locked the Mutex of Sessions.
func (d *Deletes[H]) Remember(p Position[H]) {
	if !d.Sessions.Is(p.Session) {
		return
	}
	if old, pending := d.pending[p.ID]; pending {
		p.Unsure = p.Unsure || old.Unsure
		p.Ticket = max(p.Ticket, old.Ticket)
		if p.Key == "" {
			p.Key, p.Markers = old.Key, old.Markers
		}
	}
	d.pending[p.ID] = p
}

// Forget discards all pending deletes, because their session has ended. The Mutex of Sessions must be locked.
func (d *Deletes[H]) Forget() { clear(d.pending) }

// Retry starts a round that deletes what is pending, and does not wait for it.
func (d *Deletes[H]) Retry() { d.rounds.Request() }

// Await waits until no delete of a claim with this ID is pending. It returns the error of the round that should have
// deleted it, or the error of ctx.
func (d *Deletes[H]) Await(ctx context.Context, id store.ID) error {
	d.Sessions.Mutex.Lock()
	p, pending := d.pending[id]
	d.Sessions.Mutex.Unlock()
	if !pending {
		return nil
	}
	return d.round(ctx, p)
}

// errDeleteLimit is the error of a round of deletes that took longer than Limit. It is not about the contexts of its
// callers.
var errDeleteLimit = errors.New("what has left could not be deleted in time")

// deletePending deletes what is pending, and returns the error of Delete. It runs in one goroutine at a time.
func (d *Deletes[H]) deletePending(life context.Context) error {
	d.Sessions.Mutex.Lock()
	pending := slices.Collect(maps.Values(d.pending))
	d.Sessions.Mutex.Unlock()
	if len(pending) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(life, d.Limit)
	defer cancel()
	err := d.Delete(ctx, pending)
	if err != nil && ctx.Err() != nil && life.Err() == nil {
		err = fmt.Errorf("%w: %w", errDeleteLimit, err)
	}
	return err
}

// Done notes that a claim was deleted. If it became Unsure after the delete was sent, the delete stays pending.
func (d *Deletes[H]) Done(p Position[H]) {
	d.Sessions.Mutex.Lock()
	defer d.Sessions.Mutex.Unlock()
	if now := d.pending[p.ID]; now.Unsure && !p.Unsure {
		return // it has been given up once more
	}
	d.deleted(p)
}

// deleted removes the pending delete of a claim and calls Deleted, unless the session has ended. The Mutex of Sessions
// is locked.
func (d *Deletes[H]) deleted(p Position[H]) {
	if !d.Sessions.Is(p.Session) {
		return // it went with its session
	}
	delete(d.pending, p.ID)
	if d.Deleted != nil {
		d.Deleted(p)
	}
}
