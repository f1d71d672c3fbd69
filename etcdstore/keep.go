package etcdstore

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// Keep implements store.Store. It reads each claim from etcd, and does not rely on the watches: a watch may lag behind
// while the session is renewed, and must not extend a claim that was broken. It writes only claims that have changed.
func (s *Store) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	return s.sessions.Keep(ctx, cs, frame.Keeping{Renew: true, Confirm: s.keep, Report: s.report})
}

// report sets the status of a claim. The mutex is locked.
func (s *Store) report(kept *store.Claim, status *store.Status) {
	switch c := s.known(kept); {
	case c == nil: // it is Gone, if its queue could be judged
	case c.unknown != nil:
		status.Err = c.unknown
	default:
		*status = c.Session.Status(c.state, c.Ticket, -1)
	}
}

// known returns the claim if it has a key, as far as is known, or nil. The mutex is locked.
func (s *Store) known(c *store.Claim) *claim {
	if known := s.claims[c.ID]; known != nil && known.Name == c.Name {
		return known
	}
	return nil
}

// keep writes the claims that have changed, and inspects all of them. For a claim that is unknown here, it notes in
// statuses if its queue is in a newer format, so that its status cannot be determined.
func (s *Store) keep(ctx context.Context, cs []store.Claim, statuses []store.Status) error {
	var known []*claim
	var unknown []int
	var updates []update
	s.mu.Lock()
	for i := range cs {
		c := s.known(&cs[i])
		if c == nil {
			unknown = append(unknown, i)
			continue
		}
		known = append(known, c)
		if r := c.record(&cs[i]); r.encode() != c.written {
			updates = append(updates, update{c, r, c.mod})
		}
	}
	s.mu.Unlock()
	// A full database accepts no updates, but still renews leases.
	if err := s.write(ctx, updates); err != nil && !errors.Is(err, rpctypes.ErrNoSpace) {
		return err
	}
	if err := s.look(ctx, known); err != nil {
		return err
	}
	for batch := range slices.Chunk(unknown, writeBatch) {
		var ops []clientv3.Op
		for _, i := range batch {
			ops = append(ops, s.keys.readHead(cs[i].Name))
		}
		read, _, err := s.etcd.read(ctx, ops...)
		if err != nil {
			return err
		}
		for op, i := range batch {
			_, statuses[i].Err = decodeLine(read.kvs(op))
		}
	}
	return nil
}

// An update is the new value of a claim's key.
type update struct {
	*claim
	record
	over int64 // the revision of what it says so far
}

// write writes updates. Each replaces only the value that is known to be there: an old Keep that arrives late must not
// undo a downgrade.
func (s *Store) write(ctx context.Context, updates []update) error {
	for tries := lookDeep * len(updates); len(updates) > 0 && tries > 0; tries-- { // what is left, the next Keep writes
		n := writable(updates)
		overtaken, err := s.writeOnce(ctx, updates[:n])
		if err != nil {
			return err
		}
		updates = append(updates[n:], overtaken...)
	}
	return nil
}

// maxWrite bounds the bytes of one request. etcd accepts one and a half megabytes.
const maxWrite = 1 << 20

// writable returns how many of these updates fit into one request.
func writable(updates []update) (n int) {
	for size := 0; n < min(len(updates), writeBatch); n++ {
		if size += len(updates[n].Key) + len(updates[n].encode()); size > maxWrite && n > 0 {
			break
		}
	}
	return n
}

// writeOnce writes one batch. It returns the updates to write again, because their keys were written in the meantime.
func (s *Store) writeOnce(ctx context.Context, updates []update) (overtaken []update, err error) {
	ops := make([]clientv3.Op, len(updates))
	for i, u := range updates {
		ops[i] = clientv3.OpTxn(
			[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(u.Key), "=", u.over)},
			[]clientv3.Op{clientv3.OpPut(u.Key, u.encode(), clientv3.WithIgnoreLease())},
			[]clientv3.Op{clientv3.OpGet(u.Key)},
		)
	}
	response, _, err := s.etcd.commit(ctx, transaction{then: ops})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, u := range updates {
		one := response.Responses[i].GetResponseTxn()
		if one.Succeeded {
			s.wrote(u.claim, &u.record, response.Header.Revision)
			continue
		}
		kvs := results(one.Responses).kvs(0)
		if len(kvs) == 0 || kvs[0].CreateRevision != int64(u.Ticket) { //nolint:gosec // a revision
			continue // it is gone, and a look will show it
		}
		if landed, err := decode(kvs[0].Value); err == nil && landed.ID == u.ID { // one that was thought lost
			s.wrote(u.claim, &landed, kvs[0].ModRevision)
			u.Units, u.over = min(u.Units, landed.Units), kvs[0].ModRevision
			overtaken = append(overtaken, u)
		}
	}
	return overtaken, nil
}

// wrote notes the value of c's key as of a revision.
func (s *Store) wrote(c *claim, r *record, revision int64) {
	if revision <= c.mod {
		return
	}
	c.mod, c.written = revision, r.encode()
	if r.Units < c.ask.Units {
		c.ask.Units = r.Units
		c.moved = true // others may block it now
		s.unwatchBlocker(c)
	}
}
