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

	"github.com/holdfast-go/holdfast/line"
	"github.com/holdfast-go/holdfast/store"
)

// A joining is one call of Join.
type joining struct {
	*store.Claim
	store   *Store
	session *session // under which it has sat down
	epoch   int64    // of the session then
	key     string
	value   string
	began   time.Time
	unsure  bool    // something that it sent may still be done
	there   []entry // who was in the line when it was tried
}

// Join implements store.Store.
func (s *Store) Join(ctx context.Context, c store.Claim) (store.Standing, error) {
	if err := s.check(ctx, c.Name); err != nil {
		return store.Standing{}, err
	}
	if store.FloorTooHigh(c.Floor, time.Now()) { // etcd has no clock to ask
		return store.Standing{}, store.ErrFloor
	}
	within, cancel := within(ctx, c.TTL)
	defer cancel()
	j := &joining{Claim: &c, store: s, began: time.Now()}
	for range epochTries {
		ses, err := s.current(within)
		if err == nil {
			err = s.paid(within, c.ID)
		}
		if err != nil {
			return store.Standing{}, s.failed(ctx, within, c.TTL, err)
		}
		if !j.sitDown(ses) {
			continue
		}
		standing, again, err := j.attempt(within, ses)
		if err != nil || !again && standing.State == store.Gone {
			err = s.failed(ctx, within, c.TTL, err)
			return standing, j.standUp(ctx, within, ses, err)
		}
		if !again {
			return standing, nil
		}
	}
	return store.Standing{}, j.standUp(ctx, within, j.session, s.fault(ctx, errEpoch))
}

// epochTries is how often a Join is tried while the session's epoch changes, or the session itself.
const epochTries = 20

var errEpoch = errors.New("its session changes too fast")

// sitDown takes a seat for the claim under a session. It says whether the session is still there, and nothing is owed.
func (j *joining) sitDown(ses *session) bool {
	s := j.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, owed := s.debts[j.ID]; owed || s.session != ses {
		return false
	}
	if j.session != ses { // under another session, nothing of what was sent before can land
		j.session, j.unsure = ses, false
	}
	j.key, j.epoch = s.seat(ses, j.Name, j.ID), ses.epoch.Load()
	return true
}

// inEpoch is true in etcd while the session lives and its epoch is the one in which the claim sat down.
func (j *joining) inEpoch() clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(j.session.key), "=", j.epoch)
}

// standUp is for a claim that was not joined: it gives the seat back. If something that was sent may still be done, it is
// made void first; where that fails, the error is not final.
func (j *joining) standUp(ctx, within context.Context, ses *session, err error) error {
	s := j.store
	d := debt{id: j.ID, name: j.Name, key: j.key, session: ses, unsure: true}
	switch {
	case err != nil && !store.Final(err):
		s.owe(d) // if it never sat down there is no session, and nothing is owed
	case j.unsure:
		if failed := s.repay(within, d); failed != nil {
			return notFinal(s.failed(ctx, within, j.TTL, failed))
		}
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, owed := s.debts[j.ID]; !owed && s.places[j.ID] == nil && s.session == ses {
			s.vacate(j.Name, j.ID)
		}
	}
	return err
}

// notFinal is the error about a claim that may still stand. Whatever it is, it may go away.
func notFinal(err error) error {
	if f, ok := errors.AsType[*store.Fault](err); ok && f.Final {
		return &store.Fault{Store: f.Store, Err: f.Err}
	}
	return err
}

