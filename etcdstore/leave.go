package etcdstore

import (
	"context"
	"slices"

	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

type position = frame.Position[*lease]

// stillStands returns the comparison that is true in etcd while this key has the claim with this ticket, which is the
// key's create revision.
func stillStands(p *position) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(p.Key), "=", int64(p.Ticket)) //nolint:gosec // a revision
}

// deletion returns the transaction that deletes the claim's key if it is still the claim's.
func deletion(p *position) transaction {
	return transaction{when: []clientv3.Cmp{stillStands(p)}, then: []clientv3.Op{clientv3.OpDelete(p.Key)}}
}

// Leave implements store.Store.
func (s *Store) Leave(ctx context.Context, c store.Claim) error {
	if err := s.frame.Check(context.Background(), c.Name); err != nil {
		return err
	}
	p, known := s.leaving(&c)
	if err := ctx.Err(); err != nil {
		s.deletes.Later(p)
		return err
	}
	call := s.frame.Call(ctx, c.TTL)
	defer call.End()
	if known {
		return call.Outcome(s.deletes.Now(call.Context, p))
	}
	// The claim is unknown here: it never had a key, or it is gone. The queue is read only for an error of etcd.
	_, _, err := s.readEntries(call.Context, s.keys.readHead(c.Name))
	return call.Outcome(err)
}

// leaving removes a claim, and returns what to delete. known is false if this client has no such claim.
func (s *Store) leaving(left *store.Claim) (p position, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, known = s.deletes.Pending(left.ID); known && p.Name == left.Name {
		return p, true
	}
	c := s.claims[left.ID]
	if c == nil || c.Name != left.Name {
		return position{}, false
	}
	s.remove(c)
	return c.Position, true
}

// delete deletes claims of one session.
func (s *Store) delete(ctx context.Context, all []position) error {
	for batch := range slices.Chunk(all, writeBatch) {
		status := batch
		if slices.ContainsFunc(batch, func(p position) bool { return p.Unsure || p.Ticket == 0 }) {
			var err error
			if status, err = s.voidJoins(ctx, batch); err != nil {
				return err
			}
		}
		if err := s.deleteKeys(ctx, status); err != nil {
			return err
		}
		for _, p := range batch {
			s.deletes.Done(p)
		}
	}
	return nil
}

// deleteKeys deletes keys only at these claims' own create revisions. So it may be carried out twice or late: it does
// not affect the next claim with the same key.
func (s *Store) deleteKeys(ctx context.Context, of []position) (err error) {
	var t transaction
	if len(of) == 1 { // as with nearly every Leave
		t = deletion(&of[0])
	} else {
		for _, p := range of {
			one := deletion(&p)
			t.then = append(t.then, clientv3.OpTxn(one.when, one.then, nil))
		}
	}
	if len(of) > 0 {
		_, _, err = s.etcd.commit(ctx, t)
	}
	return err
}

// voidJoins begins another epoch of the session, so that no Join that was sent before can be carried out any more. It
// returns those of these claims that have a key then, with their tickets.
func (s *Store) voidJoins(ctx context.Context, of []position) (status []position, err error) {
	ses := of[0].Session
	key := ses.Handle.key
	ops := []clientv3.Op{clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), ">", 0)},
		[]clientv3.Op{clientv3.OpPut(key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())},
		nil,
	)}
	for _, p := range of {
		ops = append(ops, clientv3.OpGet(p.Key))
	}
	response, _, err := s.etcd.commit(ctx, transaction{then: ops})
	if err != nil {
		return nil, err
	}
	if !response.Responses[0].GetResponseTxn().Succeeded {
		s.sessions.Over(ses) // its claims went with it
		return nil, nil
	}
	ses.Handle.raiseEpoch(response.Header.Revision)
	for i, p := range of {
		for _, kv := range results(response.Responses).kvs(i + 1) {
			if r, err := decode(kv.Value); err == nil && r.ID == p.ID {
				p.Ticket = uint64(kv.CreateRevision) //nolint:gosec // a revision
				status = append(status, p)
			}
		}
	}
	return status, nil
}
