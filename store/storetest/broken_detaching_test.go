package storetest_test

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

func (b *bug) Detach(ctx context.Context, c store.Claim, as store.ID, d time.Duration) (store.Status, error) {
	if b.detach != nil {
		return b.detach(ctx, c, as, d)
	}
	return b.honestDetach(ctx, c, as, d)
}

func (b *bug) honestDetach(ctx context.Context, c store.Claim, as store.ID, d time.Duration) (store.Status, error) {
	status, err := b.Store.(store.Detacher).Detach(b.in(ctx, c.TTL), c, as, d)
	return status, b.fail(err)
}

func (b *bug) Attach(ctx context.Context, c store.Claim, from store.ID) (store.Status, error) {
	if b.attach != nil {
		return b.attach(ctx, c, from)
	}
	return b.honestAttach(ctx, c, from)
}

func (b *bug) honestAttach(ctx context.Context, c store.Claim, from store.ID) (store.Status, error) {
	status, err := b.Store.(store.Detacher).Attach(b.in(ctx, c.TTL), c, from) //nolint:forcetypeassert // as above
	return status, b.fail(err)
}

// detaches puts a bug into Detach.
func detaches(detach func(b *bug, ctx context.Context, c store.Claim, as store.ID, d time.Duration) (store.Status,
	error)) func(*broken) {
	return eachStore(func(b *bug) {
		b.detach = func(ctx context.Context, c store.Claim, as store.ID, d time.Duration) (store.Status, error) {
			return detach(b, ctx, c, as, d)
		}
	})
}

// attaches puts a bug into Attach.
func attaches(
	attach func(b *bug, ctx context.Context, c store.Claim, from store.ID) (store.Status, error),
) func(*broken) {
	return eachStore(func(b *bug) {
		b.attach = func(ctx context.Context, c store.Claim, from store.ID) (store.Status, error) {
			return attach(b, ctx, c, from)
		}
	})
}

// has reports whether a claim with this ID is in a queue.
func (b *bug) has(name string, id store.ID) bool {
	return slices.ContainsFunc(b.entries(name), func(e store.Entry) bool { return e.ID == id })
}

