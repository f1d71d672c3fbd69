package storetest_test

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var brokenTime = []mutant{
	{"no claim expires", 4, "time/a dead holder alone", []int{0, 2, 5, 6, 9}, func(h *broken) {
		h.bug = func(b *bug) { b.sends = func(c *store.Claim) { c.Grace = 1000 * c.TTL } }
	}},
	{"a ttl is too short", 4, "time/a dead holder and a waiter", []int{5}, eachStore(func(b *bug) {
		b.sends = func(c *store.Claim) { c.TTL -= c.TTL / 3 }
		b.answers = func(c store.Claim, s *store.Status) { s.Until = s.Until.Add(c.TTL / 3) }
	})},
	{"a dead waiter blocks the queue", 4, "time/a dead waiter is skipped", []int{0, 9}, eachStore(func(b *bug) {
		b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
			if len(b.entries(c.Name)) > 0 {
				c.Grace = 1000 * c.TTL
			}
			return b.Store.Join(ctx, c)
		}
	})},
	{"the dead are listed", 4, "time/a dead holder alone", nil, func(h *broken) {
		var stood notes[string, bool]
		h.bug = func(b *bug) {
			b.answers = func(c store.Claim, s *store.Status) { stood.set(c.Name, s.State != store.Gone) }
			b.leaves = func(c *store.Claim) { stood.set(c.Name, false) }
			b.names = func(ctx context.Context, prefix string) iter.Seq2[string, error] {
				return func(yield func(string, error) bool) {
					for name, err := range b.Store.Names(ctx, prefix) {
						stood.set(name, false)
						if !yield(name, err) {
							return
						}
					}
					for _, name := range stood.keys() {
						if b.prefix == "" && stood.get(name) && strings.HasPrefix(name, prefix) && !yield(name, nil) {
							return
						}
					}
				}
			}
		}
	}},
	{"a late keep joins again", 4, "time/a late keep", nil, eachStore(func(b *bug) {
		var ends notes[store.ID, time.Time]
		b.keep = func(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
			statuses, err := b.Store.Keep(ctx, cs)
			for i, s := range statuses {
				end := ends.get(cs[i].ID)
				if s.State == store.Gone && !end.IsZero() && end.Before(time.Now()) {
					statuses[i], _ = b.Store.Join(ctx, cs[i])
				}
			}
			return statuses, err
		}
		b.answers = func(c store.Claim, s *store.Status) { ends.set(c.ID, s.Until) }
	})},
	{"no claim outlives two ttls", 4, "time/kept for long", nil, func(h *broken) {
		h.bug = func(b *bug) {
			b.join = func(ctx context.Context, c store.Claim) (store.Status, error) {
				time.AfterFunc(2*(c.TTL+c.Grace), func() { _ = h.Erase(c.Name, c.ID) })
				return b.Store.Join(ctx, c)
			}
		}
	}},
	{"one keep keeps all", 4, "time/kept alone", nil, eachStore(func(b *bug) {
		var mine notes[store.ID, store.Claim]
		b.answers = func(c store.Claim, s *store.Status) {
			if s.State != store.Gone {
				mine.set(c.ID, c)
			}
		}
		b.keep = func(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
			var all []store.Claim
			for _, id := range mine.keys() {
				all = append(all, mine.get(id))
			}
			more := len(all)
			statuses, err := b.Store.Keep(ctx, append(all, cs...))
			return statuses[min(more, len(statuses)):], err
		}
	})},
	{"the last ttl is that of the queue", 4, "time/a short ttl beside a long one", nil, func(h *broken) {
		var ends notes[string, time.Time]
		h.bug = func(b *bug) {
			b.sends = func(c *store.Claim) {
				if end := ends.get(c.Name); !end.IsZero() && end.Before(time.Now()) {
					for _, p := range b.entries(c.Name) {
						_ = h.Erase(c.Name, p.ID)
					}
				}
			}
			b.answers = func(c store.Claim, s *store.Status) {
				if s.State != store.Gone {
					ends.set(c.Name, time.Now().Add(c.TTL+c.Grace))
				}
			}
		}
	}},
	{"no grace", 4, "time/grace", nil, eachStore(func(b *bug) { b.sends = func(c *store.Claim) { c.Grace = 0 } })},
}

var brokenUntil = []mutant{
	{"until is counted from the response", 5, "until/over before the next is granted", nil, eachStore(func(b *bug) {
		b.answers = func(c store.Claim, s *store.Status) { s.Until = time.Now().Add(c.TTL - time.Millisecond) }
	})},
	{"until has a ttl too much", 5, "until/Keep moves it", []int{4}, eachStore(func(b *bug) {
		b.answers = func(c store.Claim, s *store.Status) { s.Until = s.Until.Add(c.TTL) }
	})},
	{"until does not move", 5, "until/Keep moves it after a push", nil, eachStore(func(b *bug) {
		var first notes[store.ID, time.Time]
		b.answers = func(c store.Claim, s *store.Status) {
			if first.get(c.ID).IsZero() {
				first.set(c.ID, s.Until)
			}
			s.Until = first.get(c.ID)
		}
	})},
	{"until has one clock", 5, "until/two clocks", nil, eachStore(func(b *bug) {
		b.answers = func(_ store.Claim, s *store.Status) { s.Until = s.Until.Round(0) }
	})},
}
