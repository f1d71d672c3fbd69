package holdfast

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"time"
)

// watchEvery is how often Watch reads the queues of a store that does not report changes.
const watchEvery = time.Second

// Watch reports the queues whose names begin with prefix, and how they change, until ctx ends. The first batch has every
// queue that is in use. Each later batch has the queues that changed since, as they are now; a queue with no entries is
// no longer in use. Changes that follow each other quickly are reported as one.
//
// A failure of the store is reported once, with no queues. Watch then goes on, and the next batch has all that changed
// meanwhile. Break out of the loop to stop at an error.
func (c *Client) Watch(ctx context.Context, prefix string) iter.Seq2[[]Queue, error] {
	return func(yield func([]Queue, error) bool) {
		seen := map[string]Queue{}
		for first, failing := true, false; ctx.Err() == nil; c.pause(ctx, watchEvery) {
			batch, err := c.changes(ctx, prefix, seen)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !failing && !yield(nil, err) || errors.Is(err, ErrClosed) {
					return
				}
				failing = true
			case first || failing || len(batch) > 0:
				if !yield(batch, nil) {
					return
				}
				first, failing = false, false
			}
		}
	}
}

// changes reads all queues with this prefix, and returns those that differ from seen, which it updates.
func (c *Client) changes(ctx context.Context, prefix string, seen map[string]Queue) ([]Queue, error) {
	now := map[string]Queue{}
	for name, err := range c.Names(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		q, err := c.Inspect(ctx, name)
		if err != nil {
			return nil, err
		}
		if len(q.Entries) > 0 {
			now[name] = q
		}
	}
	var batch []Queue
	for name, q := range now {
		if old, ok := seen[name]; !ok || !sameEntries(old, q) {
			batch = append(batch, q)
		}
		seen[name] = q
	}
	for name := range seen {
		if _, ok := now[name]; !ok {
			batch = append(batch, Queue{Name: name})
			delete(seen, name)
		}
	}
	return batch, nil
}

// sameEntries reports whether two reads of a queue have the same claims in the same states. How long they have left does
// not count.
func sameEntries(a, b Queue) bool {
	if len(a.Entries) != len(b.Entries) {
		return false
	}
	for i := range a.Entries {
		x, y := a.Entries[i], b.Entries[i]
		x.Left, y.Left = 0, 0
		if !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}
