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
	{"a refused try stays in line", 0, "methods/try", []int{10}, every(func(b *bug) {
		b.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
			try := c.Try
			c.Try = false
			standing, err := b.Store.Join(ctx, c)
			if try && standing.State == store.Waiting {
				standing.State = store.Gone
			}
			return standing, err
		}
	})},
	{"a try takes everything", 0, "methods/try among readers", nil, every(func(b *bug) {
		b.sends = func(c *store.Claim) {
			if c.Try {
				c.Units = c.Limit
			}
		}
	})},
	{"a mismatch holds", 0, "methods/mismatch", nil, every(func(b *bug) {
		b.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
			standing, err := b.Store.Join(ctx, c)
			if errors.Is(err, store.ErrMismatch) {
				return store.Standing{State: store.Held, Ticket: 1}, nil
			}
			return standing, err
		}
	})},
	{"a mismatch with no reason", 0, "methods/mismatch", nil, every(func(b *bug) {
		b.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
			standing, err := b.Store.Join(ctx, c)
			if errors.Is(err, store.ErrMismatch) {
				err = store.ErrMismatch
			}
			return standing, err
		}
	})},
	{"a mismatch with what was asked for", 0, "methods/mismatch", nil, every(func(b *bug) {
		b.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
			standing, err := b.Store.Join(ctx, c)
			if errors.Is(err, store.ErrMismatch) {
				err = &store.MismatchError{InUse: c.Ask}
			}
			return standing, err
		}
	})},
	{"break finds everybody", 0, "methods/break nobody", []int{4}, every(func(b *bug) {
		b.breaks = func(ctx context.Context, name string, ticket uint64) error {
			if err := b.Store.Break(ctx, name, ticket); !errors.Is(err, store.ErrNotHeld) {
				return err
			}
			return nil
		}
	})},
	{"break only promises", 0, "methods/break a holder", []int{9}, every(func(b *bug) {
		b.breaks = func(ctx context.Context, name string, ticket uint64) error {
			err := b.Store.Break(ctx, name, store.MaxTicket) // nobody
			for _, p := range b.places(name) {
				if p.Ticket == ticket && errors.Is(err, store.ErrNotHeld) {
					return nil
				}
			}
			return err
		}
	})},
	{"a line from its end", 0, "methods/line", nil, every(func(b *bug) {
		b.line = func(ctx context.Context, name string) (store.Line, error) {
			line, err := b.Store.Line(ctx, name)
			slices.Reverse(line.Places)
			return line, err
		}
	})},
	{"a line that knows no time", 0, "methods/line tells the time", nil, every(func(b *bug) {
		b.line = func(ctx context.Context, name string) (store.Line, error) {
			line, err := b.Store.Line(ctx, name)
			for i, p := range line.Places {
				line.Places[i].Since, line.Places[i].Left = time.Now(), p.TTL
			}
			return line, err
		}
	})},
	{"a grant is as old as its claim", 0, "methods/line tells the time", nil, every(func(b *bug) {
		var came notes[store.ID, time.Time]
		b.line = func(ctx context.Context, name string) (store.Line, error) {
			line, err := b.Store.Line(ctx, name)
			for i, p := range line.Places {
				if came.get(p.ID).IsZero() {
					came.set(p.ID, p.Since)
				}
				line.Places[i].Since = came.get(p.ID)
			}
			return line, err
		}
	})},
	{"looking makes a name", 0, "methods/an empty line", []int{10}, func(h *broken) {
		var looked notes[string, bool]
		h.bug = func(b *bug) {
			b.line = func(ctx context.Context, name string) (store.Line, error) {
				looked.set(name, true)
				return b.Store.Line(ctx, name)
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
	{"keep carries nothing", 0, "methods/keep carries news", nil, every(func(b *bug) {
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
	{"a batch is answered in any order", 0, "methods/keep in batches", []int{12}, every(func(b *bug) {
		b.keep = func(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
			standings, err := b.Store.Keep(ctx, cs)
			slices.Reverse(standings)
			return standings, err
		}
	})},
	{"a batch has a limit", 0, "methods/keep a large batch", nil, every(func(b *bug) {
		b.keep = func(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
			standings, err := b.Store.Keep(ctx, cs[:min(len(cs), 16)])
			for err == nil && len(standings) < len(cs) {
				standings = append(standings, store.Standing{})
			}
			return standings, err
		}
	})},
	{"a failed batch is sent again", 0, "methods/a batch is the caller's", nil, every(func(b *bug) {
		var mu sync.Mutex
		var failed [][]store.Claim
		b.keep = func(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, again := range failed {
				_, _ = b.Store.Keep(ctx, again)
			}
			failed = nil
			standings, err := b.Store.Keep(ctx, cs)
			if err != nil {
				failed = append(failed, cs)
			}
			return standings, err
		}
	})},
	{"every client sees another identity", 0, "methods/abilities", nil, func(h *broken) {
		var clients atomic.Int32
		h.bug = func(b *bug) {
			me := clients.Add(1)
			b.abilities = func(able *store.Abilities) { able.Identity += string('a' + me) }
		}
	}},
	{"tenants have one identity", 0, "methods/abilities", nil, every(func(b *bug) {
		b.abilities = func(able *store.Abilities) { able.Identity = "the server's" }
	})},
	{"nobody is told", 0, "methods/a release wakes the next", []int{4, 7}, every(func(b *bug) {
		b.notify = func(func(store.ID, store.Standing)) {}
	})},
	{"everybody is told", 0, "methods/a release wakes nobody else", nil, func(h *broken) {
		var mu sync.Mutex
		var all []func(store.ID, store.Standing)
		h.bug = func(b *bug) {
			b.notify = func(fn func(store.ID, store.Standing)) {
				mu.Lock()
				all = append(all, fn)
				mu.Unlock()
				b.Store.Notify(func(id store.ID, s store.Standing) {
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
