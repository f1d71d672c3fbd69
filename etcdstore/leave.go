package etcdstore

import (
	"context"
	"slices"

	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-go/holdfast/store"
)

// A debt is a claim that has to be taken out of its line. It is kept until etcd has confirmed that, or the session is over:
// a session that lives on would keep the claim standing for ever.
type debt struct {
	id      store.ID
	name    string
	key     string
	session *session // under which it stands
	ticket  uint64   // 0: not known
	unsure  bool     // a Join of it may still land
}

// stands is true in etcd while the claim stands.
func (d *debt) stands() clientv3.Cmp { return standsAt(d.key, d.ticket) }

// standsAt is true in etcd while the claim with this ticket stands at this key.
func standsAt(key string, ticket uint64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", int64(ticket)) //nolint:gosec // a revision
}

// Leave implements store.Store.
func (s *Store) Leave(ctx context.Context, c store.Claim) error {
	if err := store.CheckName(c.Name); err != nil {
		return err
	}
	if s.closed.Load() {
		return store.ErrClosed
	}
	d, known := s.leaving(&c)
	if err := ctx.Err(); err != nil {
		s.owe(d)
		return err
	}
	within, cancel := within(ctx, c.TTL)
	defer cancel()
	if known {
		return s.failed(ctx, within, c.TTL, s.repay(within, d))
	}
	// It does not stand here: it never did, or it is gone. All that is left to say is what etcd says.
	return s.failed(ctx, within, c.TTL, s.readable(within, c.Name))
}

// leaving forgets the place of a claim, and says what is to be taken out for it.
func (s *Store) leaving(c *store.Claim) (d debt, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, known = s.debts[c.ID]; known && d.name == c.Name {
		return d, true
	}
	p := s.places[c.ID]
	if p == nil || p.name != c.Name {
		return debt{}, false
	}
	s.remove(p)
	return p.debt(), true
}

// debt is what is to be taken out when p leaves.
func (p *place) debt() debt {
	return debt{id: p.id, name: p.name, key: p.key, session: p.session, ticket: p.ticket, unsure: p.doubtful}
}

// readable says whether the line of a name is one of this format.
func (s *Store) readable(ctx context.Context, name string) error {
	answer, _, err := s.commit(ctx, transaction{then: []clientv3.Op{
		clientv3.OpGet(s.keys.line(name), clientv3.WithPrefix(), clientv3.WithLimit(1)),
	}})
	if err == nil {
		_, err = s.decodeLine(answer.Responses[0].GetResponseRange().Kvs)
	}
	return err
}

// repay takes a claim out of its line, and owes it if that fails. What may still land costs the session a new epoch, and so
// makes void what others are just sending: all who give up at the same time share one.
func (s *Store) repay(ctx context.Context, d debt) error {
	if d.unsure {
		s.owe(d)
		err := s.payments.ask().await(ctx)
		for err != nil && ctx.Err() == nil && code(err) == codes.DeadlineExceeded { // the round's limit, not the caller's
			err = s.payments.ask().await(ctx)
		}
		return err
	}
	err := s.takeOut(ctx, []debt{d})
	if err != nil {
		s.owe(d)
		return err
	}
	s.repaid([]debt{d})
	return nil
}

// owe remembers a debt. If its session is over, there is none: its claims went with it.
func (s *Store) owe(d debt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil || d.session != s.session {
		return
	}
	if old, known := s.debts[d.id]; known {
		d.unsure = d.unsure || old.unsure
		d.ticket = max(d.ticket, old.ticket)
	}
	s.debts[d.id] = d
}

// repaid notes that nothing stands any more where these stood, nor can come to.
func (s *Store) repaid(debts []debt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range debts {
		delete(s.debts, d.id)
		if d.session == s.session {
			s.vacate(d.name, d.id)
		}
	}
}

// takeOut takes claims of one session out of their lines. It deletes nothing but keys at these claims' own create
// revisions, so that it may be done twice or late: whoever has the seat next is not hit.
func (s *Store) takeOut(ctx context.Context, debts []debt) error {
	if slices.ContainsFunc(debts, func(d debt) bool { return d.unsure || d.ticket == 0 }) {
		var err error
		if debts, err = s.settle(ctx, debts); err != nil {
			return err
		}
	}
	switch len(debts) {
	case 0:
		return nil
	case 1: // what nearly every Leave is
		_, _, err := s.commit(ctx, transaction{
			when: []clientv3.Cmp{debts[0].stands()},
			then: []clientv3.Op{clientv3.OpDelete(debts[0].key)},
		})
		return err
	}
	ops := make([]clientv3.Op, len(debts))
	for i, d := range debts {
		ops[i] = clientv3.OpTxn([]clientv3.Cmp{d.stands()}, []clientv3.Op{clientv3.OpDelete(d.key)}, nil)
	}
	_, _, err := s.commit(ctx, transaction{then: ops})
	return err
}

// settle begins another epoch of the session, in which nothing can land any more that was sent before, and then finds out
// which of these claims stand, and since which revision.
func (s *Store) settle(ctx context.Context, debts []debt) (standing []debt, err error) {
	ses := debts[0].session
	ops := []clientv3.Op{clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(ses.key), ">", 0)},
		[]clientv3.Op{clientv3.OpPut(ses.key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())},
		nil,
	)}
	for _, d := range debts {
		ops = append(ops, clientv3.OpGet(d.key))
	}
	answer, _, err := s.commit(ctx, transaction{then: ops})
	if err != nil {
		return nil, err
	}
	if !answer.Responses[0].GetResponseTxn().Succeeded {
		s.lose(ses) // its claims went with it
		return nil, nil
	}
	ses.opened(answer.Header.Revision)
	for i, d := range debts {
		for _, kv := range answer.Responses[i+1].GetResponseRange().Kvs {
			if r, err := decode(kv.Value); err == nil && r.ID == d.id {
				d.ticket = uint64(kv.CreateRevision) //nolint:gosec // a revision
				standing = append(standing, d)
			}
		}
	}
	return standing, nil
}

// payDebts takes out what could not be taken out when it was asked for. It is done by one goroutine at a time.
func (s *Store) payDebts() error {
	s.mu.Lock()
	debts := make([]debt, 0, len(s.debts))
	for _, d := range s.debts {
		debts = append(debts, d)
	}
	s.mu.Unlock()
	for batch := range slices.Chunk(debts, lookBatch) {
		ctx, cancel := context.WithTimeout(s.life, s.ttl/2)
		err := s.takeOut(ctx, batch)
		cancel()
		if err != nil {
			return err
		}
		s.repaid(batch)
	}
	return nil
}

// paid waits until nothing is owed for a claim. What is left of it from before may be on its way out.
func (s *Store) paid(ctx context.Context, id store.ID) error {
	s.mu.Lock()
	_, owed := s.debts[id]
	s.mu.Unlock()
	if !owed {
		return nil
	}
	return s.payments.ask().await(ctx)
}
