package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A joining is a call of Join in progress.
type joining struct {
	*store.Claim
	at    position
	store *Store
	epoch int64 // of the session when the key was reserved
	value string
	began time.Time
}

// epochTries bounds the attempts of a Join while the session or its epoch changes.
const epochTries = 20

var errEpoch = errors.New("its session or its claim changes too fast")

// Join implements store.Store.
func (s *Store) Join(ctx context.Context, c store.Claim) (store.Status, error) {
	call, err := s.frame.Begin(ctx, c.Name, c.TTL)
	if err != nil {
		return store.Status{}, err
	}
	defer call.End()
	if store.FloorTooHigh(c.Floor, time.Now()) { // etcd has no clock to ask
		return store.Status{}, store.ErrFloor
	}
	j := &joining{Claim: &c, at: position{ID: c.ID, Name: c.Name}, store: s, began: call.Sent}
	for range epochTries {
		ses, err := s.sessions.Current(call.Context)
		if err == nil {
			err = s.deletes.Await(call.Context, c.ID)
		}
		if err != nil {
			return store.Status{}, call.Outcome(err)
		}
		if !j.reserveKey(ses) {
			continue
		}
		status, err := j.attempt(call.Context)
		switch {
		case err == nil && status.State != store.Gone:
			return status, nil
		case !errors.Is(err, errEpoch):
			return status, j.giveUp(&call, call.Outcome(err))
		}
	}
	return store.Status{}, j.giveUp(&call, s.frame.Fault(ctx, errEpoch))
}

// reserveKey reserves a key for the claim under a session. It reports false if the session is not the current one any
// more, or if a delete of the claim is pending.
func (j *joining) reserveKey(ses *session) bool {
	s := j.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, pending := s.deletes.Pending(j.ID); pending || !s.sessions.Is(ses) {
		return false
	}
	if j.at.Session != ses { // under another session, nothing of what was sent before can land
		j.at.Session, j.at.Unsure = ses, false
	}
	j.at.Key, j.epoch = s.keys.claim(j.Name, ses.Handle, s.slots.reserve(j.Name, j.ID)), ses.Handle.epoch.Load()
	return true
}

// giveUp ends a claim whose Join failed, and returns the error for the caller. Unless the error is final, the claim may
// have a key, so it is deleted.
func (j *joining) giveUp(call *frame.Call, err error) error {
	if err != nil && !store.Final(err) {
		j.at.Unsure = true
	}
	return j.store.deletes.GiveUp(call, j.at, err)
}

// attempt tries to join once. The error is errEpoch if the session or its epoch has changed meanwhile.
func (j *joining) attempt(ctx context.Context) (store.Status, error) {
	r := j.claim(0, 0).record(j.Claim)
	j.value = r.encode()
	if j.Try {
		if status, done, err := j.try(ctx); done {
			return status, err
		}
	}
	response, unsure, err := j.store.etcd.commit(ctx, transaction{
		when: []clientv3.Cmp{
			j.at.Session.Handle.inEpoch(j.epoch), clientv3.Compare(clientv3.CreateRevision(j.at.Key), "=", 0),
		},
		then:   []clientv3.Op{j.readAhead(), j.put()},
		orElse: []clientv3.Op{j.at.Session.Handle.readKey()},
	})
	if err := j.sent(unsure, err); err != nil {
		return store.Status{}, err
	}
	if !response.Succeeded {
		return j.refused(ctx, response.Responses)
	}
	return j.joined(ctx, response.Header.Revision, response.Responses[0].GetResponseRange())
}

