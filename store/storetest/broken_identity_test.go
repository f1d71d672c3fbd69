package storetest_test

import (
	"context"

	"github.com/holdfast-go/holdfast/store"
)

var brokenIdentity = []mutant{
	{"leave deletes whatever is there", 6, "identity/leaving twice", []int{8}, eachStore(func(b *bug) {
		b.leaves = func(c *store.Claim) {
			if entries := b.entries(c.Name); len(entries) > 0 && b.find(*c) == nil {
				*c = entries[0].Claim
			}
		}
	})},
	{"keep extends whatever is there", 6, "identity/a stranger keeps", nil, eachStore(func(b *bug) {
		b.answers = func(c store.Claim, s *store.Status) {
			for _, p := range b.entries(c.Name) {
				if s.State == store.Gone {
					_, _ = b.eye.Keep(context.Background(), []store.Claim{p.Claim})
				}
			}
		}
	})},
	{"an ID means a claim in any queue", 6, "identity/leaving another queue", nil, eachStore(func(b *bug) {
		var lines notes[store.ID, string]
		b.answers = func(c store.Claim, s *store.Status) {
			if s.State != store.Gone {
				lines.set(c.ID, c.Name)
			}
		}
		b.leaves = func(c *store.Claim) {
			if name := lines.get(c.ID); name != "" {
				c.Name = name
			}
		}
	})},
	{"a downgrade is ignored", 6, "identity/a downgrade lets readers in", nil, eachStore(func(b *bug) {
		var units notes[store.ID, int32]
		b.sends = func(c *store.Claim) {
			units.set(c.ID, max(units.get(c.ID), c.Units))
			c.Units = units.get(c.ID)
		}
	})},
	{"keep grants any units", 6, "identity/keep does not grow", nil, eachStore(func(b *bug) {
		var units notes[store.ID, int32]
		b.answers = func(c store.Claim, _ *store.Status) {
			had := units.get(c.ID)
			units.set(c.ID, c.Units)
			if had == 0 || c.Units <= had {
				return
			}
			c.ID[15] ^= 0x80 // the growth is a second claim
			c.Units -= had
			_, _ = b.eye.Join(context.Background(), c)
		}
	})},
}
