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

// A Position is where a claim stands at a server with sessions, or may come to stand.
type Position[H comparable] struct {
	ID      store.ID
	Name    string
	Session *Session[H]
	Key     string   // empty: not known
	Markers []string // the keys of what belongs to it and is deleted with it
	Ticket  uint64   // 0: not known
	Unsure  bool     // a Join of it may still land
}

// Deletes deletes claims that have left, or were given up. What can't be deleted because the server does not respond is
// pending until the server has confirmed that nothing of the claim stands, nor can come to, or the session is over: a
// session that lives on would keep the claim forever.
type Deletes[H comparable] struct {
	DeletesConfig[H]
	rounds  *Rounds
	pending map[store.ID]Position[H] // guarded by the Mutex of Sessions
}

// A DeletesConfig is what Deletes has to know of a store.
type DeletesConfig[H comparable] struct {
	Sessions *Sessions[H]

	// Limit is how long the server may take for what is pending. It is set before the first claim is deleted.
	Limit time.Duration

	// Delete deletes claims of one session, and calls Done for each. What may still land of those that are Unsure is
	// made void before. It is not an error if the session is over.
	Delete func(ctx context.Context, all []Position[H]) error

	// Deleted is called when nothing of a claim stands any more, nor can come to, and its session lives. The Mutex of
	// Sessions is locked. nil: nothing follows from that.
	Deleted func(Position[H])
}

// NewDeletes returns the deletes of a store, of which there are none yet.
func NewDeletes[H comparable](f *Frame, config DeletesConfig[H]) *Deletes[H] {
	d := &Deletes[H]{DeletesConfig: config, pending: map[store.ID]Position[H]{}}
	d.rounds = NewRounds(f, func() error { return d.deletePending(f.Life()) })
	return d
}

// Pending returns where a claim is to be deleted, if it is. The Mutex of Sessions must be locked.
func (d *Deletes[H]) Pending(id store.ID) (p Position[H], pending bool) {
	p, pending = d.pending[id]
	return p, pending
}

// Now deletes a claim, and has that done later if it fails. To make void what may still land makes void what others are
// just sending, too: all that are given up at the same time share that.
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
		err := d.rounds.Request().Await(ctx)
		if !errors.Is(err, errDeleteLimit) || ctx.Err() != nil {
			return err
		}
	}
}

// GiveUp is for a claim that was not joined: its Join has this error, or was refused if there is none. It returns the
// error to tell. If something that was sent may still be done, the claim is deleted first; where that fails, the error
// is not final.
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

// neverJoined notes that nothing of a claim stands, unless it has to be deleted for another reason.
func (d *Deletes[H]) neverJoined(p Position[H]) {
	d.Sessions.Mutex.Lock()
	defer d.Sessions.Mutex.Unlock()
	if _, pending := d.pending[p.ID]; !pending {
		d.deleted(p)
	}
}

// Later remembers what is to be deleted. If its session is over, it went with that.
func (d *Deletes[H]) Later(p Position[H]) {
	d.Sessions.Mutex.Lock()
	defer d.Sessions.Mutex.Unlock()
	d.Remember(p)
}

// Remember is Later when the Mutex of Sessions is locked.
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

// Forget forgets what went with its session. The Mutex of Sessions must be locked.
func (d *Deletes[H]) Forget() { clear(d.pending) }

// Retry deletes what is pending, without waiting for it.
func (d *Deletes[H]) Retry() { d.rounds.Request() }

// Await waits until nothing of a claim is to be deleted. What is left of it from before may be on its way out.
func (d *Deletes[H]) Await(ctx context.Context, id store.ID) error {
	d.Sessions.Mutex.Lock()
	_, pending := d.pending[id]
	d.Sessions.Mutex.Unlock()
	if !pending {
		return nil
	}
	return d.rounds.Request().Await(ctx)
}

// errDeleteLimit is the error of a round of deletes that has reached its own limit, which is not its callers'.
var errDeleteLimit = errors.New("what has left could not be deleted in time")

// deletePending deletes what is pending. It runs in one goroutine at a time.
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

// Done notes that a claim is deleted.
func (d *Deletes[H]) Done(p Position[H]) {
	d.Sessions.Mutex.Lock()
	defer d.Sessions.Mutex.Unlock()
	if now := d.pending[p.ID]; now.Unsure && !p.Unsure {
		return // it has been given up once more
	}
	d.deleted(p)
}

func (d *Deletes[H]) deleted(p Position[H]) {
	if !d.Sessions.Is(p.Session) {
		return // it went with its session
	}
	delete(d.pending, p.ID)
	if d.Deleted != nil {
		d.Deleted(p)
	}
}
