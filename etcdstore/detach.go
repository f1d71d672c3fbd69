package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

var _ store.Detacher = (*Store)(nil)

// A detached claim is the same key under a lease of its own. Detach and Attach put the key once more, with the new ID
// in its value and under another lease, if the key is still as it was read and the session's epoch has not changed. So
// the create revision, which is the claim's ticket and position, stays; of several transactions that move one key at
// most one is carried out; and one that is in flight when its new ID is left is void (see lease).

// Detach implements store.Detacher.
func (s *Store) Detach(ctx context.Context, c store.Claim, as store.ID, d time.Duration) (store.Status, error) {
	call, err := s.frame.Begin(ctx, c.Name, c.TTL)
	if err != nil {
		return store.Status{}, err
	}
	defer call.End()
	m := &moving{Claim: &c, store: s, from: c.ID, to: as, detach: true, d: d}
	status, err := m.run(call.Context)
	if err := m.outcome(&call, err); err != nil {
		return store.Status{}, err
	}
	status.Until = call.Until(status.State, d)
	return status, nil
}

// Attach implements store.Detacher.
func (s *Store) Attach(ctx context.Context, c store.Claim, from store.ID) (store.Status, error) {
	call, err := s.frame.Begin(ctx, c.Name, c.TTL)
	if err != nil {
		return store.Status{}, err
	}
	defer call.End()
	s.mu.Lock()
	own := s.known(&c)
	if own != nil {
		c.Demand = own.ask
	}
	s.mu.Unlock()
	if own != nil {
		statuses, err := s.Keep(ctx, []store.Claim{c})
		if err != nil {
			return store.Status{}, err
		}
		return statuses[0], statuses[0].Err
	}
	m := &moving{Claim: &c, store: s, from: from, to: c.ID}
	status, err := m.run(call.Context)
	return status, m.outcome(&call, err)
}

// A transfer is a Detach or an Attach whose transaction may still be carried out: a call in progress, or one that
// failed.
type transfer struct {
	position                    // with the new ID
	leases   []clientv3.LeaseID // of detached claims, which the key may have had or may have
}

// A moving is a call of Detach or Attach in progress. It gives the claim with the ID from the ID to.
type moving struct {
	*store.Claim // of the caller
	store        *Store
	from, to     store.ID
	detach       bool
	d            time.Duration // of a Detach

	lease  clientv3.LeaseID // that was granted for a Detach; 0: none yet
	used   bool             // the claim has that lease
	unsure bool             // a transaction was sent, and it is not known whether it was or will be carried out
}

// run moves the claim, and returns its status, without Until if it is a Detach. The claim is read again when it, the
// session or its epoch has changed meanwhile.
func (m *moving) run(ctx context.Context) (status store.Status, err error) {
	for first, tries := true, epochTries; tries > 0; first, tries = false, tries-1 {
		ses, err := m.store.sessions.Current(ctx)
		if err == nil && !m.detach {
			err = m.store.sessions.Freshen(ctx, ses)
		}
		if err != nil {
			return status, err
		}
		if status, err = m.attempt(ctx, ses, first); !errors.Is(err, errEpoch) {
			return status, err
		}
	}
	return status, errEpoch
}

// outcome returns the error for the caller, and cleans up. If a Detach fails for good, it deletes the claim: callers do
// not use it any more, and need not leave it after a final error.
func (m *moving) outcome(call *frame.Call, err error) error {
	s := m.store
	failure := call.Outcome(err)
	if m.unsure {
		failure = frame.NotFinal(failure) // the caller has to leave what may be there
	}
	var leases []clientv3.LeaseID
	if !m.unsure && m.lease != 0 {
		leases = append(leases, m.lease)
	}
	s.mu.Lock()
	if err == nil { // none that was sent before can be carried out any more: the key has changed
		leases = append(leases, s.transfers[m.to].leases...)
		delete(s.transfers, m.to)
	}
	if c := s.claims[m.from]; c != nil && m.detach {
		c.Unsure = c.Unsure || m.unsure // its key may have been moved, and must not be deleted then
		if store.Final(failure) && s.remove(c) {
			s.deletes.Remember(c.Position)
			s.deletes.Retry()
		}
	}
	s.mu.Unlock()
	s.discard(slices.DeleteFunc(leases, func(id clientv3.LeaseID) bool { return m.used && id == m.lease }))
	return failure
}