// try joins if the queue is empty, and otherwise only reads it, so that a claim that is refused has never blocked
// others. done is false for a claim that shares and would fit: it has to join.
func (j *joining) try(ctx context.Context) (status store.Status, done bool, err error) {
	s, lease := j.store, j.at.Session.Handle
	read := s.keys.readHead(j.Name)
	if j.Units < j.Limit {
		read = j.readAhead()
	}
	response, unsure, err := s.etcd.commit(ctx, transaction{
		when: []clientv3.Cmp{
			lease.inEpoch(j.epoch),
			clientv3.Compare(clientv3.CreateRevision(s.keys.queue(j.Name)).WithPrefix(), "=", 0),
		},
		then:   []clientv3.Op{j.put()},
		orElse: []clientv3.Op{lease.readKey(), clientv3.OpGet(j.at.Key), read},
	})
	if err := j.sent(unsure, err); err != nil {
		return status, true, err
	}
	if response.Succeeded {
		status, err = j.joined(ctx, response.Header.Revision, &etcdserverpb.RangeResponse{})
		return status, true, err
	}
	own, others := results(response.Responses).kvs(1), response.Responses[2].GetResponseRange()
	if len(own) > 0 && own[0].Lease == int64(lease.id) || others.Count == 0 {
		status, err = j.refused(ctx, response.Responses)
		return status, true, err
	}
	status.Ahead = int(others.Count)
	there, err := decodeLine(others.Kvs)
	if err == nil {
		err = mismatch(there, j.Claim)
	}
	if err != nil {
		return status, true, err
	}
	if state, _ := evaluate(there, j.Demand); j.Units < j.Limit && state == store.Held {
		return status, false, nil
	}
	holder := s.place(&there[0], store.Held)
	status.Holder = &holder
	return status, true, nil
}

// sent notes the outcome of a transaction that puts the claim, and returns its error.
func (j *joining) sent(unsure bool, err error) error {
	j.at.Unsure = j.at.Unsure || unsure
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		j.store.sessions.Over(j.at.Session)
		return errEpoch
	}
	return err
}

// checkEpoch compares what was read of a session's key with the epoch in which a transaction was sent. It returns
// errEpoch if the session has ended or is in another epoch, and notes that.
func (s *Store) checkEpoch(ses *session, epoch int64, read []*mvccpb.KeyValue) error {
	switch {
	case len(read) == 0 || read[0].ModRevision < epoch: // it is gone, or etcd went back in time (see look)
		s.sessions.Over(ses)
		return errEpoch
	case read[0].ModRevision > epoch:
		ses.Handle.raiseEpoch(read[0].ModRevision)
		return errEpoch
	}
	return nil
}

// put returns the operation that puts the claim at the end of the queue.
func (j *joining) put() clientv3.Op {
	return clientv3.OpPut(j.at.Key, j.value, clientv3.WithLease(j.at.Session.Handle.id))
}

// readAhead returns the operation that reads the queue before the claim is put at its end: for an exclusive claim only
// the last entry, otherwise all.
func (j *joining) readAhead() clientv3.Op {
	if j.Units == j.Limit {
		return j.store.keys.readLine(j.Name, newestFirst, clientv3.WithLimit(1))
	}
	return j.store.keys.readLine(j.Name, oldestFirst)
}

// refused determines why a Join was not carried out: the session has ended or has another epoch, or the claim has a key
// already.
func (j *joining) refused(ctx context.Context, read results) (status store.Status, err error) {
	s := j.store
	if err := s.checkEpoch(j.at.Session, j.epoch, read.kvs(0)); err != nil {
		return status, err
	}
	// It has a key already: a response was lost, or two Joins of the claim are in progress. Or a claim has the key that
	// was detached.
	entries, revision, err := s.readEntries(ctx, s.keys.readLine(j.Name))
	if err != nil {
		return status, err
	}
	at := slices.IndexFunc(entries, func(e entry) bool { return string(e.kv.Key) == j.at.Key })
	switch {
	case at < 0:
		return status, nil // it did, and is gone
	case entries[at].ID == j.ID && entries[at].kv.Lease != int64(j.at.Session.Handle.id):
		return status, unreadable(entries[at].kv.Key, errForeign)
	case entries[at].ID != j.ID && (entries[at].kv.Lease != int64(j.at.Session.Handle.id) || s.owns(entries[at].ID)):
		return status, j.moveOn(ctx, entries)
	case entries[at].ID != j.ID:
		// It is of this session, and not known here: nothing else would ever delete it.
		unknown := position{Key: j.at.Key, Ticket: entries[at].ticket()}
		if err := s.deleteKeys(ctx, []position{unknown}); err != nil {
			return status, err
		}
		return status, errEpoch
	}
	own := entries[at]
	j.Units = min(j.Units, own.Units)
	c := j.claim(own.ticket(), revision)
	c.written, c.mod = string(own.kv.Value), own.kv.ModRevision
	err = mismatch(entries[:at], j.Claim)
	c.state, c.blocker = evaluate(entries[:at], j.Demand)
	return j.land(ctx, c, at, err)
}

