package etcdstore

import (
	"context"
	"maps"
	"slices"

	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-go/holdfast/store"
)

// A position is where a claim stands, or may come to stand. When the claim has left it is kept as pending until etcd
// has confirmed that nothing stands there, or the session is over: a session that lives on would keep the claim for
// ever.
type position struct {
	id      store.ID
	name    string
	key     string
	session *session
	ticket  uint64 // the key's create revision; 0: not known
	unsure  bool   // a Join of it may still land
}

// stands is true in etcd while the claim with this ticket stands at this key.
func (p *position) stands() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(p.key), "=", int64(p.ticket)) //nolint:gosec // a revision
}

// deletion deletes the claim if it stands.
func (p *position) deletion() transaction {
	return transaction{when: []clientv3.Cmp{p.stands()}, then: []clientv3.Op{clientv3.OpDelete(p.key)}}
}

// Leave implements store.Store.
func (s *Store) Leave(ctx context.Context, c store.Claim) error {
	if err := s.frame.Check(context.Background(), c.Name); err != nil {
		return err
	}
	p, known := s.leaving(&c)
	if err := ctx.Err(); err != nil {
		s.deleteLater(p)
		return err
	}
	call := s.frame.Call(ctx, c.TTL)
	defer call.End()
	if known {
		return call.Outcome(s.delete(call.Context, p))
	}
	// It does not stand here: it never did, or it is gone. All that is left to say is what etcd says.
	_, _, err := s.readEntries(call.Context, s.keys.readHead(c.Name))
	return call.Outcome(err)
}

// leaving forgets a claim, and returns where it is to be deleted.
func (s *Store) leaving(left *store.Claim) (p position, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, known = s.pending[left.ID]; known && p.name == left.Name {
		return p, true
	}
	c := s.claims[left.ID]
	if c == nil || c.name != left.Name {
		return position{}, false
	}
	s.remove(c)
	return c.position, true
}

// delete deletes a claim, and has that done later if it fails. What may still land costs the session a new epoch, and
// so makes void what others are just sending: all that are given up at the same time share one.
func (s *Store) delete(ctx context.Context, p position) error {
	if !p.unsure {
		err := s.deleteNow(ctx, []position{p})
		if err != nil {
			s.deleteLater(p)
		}
		return err
	}
	s.deleteLater(p)
	for {
		err := s.deletes.Ask().Await(ctx)
		if err == nil || ctx.Err() != nil || code(err) != codes.DeadlineExceeded { // the round's limit, not the caller's
			return err
		}
	}
}

// deleteLater remembers what is to be deleted. If its session is over, it went with that.
func (s *Store) deleteLater(p position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sessions.Is(p.session) {
		return
	}
	if old, known := s.pending[p.id]; known {
		p.unsure = p.unsure || old.unsure
		p.ticket = max(p.ticket, old.ticket)
	}
	s.pending[p.id] = p
}

// deleteNow deletes claims of one session. It deletes nothing but keys at these claims' own create revisions, so that
// it may be done twice or late: the claim that has the key next is not hit.
func (s *Store) deleteNow(ctx context.Context, all []position) error {
	standing := all
	if slices.ContainsFunc(all, func(p position) bool { return p.unsure || p.ticket == 0 }) {
		var err error
		if standing, err = s.voidJoins(ctx, all); err != nil {
			return err
		}
	}
	var t transaction
	if len(standing) == 1 { // as with nearly every Leave
		t = standing[0].deletion()
	} else {
		for _, p := range standing {
			one := p.deletion()
			t.then = append(t.then, clientv3.OpTxn(one.when, one.then, nil))
		}
	}
	if len(standing) > 0 {
		if _, _, err := s.etcd.commit(ctx, t); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range all { // it does not stand any more, nor can come to
		delete(s.pending, p.id)
		if s.sessions.Is(p.session) {
			s.slots.release(p.name, p.id)
		}
	}
	return nil
}

// voidJoins begins another epoch of the session, in which nothing can land any more that was sent before. It returns
// which of these claims stand then, with their tickets.
func (s *Store) voidJoins(ctx context.Context, of []position) (standing []position, err error) {
	ses := of[0].session
	key := ses.Handle.key
	ops := []clientv3.Op{clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), ">", 0)},
		[]clientv3.Op{clientv3.OpPut(key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())},
		nil,
	)}
	for _, p := range of {
		ops = append(ops, clientv3.OpGet(p.key))
	}
	response, _, err := s.etcd.commit(ctx, transaction{then: ops})
	if err != nil {
		return nil, err
	}
	if !response.Responses[0].GetResponseTxn().Succeeded {
		s.lose(ses) // its claims went with it
		return nil, nil
	}
	ses.Handle.raiseEpoch(response.Header.Revision)
	for i, p := range of {
		for _, kv := range results(response.Responses).kvs(i + 1) {
			if r, err := decode(kv.Value); err == nil && r.ID == p.id {
				p.ticket = uint64(kv.CreateRevision) //nolint:gosec // a revision
				standing = append(standing, p)
			}
		}
	}
	return standing, nil
}

// deletePending deletes what could not be deleted when that was asked for. It runs in one goroutine at a time.
func (s *Store) deletePending() error {
	s.mu.Lock()
	pending := slices.Collect(maps.Values(s.pending))
	s.mu.Unlock()
	for batch := range slices.Chunk(pending, writeBatch) {
		ctx, cancel := context.WithTimeout(s.frame.Life(), s.ttl/2)
		err := s.deleteNow(ctx, batch)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// deleted waits until nothing of a claim is to be deleted. What is left of it from before may be on its way out.
func (s *Store) deleted(ctx context.Context, id store.ID) error {
	s.mu.Lock()
	_, pending := s.pending[id]
	s.mu.Unlock()
	if !pending {
		return nil
	}
	return s.deletes.Ask().Await(ctx)
}