// attempt tries to move the claim once. The error is errEpoch if it has to be tried again.
func (m *moving) attempt(ctx context.Context, ses *session, first bool) (status store.Status, err error) {
	s := m.store
	e, found, err := m.find(ctx, ses, first)
	switch {
	case err != nil || !found:
		return status, err
	case e.ID == m.to && e.kv.Lease == m.target(ses): // it was moved, and the response was lost
		return m.landed(ses, &e)
	case m.detach && e.ID == m.to && s.etcd.lasts(ctx, clientv3.LeaseID(e.kv.Lease), m.d):
		return m.landed(ses, &e)
	case m.detach && m.lease == 0:
		if m.lease, err = s.etcd.grantLease(ctx, m.d); err != nil {
			return status, err
		}
	}
	epoch, left, err := m.begin(ses, &e)
	if err != nil || left {
		return status, err
	}
	key, value := string(e.kv.Key), m.value(ses, &e)
	response, unsure, err := s.etcd.commit(ctx, transaction{
		when: []clientv3.Cmp{
			ses.Handle.inEpoch(epoch), clientv3.Compare(clientv3.ModRevision(key), "=", e.kv.ModRevision),
		},
		then:   []clientv3.Op{clientv3.OpPut(key, value, clientv3.WithLease(clientv3.LeaseID(m.target(ses))))},
		orElse: []clientv3.Op{ses.Handle.readKey()},
	})
	m.unsure = unsure
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		if !m.detach {
			s.sessions.Over(ses)
		}
		m.lease = 0
		return status, errEpoch
	case err != nil:
		return status, err
	case !response.Succeeded:
		return status, cmp.Or(s.checkEpoch(ses, epoch, results(response.Responses).kvs(0)), errEpoch)
	}
	m.unsure = false
	e.kv.Value, e.kv.ModRevision = []byte(value), response.Header.Revision
	return m.landed(ses, &e)
}

// target returns the lease that the key is moved to. It is -1 if none was granted yet.
func (m *moving) target(ses *session) int64 {
	switch {
	case !m.detach:
		return int64(ses.Handle.id)
	case m.lease == 0:
		return -1
	}
	return int64(m.lease)
}

// find returns the claim that is to be moved, or has been moved already. It reports false if there is none. The first
// time, a Detach of a claim of this client needs no read.
func (m *moving) find(ctx context.Context, ses *session, first bool) (e entry, found bool, err error) {
	s := m.store
	if m.detach && first {
		e, unsure, err := m.known(ses)
		if err != nil || e.kv != nil && !unsure {
			return e, true, err
		}
		if unsure {
			if err := s.voidFor(ctx, m.from); err != nil {
				return e, false, err
			}
		}
	}
	entries, _, err := s.readEntries(ctx, s.keys.readLine(m.Name))
	if err != nil {
		return e, false, err
	}
	m.unsure = false // what was sent before is void, since it was refused, or is to be seen here
	for _, id := range []store.ID{m.to, m.from} {
		if at := slices.IndexFunc(entries, func(e entry) bool { return e.ID == id }); at >= 0 {
			return entries[at], m.movable(ses, &entries[at]), nil
		}
	}
	return e, false, nil
}

// known returns a claim of this client, as it was last written. Its kv is nil if there is none. unsure reports that a
// request whose outcome is not known may have changed it, or may still do so. The error is ErrNotHeld if it waits.
func (m *moving) known(ses *session) (e entry, unsure bool, err error) {
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[m.from]
	if c == nil || c.Name != m.Name || c.Session != ses {
		return e, false, nil
	}
	if c.state != store.Held {
		return e, false, store.ErrNotHeld
	}
	if e.record, err = decode([]byte(c.written)); err != nil {
		return e, false, err
	}
	e.kv = &mvccpb.KeyValue{
		Key: []byte(c.Key), CreateRevision: int64(c.Ticket), ModRevision: c.mod, //nolint:gosec // a revision
		Lease: int64(ses.Handle.id),
	}
	return e, c.Unsure, nil
}

// movable reports whether the call may move a claim, or has moved it already: a detached one or, for Detach, one of
// this client. One that has left may still be in the queue.
func (m *moving) movable(ses *session, e *entry) bool {
	switch own := e.kv.Lease == int64(ses.Handle.id); {
	case e.Detached:
		return m.detach || e.ID == m.from
	case !m.detach:
		return own && e.ID == m.to
	default:
		return own && m.store.stands(e.ID, e.ticket())
	}
}

// begin returns the epoch in which the transaction is sent. From now on, a Leave of the new ID makes it void. left
// reports that the new ID has been left already.
func (m *moving) begin(ses *session, e *entry) (epoch int64, left bool, err error) {
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.left() {
		return 0, true, nil
	}
	if !s.sessions.Is(ses) {
		return 0, false, errEpoch
	}
	leases := s.transfers[m.to].leases
	if m.detach {
		leases = append(leases, m.lease)
	}
	if e.Detached {
		leases = append(leases, clientv3.LeaseID(e.kv.Lease))
	}
	s.transfers[m.to] = transfer{m.claim(ses, e).Position, leases}
	return ses.Handle.epoch.Load(), false, nil
}

// left reports whether the new ID has been left. The mutex is locked.
func (m *moving) left() bool {
	_, pending := m.store.deletes.Pending(m.to)
	return pending || m.store.tombstones[m.to]
}

// claim returns the claim that the entry becomes when it is attached.
func (m *moving) claim(ses *session, e *entry) *claim {
	p := position{ID: m.to, Name: m.Name, Session: ses, Key: string(e.kv.Key), Ticket: e.ticket(), Unsure: true}
	c := &claim{Position: p, joined: time.UnixMilli(e.Joined), ask: e.ask(), state: store.Held}
	if e.Granted != 0 {
		c.granted = time.UnixMilli(e.Granted)
	}
	return c
}

