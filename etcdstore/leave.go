package etcdstore

import (
	"context"
	"slices"

	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

type position = frame.Position[*lease]

// stillStands is true in etcd while the claim with this ticket, the key's create revision, stands at this key.
func stillStands(p *position) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(p.Key), "=", int64(p.Ticket)) //nolint:gosec // a revision
}

// deletion deletes the claim if it stands.
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
	// It does not stand here: it never did, or it is gone. All that is left to say is what etcd says.
	_, _, err := s.readEntries(call.Context, s.keys.readHead(c.Name))
	return call.Outcome(err)
}

// leaving forgets a claim, and returns where it is to be deleted.
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

// deleteKeys deletes nothing but keys at these claims' own create revisions, so that it may be done twice or late: the
// claim that has the key next is not hit.
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

// voidJoins begins another epoch of the session, in which nothing can land any more that was sent before. It returns
// which of these claims stand then, with their tickets.
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
