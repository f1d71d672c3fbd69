package storetest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var brokenExclusion = []mutant{
	{"checks, and then takes", 1, "exclusion/mutexes", nil, eachStore(func(b *bug) {
		b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
			free := len(b.entries(c.Name)) == 0
			time.Sleep(time.Nanosecond) // another client that checks now finds the same
			status, err := b.Store.Join(ctx, c)
			if free && status.State == store.Waiting {
				status.State = store.Held
			}
			return status, err
		}
	})},
	{"every claim counts as one", 1, "exclusion/semaphores", []int{2, 6}, eachStore(func(b *bug) {
		b.sends = func(c *store.Claim) {
			if c.Kind == store.Semaphore {
				c.Units = 1
			}
		}
	})},
	{"another limit never holds", 1, "exclusion/a limit that changes", nil, eachStore(func(b *bug) {
		b.answers = func(c store.Claim, s *store.Status) {
			if all := b.entries(c.Name); s.State == store.Held && len(all) > 0 && all[0].Limit != c.Limit {
				s.State = store.Waiting
			}
		}
	})},
	{"the largest limit counts for all", 1, "exclusion/a limit that changes", nil, eachStore(func(b *bug) {
		b.sends = func(c *store.Claim) {
			for _, e := range b.entries(c.Name) {
				if c.AnyLimit {
					c.Limit = max(c.Limit, e.Limit)
				}
			}
		}
	})},
	{"a restart loses what it should keep", 1, "exclusion/restart", []int{3}, func(h *broken) {
		h.restart = func(bool) error { return h.Harness.Restart(false) }
	}},
}

// tickets makes the store return other tickets.
func tickets(b *bug, call func(id store.ID, ticket uint64) uint64) {
	b.answers = func(c store.Claim, s *store.Status) {
		if s.State != store.Gone {
			s.Ticket = call(c.ID, s.Ticket)
		}
	}
	b.pushes = func(id store.ID, s *store.Status) { s.Ticket = call(id, s.Ticket) }
	b.breaks = func(ctx context.Context, name string, ticket uint64) error {
		for _, p := range b.entries(name) {
			if call(p.ID, p.Ticket) == ticket {
				return b.Store.Break(ctx, name, p.Ticket)
			}
		}
		return b.Store.Break(ctx, name, store.MaxTicket) // no claim has it
	}
	b.shows = func(line *store.Queue) {
		for i, p := range line.Entries {
			line.Entries[i].Ticket = call(p.ID, p.Ticket)
		}
	}
}

var brokenOrder = []mutant{
	{"tickets fall", 2, "order/tickets rise", []int{3}, func(h *broken) {
		top := 2 * uint64(time.Now().UnixMicro())
		h.bug = func(b *bug) { tickets(b, func(_ store.ID, ticket uint64) uint64 { return top - ticket }) }
	}},
	{"the ticket is drawn before the claim is appended", 2, "order/joining at once", []int{3}, func(h *broken) {
		var drawn notes[store.ID, uint64]
		var last atomic.Uint64
		h.bug = func(b *bug) {
			b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
				if drawn.get(c.ID) == 0 {
					drawn.set(c.ID, last.Add(1))
				}
				time.Sleep(time.Duration(drawn.get(c.ID)%3) * time.Nanosecond)
				return b.Store.Join(ctx, c)
			}
			tickets(b, func(id store.ID, _ uint64) uint64 { return drawn.get(id) })
		}
	}},
	{"the next is sent to the back", 2, "order/first come first served", []int{7}, eachStore(func(b *bug) {
		b.leave = func(ctx context.Context, c store.Claim) error {
			entries := b.entries(c.Name)
			if len(entries) > 2 && entries[0].ID == c.ID && entries[1].State == store.Waiting &&
				entries[1].Demand == entries[2].Demand {
				next := entries[1].Claim
				_ = b.eye.Leave(ctx, next)
				_, _ = b.eye.Join(ctx, next)
			}
			return b.Store.Leave(ctx, c)
		}
	})},
	{"any claim that fits holds", 2, "order/a writer stops later readers", []int{0, 1, 6}, eachStore(func(b *bug) {
		b.answers = func(c store.Claim, s *store.Status) {
			free := c.Limit - c.Units
			for _, p := range b.entries(c.Name) {
				if p.State == store.Held {
					free -= p.Units
				}
			}
			if s.State == store.Waiting && free >= 0 {
				s.State = store.Held
			}
		}
	})},
	{"a release grants one", 2, "order/one release grants several", []int{0, 1, 6}, func(h *broken) {
		var waited notes[store.ID, bool]
		h.bug = func(b *bug) {
			b.answers = func(c store.Claim, s *store.Status) {
				if s.State == store.Waiting {
					waited.set(c.ID, true)
				}
				if s.State != store.Held || !waited.get(c.ID) {
					return
				}
				me := b.find(c)
				for _, p := range b.entries(c.Name) {
					if p.ID == c.ID {
						return
					}
					if waited.get(p.ID) && p.Since.Equal(me.Since) {
						s.State = store.Waiting
					}
				}
			}
		}
	}},
	{"a leaving waiter grants no others", 2, "order/a leaving waiter unblocks", nil, func(h *broken) {
		var unseen notes[store.ID, bool]
		h.bug = func(b *bug) {
			b.leave = func(ctx context.Context, c store.Claim) error {
				before := b.entries(c.Name)
				me := b.find(c)
				err := b.Store.Leave(ctx, c)
				for i, p := range b.entries(c.Name) {
					granted := p.State == store.Held && i < len(before) && before[i].State == store.Waiting
					unseen.set(p.ID, granted && me != nil && me.State == store.Waiting)
				}
				return err
			}
			b.answers = func(c store.Claim, s *store.Status) {
				if unseen.get(c.ID) && s.State == store.Held {
					s.State = store.Waiting
				}
			}
		}
	}},
}

var brokenFloor = []mutant{
	{"the floor is dropped", 3, "floor/above the floor", nil, eachStore(func(b *bug) {
		b.sends = func(c *store.Claim) {
			if !store.FloorTooHigh(c.Floor, time.Now()) {
				c.Floor = 0
			}
		}
	})},
	{"every floor is believed", 3, "floor/absurd floors", []int{8}, eachStore(func(b *bug) {
		b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
			seen := c.Floor
			if store.FloorTooHigh(seen, time.Now()) {
				c.Floor = 0
			}
			status, err := b.Store.Join(ctx, c)
			status.Ticket = max(status.Ticket, seen+1)
			return status, err
		}
	})},
	{"a floor is refused and yet believed", 3, "floor/absurd floors", nil, func(h *broken) {
		var mark atomic.Uint64
		h.bug = func(b *bug) {
			b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
				status, err := b.Store.Join(ctx, c)
				if errors.Is(err, store.ErrFloor) {
					mark.Store(c.Floor)
				}
				if err == nil {
					status.Ticket = max(status.Ticket, mark.Load())
				}
				return status, err
			}
		}
	}},
	{"tickets begin again", 3, "floor/restart without data", nil, func(h *broken) {
		var lost atomic.Uint64
		h.bug = func(b *bug) { tickets(b, func(_ store.ID, ticket uint64) uint64 { return ticket - lost.Load() }) }
		h.restart = func(keepData bool) error {
			lost.Store(uint64(time.Now().UnixMicro()))
			return h.Harness.Restart(keepData)
		}
	}},
}
