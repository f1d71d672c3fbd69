package holdfast

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Queue is the holders of a lock and its waiters, in order of arrival, as the store saw them.
type Queue struct {
	Name    string
	Entries []Entry
}

// An Entry is a claim in a queue: a holder or a waiter.
type Entry struct {
	Owner Owner
	Token Token
	Held  bool
	Kind  Kind
	Units int           // how many units of Limit it has or waits for
	Limit int           // the units of a semaphore; for a lock, how many readers it can have
	Since time.Time     // since when it holds or waits; zero if the store does not know
	Left  time.Duration // after which time it expires if it is not renewed
}

// Holders returns the entries that hold the lock.
func (q Queue) Holders() []Entry {
	n := 0
	for n < len(q.Entries) && q.Entries[n].Held {
		n++
	}
	return q.Entries[:n]
}

// Waiters returns the entries that wait, the next first.
func (q Queue) Waiters() []Entry { return q.Entries[len(q.Holders()):] }

// newQueue returns entries of the store as a Queue of this package.
func newQueue(name string, entries []store.Entry) Queue {
	q := Queue{Name: name, Entries: slices.Grow([]Entry(nil), len(entries))} // nil if there are none
	for i := range entries {
		q.Entries = append(q.Entries, newEntry(&entries[i]))
	}
	return q
}

// newEntry returns an entry of the store as an Entry of this package.
func newEntry(e *store.Entry) Entry {
	entry := Entry{
		Token: newToken(e.Ticket, !e.Exclusive(), e.Turn),
		Held:  e.State == store.Held,
		Kind:  e.Kind,
		Units: int(e.Units),
		Limit: int(e.Limit),
		Since: e.Since,
		Left:  e.Left,
	}
	if e.Owner != nil {
		entry.Owner = *e.Owner
	}
	return entry
}

// Inspect returns the holders and the waiters of a name. The queue of a name that is not in use is empty. The error is
// an *Error. It wraps a *Fault or ErrFormat if the store fails, and ErrBadName, ErrUnsupported, ErrNilContext,
// ErrClosed or the error of ctx otherwise.
func (c *Client) Inspect(ctx context.Context, name string) (Queue, error) {
	k := c.lock(name, nil)
	return k.inspect(ctx)
}

// inspect returns the queue of the lock. See [Client.Inspect] about the errors.
func (k *lock) inspect(ctx context.Context) (Queue, error) {
	var seen store.Queue
	err := k.usable(ctx)
	if err == nil {
		seen, err = k.client.store.Queue(ctx, k.name)
	}
	if err != nil {
		return Queue{Name: k.name}, k.client.failed("inspect", k.name, err)
	}
	return newQueue(k.name, seen.Entries), nil
}

// Names iterates over the names that begin with prefix and have a holder or a waiter, in no particular order. The first
// error ends the iteration. The errors are those of [Client.Inspect].
func (c *Client) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		k := lock{client: c, err: c.settings.err}
		if err := k.usable(ctx); err != nil {
			yield("", c.failed("list names", "", err))
			return
		}
		for name, err := range c.store.Names(ctx, prefix) {
			if err != nil {
				yield("", c.failed("list names", "", err))
				return
			}
			if !yield(name, nil) {
				return
			}
		}
	}
}

// Break removes the claim with this token, held or waiting. It is for operators: a holder that is alive goes on until
// it notices the loss, at its next renewal or before. A waiter loses its position and queues again. If no claim has the
// token, the error wraps ErrNotHeld. The other errors are those of [Client.Inspect].
func (c *Client) Break(ctx context.Context, name string, token Token) error {
	k := c.lock(name, nil)
	err := k.usable(ctx)
	if err == nil {
		err = c.store.Break(ctx, name, token.Ticket())
	}
	return c.failed("break", name, err)
}