// owns reports whether a claim of the session belongs to this client, or is being made or deleted.
func (s *Store) owns(id store.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, moving := s.transfers[id]
	_, pending := s.deletes.Pending(id)
	return moving || pending || s.claims[id] != nil
}

// moveOn reserves another key for the claim, because a claim that was detached has the one that was reserved. It
// returns errEpoch: the claim has to be put there. Before, it makes requests void that could still use the first key.
func (j *joining) moveOn(ctx context.Context, entries []entry) error {
	s, ses := j.store, j.at.Session
	if j.at.Unsure {
		found, err := s.voidRequests(ctx, ses, []position{j.at})
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return errEpoch // it has the key by now
		}
		j.at.Unsure = false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions.Is(ses) {
		s.slots.move(j.Name, j.ID, func(slot int) bool {
			key := s.keys.claim(j.Name, ses.Handle, slot)
			return slices.ContainsFunc(entries, func(e entry) bool { return string(e.kv.Key) == key })
		})
	}
	return errEpoch
}

// joined returns the status of a claim that was just put at the end of the queue, from what was read ahead of it.
func (j *joining) joined(
	ctx context.Context, revision int64, ahead *etcdserverpb.RangeResponse,
) (status store.Status, err error) {
	c := j.claim(uint64(revision), revision) //nolint:gosec // a revision
	c.state, c.blocker, err = j.judge(ctx, ahead.Kvs)
	return j.land(ctx, c, int(ahead.Count), err)
}

// claim returns the claim with a ticket, as of a revision.
func (j *joining) claim(ticket uint64, asOf int64) *claim {
	c := &claim{Position: j.at, joined: j.began, ask: j.Demand, asOf: asOf, written: j.value, mod: asOf}
	c.Ticket = ticket
	return c
}

// land adds the claim with its state, and returns its status. If there is an error, or a Try is not held, it deletes
// the claim.
func (j *joining) land(ctx context.Context, c *claim, ahead int, err error) (store.Status, error) {
	s := j.store
	if err == nil && (c.Ticket <= j.Floor || c.Ticket > store.MaxTicket) { // an etcd that was restored from a backup
		err = fmt.Errorf("%w: it is at revision %d, and %d was seen", store.ErrFloor, c.Ticket, j.Floor)
	}
	if (err != nil || j.Try && c.state != store.Held) && !s.stands(j.ID, c.Ticket) {
		if failed := s.deletes.Now(ctx, c.Position); failed != nil {
			j.at.Unsure = true // it may still stand: that is no final error
			return store.Status{}, failed
		}
		j.at.Unsure = false
		return store.Status{Ahead: ahead}, err
	}
	if err := s.sessions.Freshen(ctx, j.at.Session); err != nil {
		return store.Status{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sessions.Is(j.at.Session) {
		return store.Status{}, errEpoch // it is gone with its session
	}
	known := s.admit(c)
	switch {
	case known.state == store.Held || known.asOf > c.asOf: // more is known already
	case c.state == store.Held:
		s.hold(known)
	default:
		s.waitFor(known, c.blocker, c.asOf)
	}
	return j.at.Session.Status(known.state, known.Ticket, ahead), nil
}

// stands reports whether the claim is known with this ticket. Then a Join only returns its status (step 3 of
// store.Store's Join).
func (s *Store) stands(id store.ID, ticket uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[id]
	return c != nil && c.Ticket == ticket
}

// judge returns the state of the claim and what blocks it, from what was read ahead of it.
func (j *joining) judge(ctx context.Context, kvs []*mvccpb.KeyValue) (state store.State, b blocker, err error) {
	ahead, err := decodeLine(kvs)
	if err == nil {
		err = mismatch(ahead, j.Claim)
		// Only the claim before was read, which may itself be about to be withdrawn. The head of the queue decides.
		if err != nil && j.Units == j.Limit {
			var head []entry
			if head, _, err = j.store.readEntries(ctx, j.store.keys.readHead(j.Name)); err == nil {
				err = mismatch(head, j.Claim)
			}
		}
	}
	if err != nil {
		return store.Waiting, blocker{}, err
	}
	state, b = evaluate(ahead, j.Demand)
	return state, b, nil
}