// value returns the value of the key after the move.
func (m *moving) value(ses *session, e *entry) string {
	r := e.record
	if m.detach {
		r.ID, r.TTL, r.Detached = m.to, m.d.Milliseconds(), true
	} else {
		attached := *m.Claim
		attached.Demand = e.ask()
		r = m.claim(ses, e).record(&attached)
	}
	return r.encode()
}

// landed notes that the claim was moved, and returns its status.
func (m *moving) landed(ses *session, e *entry) (status store.Status, err error) {
	s := m.store
	m.used = m.detach
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claims[m.from]; m.detach && c != nil && c.Ticket == e.ticket() && s.remove(c) {
		s.freeKey(c)
	}
	switch {
	case m.left():
		return status, nil // Leave deletes it
	case m.detach:
		return store.Status{State: store.Held, Ticket: e.ticket()}, nil
	case !s.sessions.Is(ses):
		return status, errEpoch // it is gone with its session
	}
	c := m.claim(ses, e)
	c.Unsure, c.asOf, c.mod, c.written = false, e.kv.ModRevision, e.kv.ModRevision, string(e.kv.Value)
	return ses.Status(store.Held, s.admit(c).Ticket, 0), nil
}

// grantLease grants a lease of a ttl, in whole seconds, rounded up. Its ID is chosen here, so that a repeated request
// grants no second one.
func (c *cluster) grantLease(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	r := &etcdserverpb.LeaseGrantRequest{ID: 1 + rand.Int64N(math.MaxInt64-1), TTL: seconds(ttl)}
	a := c.attempts(ctx)
	for a.next() {
		if _, a.err = c.leases.LeaseGrant(a.ctx, r); errors.Is(rpctypes.Error(a.err), rpctypes.ErrLeaseExist) {
			a.err = nil // its response was lost
		}
	}
	return clientv3.LeaseID(r.ID), a.err
}

// lasts reports whether a lease is known to have d left, or more.
func (c *cluster) lasts(ctx context.Context, id clientv3.LeaseID, d time.Duration) bool {
	left, err := c.leases.LeaseTimeToLive(ctx, &etcdserverpb.LeaseTimeToLiveRequest{ID: int64(id)})
	return err == nil && left.TTL >= seconds(d)
}

// revokeLease revokes a lease, and with it all keys under it.
func (c *cluster) revokeLease(ctx context.Context, id clientv3.LeaseID) {
	a := c.attempts(ctx)
	for a.next() {
		_, a.err = c.leases.LeaseRevoke(a.ctx, &etcdserverpb.LeaseRevokeRequest{ID: int64(id)})
	}
}

// discard revokes those of these leases in the background that have no key. It is for leases of detached claims, which
// get no key again once they had one. If that fails, a lease expires by itself.
func (s *Store) discard(leases []clientv3.LeaseID) {
	if len(leases) == 0 {
		return
	}
	s.frame.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), frame.EndTimeout) // also while the store is closed
		defer cancel()
		for _, id := range leases {
			r := &etcdserverpb.LeaseTimeToLiveRequest{ID: int64(id), Keys: true}
			if has, err := s.etcd.leases.LeaseTimeToLive(ctx, r); err == nil && len(has.Keys) == 0 && has.TTL >= 0 {
				s.etcd.revokeLease(ctx, id)
			}
		}
	})
}

// leaveDetached deletes the detached claim with an ID, if there is one. ticket is 0 if it is not known. A claim that is
// attached or extended meanwhile has another value: it is read again.
func (s *Store) leaveDetached(ctx context.Context, name string, id store.ID, ticket uint64) error {
	var only []clientv3.OpOption
	if revision := int64(ticket); revision != 0 { //nolint:gosec // a revision
		only = []clientv3.OpOption{clientv3.WithMinCreateRev(revision), clientv3.WithMaxCreateRev(revision)}
	}
	for range epochTries {
		entries, _, err := s.readEntries(ctx, s.keys.readLine(name, only...))
		if err != nil {
			return err
		}
		at := slices.IndexFunc(entries, func(e entry) bool { return e.ID == id && e.Detached })
		if at < 0 {
			return nil
		}
		kv := entries[at].kv
		key := string(kv.Key)
		response, _, err := s.etcd.commit(ctx, transaction{
			when: []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", kv.ModRevision)},
			then: []clientv3.Op{clientv3.OpDelete(key)},
		})
		if err != nil {
			return err
		}
		if response.Succeeded {
			s.discard([]clientv3.LeaseID{clientv3.LeaseID(kv.Lease)})
			return nil
		}
	}
	return errEpoch
}

// voidFor makes requests of a claim of this client void that may be in flight.
func (s *Store) voidFor(ctx context.Context, id store.ID) error {
	s.mu.Lock()
	c := s.claims[id]
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	_, err := s.voidRequests(ctx, c.Session, nil)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.Unsure = false
	}
	return err
}
