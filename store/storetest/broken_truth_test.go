package storetest_test

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var brokenTruth = []mutant{
	{"a live client keeps what it has", 7, "truth/erased while held", nil, eachStore(func(b *bug) {
		var last notes[store.ID, store.Status]
		b.answers = func(c store.Claim, s *store.Status) {
			if old := last.get(c.ID); s.State == store.Gone && old.Until.After(time.Now()) {
				*s = old
			}
			last.set(c.ID, *s)
		}
		b.leaves = func(c *store.Claim) { last.set(c.ID, store.Status{}) }
		b.pushes = func(id store.ID, s *store.Status) { last.set(id, *s) }
	})},
	{"only a push grants", 7, "truth/a lost push", nil, eachStore(func(b *bug) {
		var waits notes[store.ID, bool]
		b.answers = func(c store.Claim, s *store.Status) {
			if s.State == store.Waiting {
				waits.set(c.ID, true)
			}
			if s.State == store.Held && waits.get(c.ID) {
				s.State = store.Waiting
			}
		}
		b.pushes = func(id store.ID, s *store.Status) { waits.set(id, false) }
	})},
	{"a reconnect is not reported", 7, "truth/notified after a cut", nil, eachStore(func(b *bug) {
		b.notify = func(fn func(store.ID, store.Status)) {
			b.Store.Notify(func(id store.ID, s store.Status) {
				if id != store.Everyone {
					fn(id, s)
				}
			})
		}
	})},
	{"a push is believed whenever it comes", 7, "truth/a late push", nil, eachStore(func(b *bug) {
		var pushed notes[store.ID, store.Status]
		b.answers = func(c store.Claim, s *store.Status) {
			if p := pushed.get(c.ID); p.State == store.Held {
				s.State, s.Ticket = p.State, p.Ticket
			}
		}
		b.leaves = func(c *store.Claim) { pushed.set(c.ID, store.Status{}) }
		b.pushes = func(id store.ID, s *store.Status) { pushed.set(id, *s) }
	})},
	{"a grant is pushed without its ticket", 7, "truth/a push has the ticket", nil, eachStore(func(b *bug) {
		b.pushes = func(id store.ID, s *store.Status) { s.Ticket = 0 }
	})},
	{"gone is reported once", 7, "truth/gone is final", nil, eachStore(func(b *bug) {
		var stood, said notes[store.ID, bool]
		b.answers = func(c store.Claim, s *store.Status) {
			switch {
			case s.State != store.Gone:
				stood.set(c.ID, true)
			case said.get(c.ID):
				s.State = store.Waiting
			case stood.get(c.ID):
				said.set(c.ID, true)
			}
		}
	})},
	{"joining again adds another entry", 7, "truth/joining again while waiting", nil, eachStore(func(b *bug) {
		var joined notes[store.ID, bool]
		b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
			if joined.get(c.ID) {
				c.ID[15] ^= 0x80
			}
			joined.set(c.ID, true)
			return b.Store.Join(ctx, c)
		}
	})},
}

var brokenUnknown = []mutant{
	{"no tombstone", 8, "unknown outcomes/a Join lands after its Leave", nil, eachStore(func(b *bug) {
		b.leaves = func(c *store.Claim) { c.Ticket = max(c.Ticket, 1) }
	})},
	{"a tombstone fades too early", 8, "unknown outcomes/a Join lands after its Leave", nil, eachStore(func(b *bug) {
		b.leaves = func(c *store.Claim) {
			if b.find(*c) == nil {
				c.TTL /= 3
			}
		}
	})},
	{
		"what was not acknowledged cannot be left",
		8,
		"unknown outcomes/the response to Join is lost",
		nil,
		eachStore(func(b *bug) {
			b.leaves = func(c *store.Claim) {
				if c.Ticket == 0 && b.find(*c) != nil {
					c.ID[15] ^= 0x80 // no claim has it
				}
			}
		}),
	},
	{
		"leaving twice is an error",
		8,
		"unknown outcomes/the response to Leave is lost",
		[]int{6, 9},
		eachStore(func(b *bug) {
			b.leave = func(ctx context.Context, c store.Claim) error {
				stood := b.find(c) != nil
				err := b.Store.Leave(ctx, c)
				if err == nil && !stood && c.Ticket != 0 {
					return store.ErrNotHeld
				}
				return err
			}
		}),
	},
	{
		"a Join is sent though its context is done",
		8,
		"unknown outcomes/a context that was done before",
		nil,
		eachStore(func(b *bug) {
			b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
				if ctx.Err() != nil {
					ctx = context.WithoutCancel(ctx)
				}
				return b.Store.Join(ctx, c)
			}
		}),
	},
	{
		"an abandoned wait stays in the queue",
		8,
		"unknown outcomes/a wait is abandoned",
		[]int{2},
		eachStore(func(b *bug) {
			b.leaves = func(c *store.Claim) {
				if p := b.find(*c); p != nil && p.State == store.Waiting {
					c.ID[15] ^= 0x80 // no claim has it
				}
			}
		}),
	},
	{
		"a refused Join is in the queue",
		8,
		"unknown outcomes/a final error joins nothing",
		[]int{3},
		eachStore(func(b *bug) {
			b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
				status, err := b.Store.Join(ctx, c)
				if errors.Is(err, store.ErrFloor) {
					c.Floor = 0
					_, _ = b.Store.Join(ctx, c)
				}
				return status, err
			}
		}),
	},
}

var brokenLeaks = []mutant{
	{"a counter for every name", 9, "nothing leaks/left", nil, func(h *broken) {
		var used notes[string, int]
		h.bug = func(b *bug) {
			b.answers = func(c store.Claim, s *store.Status) {
				if s.State != store.Gone {
					used.set(c.Name, 1)
				}
			}
		}
		h.residue = func(name string) (int, error) {
			n, err := h.Harness.Residue(name)
			return n + used.get(name), err
		}
	}},
	{"a tombstone for ever", 9, "nothing leaks/a tombstone", nil, eachStore(func(b *bug) {
		b.leave = func(ctx context.Context, c store.Claim) error {
			if stone := c; c.Ticket == 0 {
				stone.TTL *= 1000
				_ = b.eye.Leave(ctx, stone)
			}
			return b.Store.Leave(ctx, c)
		}
	})},
}