var brokenDetaching = []mutant{
	{"a detached claim lives for its ttl only", 0, "detaching/a detached claim outlives its client", nil, detaches(func(
		b *bug, ctx context.Context, c store.Claim, as store.ID, d time.Duration,
	) (store.Status, error) {
		status, err := b.honestDetach(ctx, c, as, min(d, c.TTL))
		status.Until = status.Until.Add(d - min(d, c.TTL))
		return status, err
	})},
	{"a detached claim never expires", 0, "detaching/nothing is left of a detached claim", nil, detaches(func(
		b *bug, ctx context.Context, c store.Claim, as store.ID, d time.Duration,
	) (store.Status, error) {
		status, err := b.honestDetach(ctx, c, as, d+time.Hour)
		status.Until = status.Until.Add(-time.Hour)
		return status, err
	})},
	{"Keep of the earlier ID", 0, "detaching/the earlier ID is gone", nil, eachStore(func(b *bug) {
		var renamed notes[store.ID, store.ID]
		b.detach = func(ctx context.Context, c store.Claim, as store.ID, d time.Duration) (store.Status, error) {
			renamed.set(c.ID, as)
			return b.honestDetach(ctx, c, as, d)
		}
		b.sends = func(c *store.Claim) { // the earlier ID still means the claim
			if as := renamed.get(c.ID); as != (store.ID{}) && b.has(c.Name, as) {
				c.ID = as
			}
		}
	})},
	{"Attach joins anew", 0, "detaching/attach", nil, attaches(func(
		b *bug, ctx context.Context, c store.Claim, from store.ID,
	) (store.Status, error) {
		if !b.has(c.Name, from) {
			return b.honestAttach(ctx, c, from)
		}
		old := c
		old.ID = from
		if err := b.Store.Leave(ctx, old); err != nil {
			return store.Status{}, err
		}
		return b.Store.Join(ctx, c) // with another ticket, and behind claims that wait
	})},
	{"Attach keeps the time of the Detach", 0, "detaching/attach", nil, func(h *broken) {
		var times notes[store.ID, time.Duration]
		eachStore(func(b *bug) {
			b.detach = func(ctx context.Context, c store.Claim, as store.ID, d time.Duration) (store.Status, error) {
				times.set(as, d)
				return b.honestDetach(ctx, c, as, d)
			}
			b.attach = func(ctx context.Context, c store.Claim, from store.ID) (store.Status, error) {
				if d := times.get(from); d > 0 {
					c.TTL = d
				}
				return b.honestAttach(ctx, c, from)
			}
		})(h)
	}},
	{"a detached claim's time counts from the response", 0, "detaching/late responses", nil, detaches(func(
		b *bug, ctx context.Context, c store.Claim, as store.ID, d time.Duration,
	) (store.Status, error) {
		sent := time.Now()
		status, err := b.honestDetach(ctx, c, as, d)
		status.Until = status.Until.Add(time.Since(sent))
		return status, err
	})},
	{"an attached claim's time counts from the response", 0, "detaching/late responses", nil, attaches(func(
		b *bug, ctx context.Context, c store.Claim, from store.ID,
	) (store.Status, error) {
		sent := time.Now()
		status, err := b.honestAttach(ctx, c, from)
		status.Until = status.Until.Add(time.Since(sent))
		return status, err
	})},
	{"Attach by several", 0, "detaching/attached once", nil, func(h *broken) {
		var attached notes[store.ID, store.Claim]
		eachStore(func(b *bug) {
			b.attach = func(ctx context.Context, c store.Claim, from store.ID) (store.Status, error) {
				status, err := b.honestAttach(ctx, c, from)
				if err != nil || status.State == store.Held {
					attached.set(from, c)
					return status, err
				}
				if first := attached.get(from); first.Name != "" && b.has(c.Name, first.ID) {
					return store.Status{State: store.Held, Ticket: c.Ticket, Until: time.Now().Add(c.TTL)}, nil
				}
				return status, nil
			}
		})(h)
	}},
	{"Attach of what is gone", 0, "detaching/attached too late", nil, attaches(func(
		b *bug, ctx context.Context, c store.Claim, from store.ID,
	) (store.Status, error) {
		if len(b.entries(c.Name)) == 0 {
			return b.Store.Join(ctx, c) // it is free, after all
		}
		return b.honestAttach(ctx, c, from)
	})},
	{"a repetition is gone", 0, "detaching/repeated calls", nil, attaches(func(
		b *bug, ctx context.Context, c store.Claim, from store.ID,
	) (store.Status, error) {
		if !b.has(c.Name, from) {
			return store.Status{State: store.Gone}, nil
		}
		return b.honestAttach(ctx, c, from)
	})},
	{"Detach shortens", 0, "detaching/a detached claim is extended", nil, detaches(func(
		b *bug, ctx context.Context, c store.Claim, as store.ID, d time.Duration,
	) (store.Status, error) {
		if as == c.ID { // a claim that is renamed twice gets the time of the last call
			as[0] ^= 1
			if status, err := b.honestDetach(ctx, c, as, d); err != nil || status.State != store.Held {
				return status, err
			}
			c.ID, as = as, c.ID
		}
		return b.honestDetach(ctx, c, as, d)
	})},
	{"tombstones stop Joins only", 0, "detaching/late requests", nil, eachStore(func(b *bug) {
		b.attach = func(ctx context.Context, c store.Claim, from store.ID) (store.Status, error) {
			status, err := b.honestAttach(ctx, c, from)
			if err == nil && status.State == store.Gone && b.has(c.Name, from) {
				c.ID[0] ^= 1 // an ID without a tombstone
				return b.honestAttach(ctx, c, from)
			}
			return status, err
		}
	})},
	{"a detached claim is not in the queue", 0, "detaching/a waiter follows", nil, detaches(func(
		b *bug, ctx context.Context, c store.Claim, as store.ID, d time.Duration,
	) (store.Status, error) {
		status, err := b.honestDetach(ctx, c, as, d)
		old := c
		old.ID = as
		if err == nil && c.ID != as && len(b.entries(c.Name)) > 1 {
			err = b.Store.Leave(ctx, old)
		}
		return status, err
	})},
	{"a detached claim has one unit", 0, "detaching/units stay", nil, detaches(func(
		b *bug, ctx context.Context, c store.Claim, as store.ID, d time.Duration,
	) (store.Status, error) {
		if c.Kind == store.Semaphore {
			c.Units = 1
			if _, err := b.Store.Keep(ctx, []store.Claim{c}); err != nil {
				return store.Status{}, err
			}
		}
		return b.honestDetach(ctx, c, as, d)
	})},
}