// attempt joins under a session. Again says that the session, or what was known of it, has changed meanwhile.
func (j *joining) attempt(ctx context.Context, ses *session) (standing store.Standing, again bool, err error) {
	s := j.store
	r := record{
		ID: j.ID, Kind: j.Kind, Units: j.Units, Limit: j.Limit, TTL: ses.ttl.Milliseconds(), Joined: millis(j.began),
		Turn: j.Turn, Owner: j.Owner, Waits: j.Waits,
	}
	j.value = r.encode()
	if j.Try {
		joined, standing, again, err := j.try(ctx, ses)
		if joined || again || err != nil {
			return standing, again, err
		}
		if !j.mayFit(&standing) {
			return standing, false, nil
		}
	}
	answer, unsure, err := s.commit(ctx, transaction{
		when:   []clientv3.Cmp{j.inEpoch(), clientv3.Compare(clientv3.CreateRevision(j.key), "=", 0)},
		then:   []clientv3.Op{j.whoIsThere(), j.put()},
		orElse: j.whyNot(ses),
	})
	j.unsure = j.unsure || unsure
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		s.lose(ses)
		return standing, true, nil
	case err != nil:
		return standing, false, err
	case !answer.Succeeded:
		return j.refused(ctx, ses, answer)
	}
	return j.joined(ctx, ses, answer.Header.Revision, answer.Responses[0].GetResponseRange())
}

// put puts the claim at the end of the line.
func (j *joining) put() clientv3.Op {
	return clientv3.OpPut(j.key, j.value, clientv3.WithLease(j.session.lease))
}

// whoIsThere reads who stands in the line before the claim is put at its end: for one that wants everything only the last,
// for the others all.
func (j *joining) whoIsThere() clientv3.Op {
	line := j.store.keys.line(j.Name)
	if j.Units == j.Limit {
		return clientv3.OpGet(line, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend), clientv3.WithLimit(1))
	}
	return clientv3.OpGet(line, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
}

// whyNot reads why a Join was not done: the session is gone or has another epoch, or otherwise the claim stands already.
func (j *joining) whyNot(ses *session) []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(ses.key, clientv3.WithKeysOnly())}
}

// refused finds out why a Join was not done.
func (j *joining) refused(ctx context.Context, ses *session, answer *clientv3.TxnResponse) (standing store.Standing, again bool, err error) {
	s := j.store
	sessions := answer.Responses[0].GetResponseRange().Kvs
	switch {
	case len(sessions) == 0 || sessions[0].ModRevision < j.epoch: // it is gone, or etcd went back in time (see look)
		s.lose(ses)
		return standing, true, nil
	case sessions[0].ModRevision > j.epoch:
		ses.opened(sessions[0].ModRevision)
		return standing, true, nil
	}
	// It stands already: an answer was lost, or the claim joins twice at once.
	entries, revision, err := s.read(ctx, j.Name)
	if err != nil {
		return standing, false, err
	}
	at := slices.IndexFunc(entries, func(e entry) bool { return string(e.kv.Key) == j.key })
	switch {
	case at < 0:
		return standing, false, nil // it did, and is gone
	case entries[at].kv.Lease != int64(ses.lease):
		return standing, false, s.unreadable(entries[at].kv.Key, errForeign)
	case entries[at].ID != j.ID:
		// It is of this session, and nobody knows of it: nobody else would ever take it out.
		return standing, true, s.takeOut(ctx, []debt{{key: j.key, session: ses, ticket: entries[at].ticket()}})
	}
	own := entries[at]
	l := landing{ticket: own.ticket(), asOf: revision, value: string(own.kv.Value), mod: own.kv.ModRevision, ahead: at}
	j.Units = min(j.Units, own.Units)
	if at > 0 && line.Mismatch(entries[0].ask(), j.Ask) {
		err = &store.MismatchError{InUse: entries[0].ask()}
	}
	l.state, l.blocker = evaluate(entries[:at], j.Ask)
	return j.land(ctx, ses, l, err)
}

// joined finds out where the claim stands that was just put at the end of the line, behind those who were there.
func (j *joining) joined(ctx context.Context, ses *session, revision int64, there *etcdserverpb.RangeResponse) (standing store.Standing, again bool, err error) {
	l := landing{ticket: uint64(revision), asOf: revision, value: j.value, mod: revision, ahead: int(there.Count)} //nolint:gosec // a revision
	l.state, l.blocker, err = j.judge(ctx, there.Kvs)
	return j.land(ctx, ses, l, err)
}

