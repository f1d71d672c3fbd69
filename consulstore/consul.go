package consulstore

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// consul is Consul, as one client uses it. It implements sessionqueue.Server; session.go has what concerns sessions,
// and watch.go what concerns watches.
type consul struct {
	*agent
	queries  *agent // has connections for nothing but blocking queries
	renewals *agent // has one for nothing but renewals
	keys     keySpace
	frame    *frame.Frame
	identity string // of what is stored under the prefix

	// Of the mode: its session, and what is called when a watched key or queue has changed, which does not block.
	sessions *frame.Sessions[*session]
	changed  func(in *session, w sessionqueue.Watch, deleted bool)
}

// QueueKey implements sessionqueue.Server.
func (c *consul) QueueKey(name string) string { return c.keys.queue(name) }

// Make implements sessionqueue.Server: it demands the session's epoch, makes the key, and reads the queue, all in one
// step. The index of the transaction is the key's create index, and the claim's ticket.
func (c *consul) Make(
	ctx context.Context, in *session, claim *store.Claim, data string,
) (made sessionqueue.Made, unsure bool, err error) {
	key := c.keys.claim(claim.Name, claim.ID)
	entries, err := c.txn(ctx,
		checkIndexOp(in.key, in.epoch.Load()),
		lockOp(key, in.id, encodeValue(claim.Demand, data)),
		treeOp(c.keys.queue(claim.Name)),
	)
	if _, failed := errors.AsType[*failedOp](err); failed { // over, in another epoch, or the key is another session's
		return made, false, c.readEpoch(ctx, in)
	}
	if err != nil {
		return made, mayHaveBeenDone(err), err
	}
	if len(entries) < 3 { // the session's key, the claim's, and at least that again
		return made, true, c.noRead(key)
	}
	own, all := entries[1], entries[2:]
	made = sessionqueue.Made{Key: key, Ticket: own.CreateIndex, Version: own.ModifyIndex}
	if line, err := decodeQueue(all); err == nil {
		made.Queue = line
	} // otherwise it is read once more, and the key deleted
	return made, false, nil
}

// readEpoch reads the session's epoch. It returns ErrAgain, or ErrOver.
func (c *consul) readEpoch(ctx context.Context, in *session) error {
	known := in.epoch.Load()
	entries, err := c.txn(ctx, getOp(in.key))
	switch {
	case err != nil:
		return err
	case len(entries) == 0 || entries[0].Session != in.id:
		return sessionqueue.ErrOver
	case entries[0].ModifyIndex < known: // Consul was restored from a snapshot: what it knows of the session is too old
		return sessionqueue.ErrOver
	}
	in.raiseEpoch(entries[0].ModifyIndex)
	return sessionqueue.ErrAgain
}

// Queue implements sessionqueue.Server.
func (c *consul) Queue(ctx context.Context, _ *session, name string) ([]sessionqueue.Entry, error) {
	entries, err := c.txn(ctx, treeOp(c.keys.queue(name)))
	if err != nil {
		return nil, err
	}
	return decodeQueue(entries)
}

// CatchUp implements sessionqueue.Server: all reads are consistent.
func (c *consul) CatchUp(context.Context, *session) error { return nil }

// Read implements sessionqueue.Server.
func (c *consul) Read(ctx context.Context, _ *session, key string) (node sessionqueue.Node, err error) {
	entries, err := c.txn(ctx, getOp(key))
	if err == nil && len(entries) > 0 {
		_, node, _ = decodeClaim(&entries[0]) // what can't be read has no meaning here
	}
	return node, err
}

// maxUpdates is how many claims one transaction confirms. Consul takes 128 operations.
const maxUpdates = 100

// Confirm implements sessionqueue.Server. It does not extend the session.
func (c *consul) Confirm(
	ctx context.Context, in *session, updates []sessionqueue.Update,
) (alive time.Time, refused int, err error) {
	ops := []op{checkSessionOp(in.key, in.id)}
	for _, u := range updates {
		if u.Write {
			ops = append(ops, casOp(u.Key, u.Version, encodeValue(u.Demand, u.Data)))
		} else {
			ops = append(ops, checkIndexOp(u.Key, u.Version))
		}
	}
	entries, err := c.txn(ctx, ops...)
	if failed, ok := errors.AsType[*failedOp](err); ok {
		if failed.index == 0 {
			return alive, -1, errors.Join(sessionqueue.ErrOver, failed)
		}
		return alive, failed.index - 1, nil
	}
	if err == nil && len(entries) != len(ops) {
		err = c.noRead(in.key)
	}
	if err != nil {
		return alive, -1, err
	}
	for i := range updates {
		updates[i].Version = entries[i+1].ModifyIndex
	}
	return alive, -1, nil
}

// Marker implements sessionqueue.Server: a key says itself its claim's demand.
func (c *consul) Marker(sessionqueue.Update) string { return "" }

// Delete implements sessionqueue.Server.
func (c *consul) Delete(ctx context.Context, _ *session, key string) error {
	_, err := c.txn(ctx, deleteOp(key))
	return err
}

// Names implements sessionqueue.Server.
func (c *consul) Names(ctx context.Context, _ *session, prefix string) (names []string, err error) {
	var lines []string
	query := url.Values{"consistent": {""}, "keys": {""}, "separator": {"/"}}
	_, err = c.list(ctx, c.keys.queues, query, &lines)
	for _, line := range lines {
		if name, ok := c.keys.name(line); ok && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, err
}
