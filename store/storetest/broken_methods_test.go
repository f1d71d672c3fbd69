package storetest_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var brokenMethods = []mutant{
	{"a refused try stays in the queue", 0, "methods/try", []int{10}, eachStore(func(b *bug) {
		b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
			try := c.Try
			c.Try = false
			status, err := b.Store.Join(ctx, c)
			if try && status.State == store.Waiting {
				status.State = store.Gone
			}
			return status, err
		}
	})},
	{"a try takes everything", 0, "methods/try among readers", nil, eachStore(func(b *bug) {
		b.sends = func(c *store.Claim) {
			if c.Try {
				c.Units = c.Limit
			}
		}
	})},
	{"a mismatch holds", 0, "methods/mismatch", nil, eachStore(func(b *bug) {
		b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
			status, err := b.Store.Join(ctx, c)
			if errors.Is(err, store.ErrMismatch) {
				return store.Status{State: store.Held, Ticket: 1}, nil
			}
			return status, err
		}
	})},
	{"a mismatch with no reason", 0, "methods/mismatch", nil, eachStore(func(b *bug) {
		b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
			status, err := b.Store.Join(ctx, c)
			if errors.Is(err, store.ErrMismatch) {
				err = store.ErrMismatch
			}
			return status, err
		}
	})},
	{"a mismatch with what was requested", 0, "methods/mismatch", nil, eachStore(func(b *bug) {
		b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
			status, err := b.Store.Join(ctx, c)
			if errors.Is(err, store.ErrMismatch) {
				err = &store.MismatchError{InUse: c.Demand}
			}
			return status, err
		}
	})},
	{"break finds any ticket", 0, "methods/break an unknown ticket", []int{4}, eachStore(func(b *bug) {
		b.breaks = func(ctx context.Context, name string, ticket uint64) error {
			if err := b.Store.Break(ctx, name, ticket); !errors.Is(err, store.ErrNotHeld) {
				return err
			}
			return nil
		}
	})},
	{"break does nothing", 0, "methods/break a holder", []int{9}, eachStore(func(b *bug) {
		b.breaks = func(ctx context.Context, name string, ticket uint64) error {
			err := b.Store.Break(ctx, name, store.MaxTicket) // no claim has it
			for _, p := range b.entries(name) {
				if p.Ticket == ticket && errors.Is(err, store.ErrNotHeld) {
					return nil
				}
			}
			return err
		}
	})},
	{"a queue from its end", 0, "methods/queue", nil, eachStore(func(b *bug) {
		b.shows = func(line *store.Queue) { slices.Reverse(line.Entries) }
	})},
	{"a queue without times", 0, "methods/queue shows times", nil, eachStore(func(b *bug) {
		b.shows = func(line *store.Queue) {
			for i, p := range line.Entries {
				line.Entries[i].Since, line.Entries[i].Left = time.Now(), p.TTL
			}
		}
	})},
	{"a grant is as old as its claim", 0, "methods/queue shows times", nil, eachStore(func(b *bug) {
		var came notes[store.ID, time.Time]
		b.shows = func(line *store.Queue) {
			for i, p := range line.Entries {
				if came.get(p.ID).IsZero() {
					came.set(p.ID, p.Since)
				}
				line.Entries[i].Since = came.get(p.ID)
			}
		}
	})},
	{"reading makes a name", 0, "methods/an empty queue", []int{10}, func(h *broken) {
		var looked notes[string, bool]
		h.bug = func(b *bug) {
			b.line = func(ctx context.Context, name string) (store.Queue, error) {
				looked.set(name, true)
				return b.Store.Queue(ctx, name)
			}
			b.names = func(ctx context.Context, prefix string) iter.Seq2[string, error] {
				return func(yield func(string, error) bool) {
					for name, err := range b.Store.Names(ctx, prefix) {
						if !yield(name, err) {
							return
						}
					}
					for _, name := range looked.keys() {
						if !yield(name, nil) {
							return
						}
					}
				}
			}
		}
	}},
	{"keep carries nothing", 0, "methods/keep carries news", nil, eachStore(func(b *bug) {
		var joined notes[store.ID, store.Claim]
		b.sends = func(c *store.Claim) {
			first := joined.get(c.ID)
			if first.Owner == nil {
				joined.set(c.ID, *c)
				return
			}
			c.Owner, c.Turn, c.Waits = first.Owner, first.Turn, first.Waits
		}
	})},
	{"the statuses of a batch are in any order", 0, "methods/keep in batches", []int{12}, eachStore(func(b *bug) {
		b.keep = func(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
			statuses, err := b.Store.Keep(ctx, cs)
			slices.Reverse(statuses)
			return statuses, err
		}
	})},
	{"a batch has a limit", 0, "methods/keep a large batch", nil, eachStore(func(b *bug) {
		b.keep = func(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
			statuses, err := b.Store.Keep(ctx, cs[:min(len(cs), 16)])
			for err == nil && len(statuses) < len(cs) {
				statuses = append(statuses, store.Status{})
			}
			return statuses, err
		}
	})},
	{"a failed batch is sent again", 0, "methods/a batch is the caller's", nil, eachStore(func(b *bug) {
		var mu sync.Mutex
		var failed [][]store.Claim
		b.keep = func(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, again := range failed {
				_, _ = b.Store.Keep(ctx, again)
			}
			failed = nil
			statuses, err := b.Store.Keep(ctx, cs)
			if err != nil {
				failed = append(failed, cs)
			}
			return statuses, err
		}
	})},
	{"every client sees another identity", 0, "methods/abilities", nil, func(h *broken) {
		var clients atomic.Int32
		h.bug = func(b *bug) {
			me := clients.Add(1)
			b.abilities = func(able *store.Abilities) { able.Identity += string('a' + me) }
		}
	}},
	{"tenants have one identity", 0, "methods/abilities", nil, func(h *broken) {
		h.bug = func(b *bug) { b.abilities = func(able *store.Abilities) { able.Identity = "the server's" } }
	}},
	{"no push is sent", 0, "methods/a release wakes the next", []int{4, 7}, func(h *broken) {
		h.bug = func(b *bug) { b.notify = func(func(store.ID, store.Status)) {} }
	}},
	{"every waiter gets a push", 0, "methods/a release wakes no others", nil, func(h *broken) {
		var mu sync.Mutex
		var all []func(store.ID, store.Status)
		h.bug = func(b *bug) {
			b.notify = func(fn func(store.ID, store.Status)) {
				mu.Lock()
				all = append(all, fn)
				mu.Unlock()
				b.Store.Notify(func(id store.ID, s store.Status) {
					mu.Lock()
					herd := slices.Clone(all)
					mu.Unlock()
					for _, fn := range herd {
						fn(store.Everyone, s)
					}
				})
			}
		}
	}},
}
