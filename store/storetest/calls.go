package storetest

import (
	"context"

	"github.com/holdfast-go/holdfast/store"
)

// A call is one operation of a store on a claim, for cases that are about all of them.
type call struct {
	name  string
	named bool // it takes a name
	timed bool // it returns after the claim's ttl by itself
	do    func(context.Context, store.Store, store.Claim) error
}

// calls returns the operations that this store has.
func (t *trial) calls() []call {
	all := []call{
		{"Join", true, true, func(ctx context.Context, s store.Store, c store.Claim) error {
			_, err := s.Join(ctx, c)
			return err
		}},
		{"Keep", true, true, func(ctx context.Context, s store.Store, c store.Claim) error {
			statuses, err := s.Keep(ctx, []store.Claim{c})
			if err != nil || len(statuses) == 0 {
				return err
			}
			return statuses[0].Err
		}},
		{"Leave", true, true, func(ctx context.Context, s store.Store, c store.Claim) error {
			return s.Leave(ctx, c)
		}},
		{"Break", true, false, func(ctx context.Context, s store.Store, c store.Claim) error {
			return s.Break(ctx, c.Name, 1)
		}},
		{"Queue", true, false, func(ctx context.Context, s store.Store, c store.Claim) error {
			_, err := s.Queue(ctx, c.Name)
			return err
		}},
		{"Names", false, false, func(ctx context.Context, s store.Store, c store.Claim) error {
			for _, err := range s.Names(ctx, c.Name) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
	}
	if !t.able.Queue {
		return all[:3]
	}
	return all
}
