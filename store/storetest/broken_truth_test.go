package storetest_test

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var brokenTruth = []mutant{
	{"a living client keeps what it has", 7, "truth/erased while held", nil, every(func(b *bug) {
		var last notes[store.ID, store.Standing]
		b.answers = func(c store.Claim, s *store.Standing) {
			if old := last.get(c.ID); s.State == store.Gone && old.Until.After(time.Now()) {
				*s = old
			}
			last.set(c.ID, *s)
		}
		b.leave = func(ctx context.Context, c store.Claim) error {
			last.set(c.ID, store.Standing{})
			return b.Store.Leave(ctx, c)
		}
		b.pushes = func(id store.ID, s *store.Standing) { last.set(id, *s) }
	})},
	{"only a push grants", 7, "truth/a lost push", nil, every(func(b *bug) {
		var waits notes[store.ID, bool]
		b.answers = func(c store.Claim, s *store.Standing) {
			if s.State == store.Waiting {
				waits.set(c.ID, true)
			}
			if s.State == store.Held && waits.get(c.ID) {
				s.State = store.Waiting
			}
		}
		b.pushes = func(id store.ID, s *store.Standing) { waits.set(id, false) }
	})},
	{"a reconnect goes unsaid", 7, "truth/told after a cut", nil, every(func(b *bug) {
		b.notify = func(fn func(store.ID, store.Standing)) {
			b.Store.Notify(func(id store.ID, s store.Standing) {
				if id != store.Everyone {
					fn(id, s)
				}
			})
		}
	})},
	{"a push is believed whenever it comes", 7, "truth/a late push", nil, every(func(b *bug) {
		var pushed notes[store.ID, store.Standing]
		b.answers = func(c store.Claim, s *store.Standing) {
			if p := pushed.get(c.ID); p.State == store.Held {
				s.State, s.Ticket = p.State, p.Ticket
			}
		}
		b.leave = func(ctx context.Context, c store.Claim) error {
			pushed.set(c.ID, store.Standing{})
			return b.Store.Leave(ctx, c)
		}
		b.pushes = func(id store.ID, s *store.Standing) { pushed.set(id, *s) }
	})},
	{"a grant is pushed without its ticket", 7, "truth/a push has the ticket", nil, every(func(b *bug) {
		b.pushes = func(_ store.ID, s *store.Standing) { s.Ticket = 0 }
	})},
	{"gone is said once", 7, "truth/gone is final", nil, every(func(b *bug) {
		var stood, said notes[store.ID, bool]
		b.answers = func(c store.Claim, s *store.Standing) {
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
	{"joining again takes another place", 7, "truth/joining again while waiting", nil, every(func(b *bug) {
		var joined notes[store.ID, bool]
		b.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
			if joined.get(c.ID) {
				c.ID[15] ^= 0x80
			}
			joined.set(c.ID, true)
			return b.Store.Join(ctx, c)
		}
	})},
}

var brokenUnknown = []mutant{
	{"no tombstone", 8, "unknown outcomes/a Join lands after its Leave", nil, every(func(b *bug) {
		b.leave = func(ctx context.Context, c store.Claim) error {
			c.Ticket = max(c.Ticket, 1)
			return b.Store.Leave(ctx, c)
		}
	})},
	{"a tombstone fades too early", 8, "unknown outcomes/a Join lands after its Leave", nil, every(func(b *bug) {
		b.leave = func(ctx context.Context, c store.Claim) error {
			if b.find(c) == nil {
				c.TTL /= 3
			}
			return b.Store.Leave(ctx, c)
		}
	})},
	{"what was not acknowledged cannot be left", 8, "unknown outcomes/the answer to Join is lost", nil, every(func(b *bug) {
		b.leave = func(ctx context.Context, c store.Claim) error {
			if c.Ticket == 0 && b.find(c) != nil {
				c.ID[15] ^= 0x80 // nobody
			}
			return b.Store.Leave(ctx, c)
		}
	})},
	{"leaving twice is an error", 8, "unknown outcomes/the answer to Leave is lost", []int{6, 9}, every(func(b *bug) {
		b.leave = func(ctx context.Context, c store.Claim) error {
			stood := b.find(c) != nil
			err := b.Store.Leave(ctx, c)
			if err == nil && !stood && c.Ticket != 0 {
				return store.ErrNotHeld
			}
			return err
		}
	})},
	{"a Join is sent though its context is over", 8, "unknown outcomes/a context that was over before", nil, every(func(b *bug) {
		b.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
			if ctx.Err() != nil {
				ctx = context.WithoutCancel(ctx)
			}
			return b.Store.Join(ctx, c)
		}
	})},
	{"who gives up stays in line", 8, "unknown outcomes/a wait is given up", []int{2}, every(func(b *bug) {
		b.leave = func(ctx context.Context, c store.Claim) error {
			if p := b.find(c); p != nil && p.State == store.Waiting {
				c.ID[15] ^= 0x80 // nobody
			}
			return b.Store.Leave(ctx, c)
		}
	})},
	{"a refused Join is in line", 8, "unknown outcomes/a final error joins nothing", []int{3}, every(func(b *bug) {
		b.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
			standing, err := b.Store.Join(ctx, c)
			if errors.Is(err, store.ErrFloor) {
				c.Floor = 0
				_, _ = b.Store.Join(ctx, c)
			}
			return standing, err
		}
	})},
}

var brokenLeaks = []mutant{
	{"a counter for every name", 9, "nothing leaks/left", nil, func(h *broken) {
		var used notes[string, int]
		h.bug = func(b *bug) {
			b.answers = func(c store.Claim, s *store.Standing) {
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
	{"a tombstone for ever", 9, "nothing leaks/a tombstone", nil, every(func(b *bug) {
		b.leave = func(ctx context.Context, c store.Claim) error {
			if stone := c; c.Ticket == 0 {
				stone.TTL *= 1000
				_ = b.eye.Leave(ctx, stone)
			}
			return b.Store.Leave(ctx, c)
		}
	})},
}