// A landing is where a claim came to stand.
type landing struct {
	ticket  uint64
	asOf    int64 // the revision at which it stood so
	value   string
	mod     int64
	state   store.State
	blocker blocker
	ahead   int
}

// land takes the claim into the line, or takes it out again if it may not stand there.
func (j *joining) land(ctx context.Context, ses *session, l landing, err error) (standing store.Standing, again bool, _ error) {
	s := j.store
	if err == nil && (l.ticket <= j.Floor || l.ticket > store.MaxTicket) { // an etcd that was restored from a backup
		err = fmt.Errorf("%w: it is at revision %d, and %d was seen", store.ErrFloor, l.ticket, j.Floor)
	}
	if (err != nil || j.Try && l.state != store.Held) && !s.stands(j.ID, l.ticket) {
		d := debt{id: j.ID, name: j.Name, key: j.key, session: ses, ticket: l.ticket, unsure: j.unsure}
		if failed := s.repay(ctx, d); failed != nil {
			j.unsure = true // it may still stand: that is no final error
			return standing, false, failed
		}
		j.unsure = false
		return store.Standing{Ahead: l.ahead}, false, err
	}
	if err := s.freshen(ctx, ses); err != nil {
		return standing, false, err
	}
	s.mu.Lock()
	defer s.unlock()
	if s.session != ses {
		return standing, true, nil // it is gone with its session
	}
	p := s.admit(j, ses, &l)
	switch {
	case p.state == store.Held || p.asOf > l.asOf: // it is known better
	case l.state == store.Held:
		s.hold(p, false)
	default:
		s.waitFor(p, l.blocker, l.asOf)
	}
	return ses.standing(p.state, p.ticket, l.ahead), false, nil
}

// stands says whether a claim is known to stand. Then a Join only asks where (step 3 of store.Store's Join).
func (s *Store) stands(id store.ID, ticket uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[id]
	return p != nil && p.ticket == ticket
}

// judge says where the claim stands behind those who were there.
func (j *joining) judge(ctx context.Context, there []*mvccpb.KeyValue) (store.State, blocker, error) {
	ahead, err := j.store.decodeLine(there)
	switch {
	case err != nil:
		return store.Gone, blocker{}, err
	case len(ahead) == 0:
		return store.Held, blocker{}, nil
	case j.Units == j.Limit && line.Mismatch(ahead[0].ask(), j.Ask):
		// The one before may itself be about to be withdrawn. What counts is the head of the line.
		if err := j.matchesHead(ctx); err != nil {
			return store.Gone, blocker{}, err
		}
	case line.Mismatch(ahead[0].ask(), j.Ask):
		return store.Gone, blocker{}, &store.MismatchError{InUse: ahead[0].ask()}
	}
	state, b := evaluate(ahead, j.Ask)
	return state, b, nil
}

// matchesHead compares the claim with the head of its line.
func (j *joining) matchesHead(ctx context.Context) error {
	s := j.store
	answer, _, err := s.commit(ctx, transaction{then: []clientv3.Op{s.head(j.Name)}})
	if err != nil {
		return err
	}
	entries, err := s.decodeLine(answer.Responses[0].GetResponseRange().Kvs)
	if err == nil && len(entries) > 0 && line.Mismatch(entries[0].ask(), j.Ask) {
		err = &store.MismatchError{InUse: entries[0].ask()}
	}
	return err
}

// head reads the first of a line.
func (s *Store) head(name string) clientv3.Op {
	return clientv3.OpGet(s.keys.line(name), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(1))
}

// freshen renews a session that has little time left, so that what was granted is of some use.
func (s *Store) freshen(ctx context.Context, ses *session) error {
	if time.Until(*ses.until.Load()) > ses.ttl/2 {
		return nil
	}
	return s.beats.ask().await(ctx)
}
