package holdfast

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Line is who holds a resource and who waits for it, in order of arrival, as the store saw it.
type Queue struct {
	Name    string
	Entries []Entry
}

// A Place is one who holds or waits.
type Entry struct {
	Owner Owner
	Token Token
	Held  bool
	Kind  Kind
	Units int           // how many of Limit it has or wants
	Limit int           // of a lock, how many readers there can be
	Since time.Time     // since when it holds, or waits; zero if the store cannot tell
	Left  time.Duration // how long it still has if it is not renewed
}

// Holders are the places that are held.
func (l Queue) Holders() []Entry {
	n := 0
	for n < len(l.Entries) && l.Entries[n].Held {
		n++
	}
	return l.Entries[:n]
}

// Waiters are the places that wait, the next first.
func (l Queue) Waiters() []Entry { return l.Entries[len(l.Holders()):] }

func newPlace(p *store.Entry) Entry {
	place := Entry{
		Token: newToken(p.Ticket, !p.Exclusive(), p.Turn),
		Held:  p.State == store.Held,
		Kind:  p.Kind,
		Units: int(p.Units),
		Limit: int(p.Limit),
		Since: p.Since,
		Left:  p.Left,
	}
	if p.Owner != nil {
		place.Owner = *p.Owner
	}
	return place
}

// Inspect says who holds a name and who waits for it. A name that nobody uses has an empty line.
func (c *Client) Inspect(ctx context.Context, name string) (Queue, error) {
	k := c.lock(name, nil)
	return k.inspect(ctx)
}

func (k *lock) inspect(ctx context.Context) (Queue, error) {
	l := Queue{Name: k.name}
	if err := k.usable(ctx); err != nil {
		return l, k.client.failed("inspect", k.name, err)
	}
	seen, err := k.client.store.Queue(ctx, k.name)
	if err != nil {
		return l, k.client.failed("inspect", k.name, err)
	}
	for i := range seen.Entries {
		l.Entries = append(l.Entries, newPlace(&seen.Entries[i]))
	}
	return l, nil
}

// Names goes through the names beginning with prefix that somebody holds or waits for, in no particular order.
// The first error ends it.
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

// Break takes the lock away from whoever has this token, holding or waiting. It is for operators: a holder that
// lives goes on until it learns of it, at its next renewal or before. One that waits loses its place and queues
// again. If nobody has the token, the error is ErrNotHeld.
func (c *Client) Break(ctx context.Context, name string, token Token) error {
	k := c.lock(name, nil)
	err := k.usable(ctx)
	if err == nil {
		err = c.store.Break(ctx, name, token.Ticket())
	}
	return c.failed("break", name, err)
}
