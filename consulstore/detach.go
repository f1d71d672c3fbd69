package consulstore

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

var _ sessionqueue.Mover[*session] = (*consul)(nil)

// Nodes implements sessionqueue.Mover.
func (c *consul) Nodes(
	ctx context.Context, in *session, name string,
) (claims []sessionqueue.Entry, nodes []sessionqueue.Node, unread error) {
	entries, err := c.txn(ctx, treeOp(c.keys.queue(name)))
	if err != nil {
		return nil, nil, err
	}
	return decodeNodes(entries, in.id)
}

// Epoch implements sessionqueue.Mover.
func (c *consul) Epoch(in *session) uint64 { return in.epoch.Load() }

// Grant implements sessionqueue.Mover. A lease is a session like that of a client, and is not renewed. A client may
// request a little more than MaxTTL, for a clock of Consul that runs faster than its own: Consul does not accept that,
// and keeps a session for twice its ttl.
func (c *consul) Grant(ctx context.Context, ttl time.Duration) (lease string, err error) {
	return c.create(ctx, "holdfast detached by "+c.description, min(ttl, MaxTTL))
}

// Move implements sessionqueue.Mover. A key is unlocked by one session and locked by another in one transaction, so
// that no client sees it unlocked. It keeps its create index.
func (c *consul) Move(ctx context.Context, in *session, m sessionqueue.Move) (version uint64, unsure bool, err error) {
	entries, err := c.txn(ctx,
		checkIndexOp(in.key, m.Epoch),
		checkIndexOp(m.Key, m.Version),
		unlockOp(m.Key, cmp.Or(m.From, in.id)),
		lockOp(m.Key, cmp.Or(m.To, in.id), encodeValue(m.Demand, m.Data)),
	)
	if _, failed := errors.AsType[*failedOp](err); failed {
		return 0, false, c.readEpoch(ctx, in)
	}
	if err == nil && len(entries) == 0 {
		err = c.noRead(m.Key)
	}
	if err != nil {
		return 0, mayHaveBeenDone(err), err
	}
	return entries[len(entries)-1].ModifyIndex, false, nil
}

// DeleteLeased implements sessionqueue.Mover.
func (c *consul) DeleteLeased(ctx context.Context, key, lease string) (deleted bool, err error) {
	_, err = c.txn(ctx, checkSessionOp(key, lease), deleteOp(key))
	if _, failed := errors.AsType[*failedOp](err); failed {
		return false, nil
	}
	return err == nil, err
}

// EndLease implements sessionqueue.Mover. A key that a session does not have any more is never locked by it again.
func (c *consul) EndLease(ctx context.Context, key, lease string) {
	entries, err := c.txn(ctx, getOp(key))
	if err == nil && (len(entries) == 0 || entries[0].Session != lease) {
		c.destroy(ctx, lease)
	}
}
