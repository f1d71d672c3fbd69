package etcdstore

import (
	"context"
	"slices"
	"time"

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
	p, leases, own := s.leaving(&c)
	if err := ctx.Err(); err != nil {
		s.deletes.Later(p)
		return err
	}
	call := s.frame.Call(ctx, c.TTL)
	defer call.End()
	var err error
	if p.Session != nil {
		err = s.deletes.Now(call.Context, p)
	}
	if err == nil && !own { // it may be detached; otherwise it never had a key, or is gone
		err = s.leaveDetached(call.Context, c.Name, c.ID, c.Ticket)
	}
	if err == nil {
		s.discard(leases)
	}
	return call.Outcome(err)
}

// leaving removes a claim, and returns what to delete: the zero position if this client knows of no such claim. own
// reports whether it is a claim of this client. Otherwise it may be one that a Detach or Attach in flight makes, with
// these leases. A claim that never was in a queue gets a tombstone for its ttl: a Detach or an Attach that would give a
// claim that ID returns Gone from now on, and only this client can make such a call (rule 8 of package store).
func (s *Store) leaving(left *store.Claim) (p position, leases []clientv3.LeaseID, own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left.Ticket == 0 {
		id := left.ID
		s.tombstones[id] = true
		time.AfterFunc(left.TTL, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.tombstones, id)
		})
	}
	if p, own = s.deletes.Pending(left.ID); own && p.Name == left.Name {
		return p, nil, true
	}
	if c := s.known(left); c != nil {
		s.remove(c)
		return c.Position, nil, true
	}
	if t, there := s.transfers[left.ID]; there && t.Name == left.Name {
		delete(s.transfers, left.ID)
		return t.position, t.leases, false
	}
	return position{}, nil, false
}

// delete deletes claims of one session.
func (s *Store) delete(ctx context.Context, all []position) error {
	for batch := range slices.Chunk(all, writeBatch) {
		found := batch
		if slices.ContainsFunc(batch, func(p position) bool { return p.Unsure || p.Ticket == 0 }) {
			var err error
			if found, err = s.voidRequests(ctx, batch[0].Session, batch); err != nil {
				return err
			}
		}
		if err := s.deleteKeys(ctx, found); err != nil {
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

// voidRequests begins another epoch of the session, so that no Join, Detach or Attach that was sent before can be
// carried out any more. It returns those of these claims that have a key then, with their tickets. It deletes those
// that are detached: other clients may move them at any time.
func (s *Store) voidRequests(ctx context.Context, ses *session, of []position) (found []position, err error) {
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
	if response.Responses[0].GetResponseTxn().Succeeded {
		ses.Handle.raiseEpoch(response.Header.Revision)
	} else {
		s.sessions.Over(ses) // its claims went with it, but for detached ones
	}
	for i, p := range of {
		for _, kv := range results(response.Responses).kvs(i + 1) {
			r, err := decode(kv.Value)
			if err != nil || r.ID != p.ID {
				continue
			}
			p.Ticket = uint64(kv.CreateRevision) //nolint:gosec // a revision
			if !r.Detached {
				found = append(found, p)
			} else if err := s.leaveDetached(ctx, p.Name, p.ID, p.Ticket); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}
