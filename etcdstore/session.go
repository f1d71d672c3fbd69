package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
)

// A session is a lease that all claims of this client share. When it is lost, all of them are gone.
//
// It has a key of its own, whose mod revision is the session's epoch. A Join counts only in the epoch in which it was
// sent. So one that may still be on its way can be made void for ever, by writing the key once more: no tombstone is
// needed for its name, and nobody has to look out for what might land late (rule 8 of package store).
type session struct {
	lease clientv3.LeaseID
	ttl   time.Duration // as the server granted it
	name  string        // the lease in keys
	key   string
	epoch atomic.Int64
	until atomic.Pointer[time.Time]
}

// drift is how much earlier than the server a client believes its session to be over: the two clocks may differ in pace
// by 1 %.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// acknowledged notes that the server has renewed the session when it got what was sent then. The server counts from when
// it got it, which was later (rule 5).
func (ses *session) acknowledged(sent time.Time) {
	until := sent.Add(ses.ttl - drift(ses.ttl))
	if old := ses.until.Load(); old == nil || until.After(*old) {
		ses.until.Store(&until)
	}
}

// opened says that the epoch is no earlier than this revision.
func (ses *session) opened(epoch int64) {
	for old := ses.epoch.Load(); epoch > old && !ses.epoch.CompareAndSwap(old, epoch); old = ses.epoch.Load() {
	}
}

// current is the session, or a new one if there is none.
func (s *Store) current(ctx context.Context) (*session, error) {
	for {
		s.mu.Lock()
		ses := s.session
		s.mu.Unlock()
		if ses != nil {
			return ses, nil
		}
		if err := s.openings.ask().await(ctx); err != nil {
			return nil, err
		}
	}
}

// openSession makes a session. It is done by one goroutine at a time.
func (s *Store) openSession() error {
	s.mu.Lock()
	there := s.session != nil
	s.mu.Unlock()
	switch {
	case there:
		return nil
	case s.closed.Load():
		return store.ErrClosed
	}
	ctx, cancel := context.WithTimeout(s.life, askTimeout)
	defer cancel()
	ses, err := s.newSession(ctx)
	if err != nil {
		return s.failed(s.life, ctx, askTimeout, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return store.ErrClosed // its lease runs out
	}
	s.session = ses
	select {
	case s.began <- struct{}{}:
	default:
	}
	return nil
}

func (s *Store) newSession(ctx context.Context) (*session, error) {
	ses := &session{}
	var sent time.Time
	_, err := s.elsewhere(ctx, func(ctx context.Context) error {
		sent = time.Now()
		granted, err := s.leases.LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{TTL: int64((s.ttl + time.Second - 1) / time.Second)})
		if err == nil {
			ses.lease, ses.ttl = clientv3.LeaseID(granted.ID), time.Duration(granted.TTL)*time.Second
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	ses.acknowledged(sent)
	ses.name = fmt.Sprintf("%016x", int64(ses.lease))
	ses.key = s.keys.sessions + ses.name
	answer, _, err := s.commit(ctx, transaction{
		then: []clientv3.Op{clientv3.OpPut(ses.key, format+s.about, clientv3.WithLease(ses.lease))},
	})
	if err != nil {
		return nil, err // the lease runs out
	}
	ses.opened(answer.Header.Revision)
	return ses, nil
}

// lose ends a session that the server has no more. All of its claims are gone, and what was still to be cleaned up is too.
func (s *Store) lose(ses *session) {
	s.mu.Lock()
	defer s.unlock()
	s.forsake(ses)
}

// forsake is lose with mu held.
func (s *Store) forsake(ses *session) {
	if s.session != ses {
		return
	}
	s.session = nil
	clear(s.debts)
	clear(s.seats)
	for _, p := range s.places {
		s.gone(p)
	}
}

// beat says to the server that the session lives on, and notes up to when it does. It is done by one goroutine at a time.
//
// A leader that was suspended and deposed renews leases until it hears of its successor, which counts from its election
// and may be about to take them away. So each renewal goes along with a read that only the real leader can answer. If both
// answers are of one term, nobody was elected before they were asked for; and whoever is elected later gives every lease
// its whole ttl again.
func (s *Store) beat() error {
	s.mu.Lock()
	ses := s.session
	s.mu.Unlock()
	if ses == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.life, ses.ttl/2)
	defer cancel()
	for {
		sent := time.Now()
		oneTerm, stands, err := s.beatOnce(ctx, ses)
		switch {
		case err != nil:
			return s.failed(s.life, ctx, ses.ttl/2, err)
		case !stands:
			s.lose(ses)
			return nil
		case oneTerm:
			ses.acknowledged(sent)
			return nil
		}
		s.pulse.drop() // others may have heard of it sooner
		select {       // there is a new leader, or about to be one
		case <-time.After(electionPause):
		case <-ctx.Done():
		}
	}
}

// electionPause is how long a beat waits that met with an election.
const electionPause = 20 * time.Millisecond

// beatOnce renews the session and reads its key at the same time. It says whether both were answered in one term, and
// whether the session stands.
func (s *Store) beatOnce(ctx context.Context, ses *session) (oneTerm, stands bool, err error) {
	var read *clientv3.TxnResponse
	var readErr error
	var reading sync.WaitGroup
	reading.Go(func() {
		read, _, readErr = s.commit(ctx, transaction{then: []clientv3.Op{clientv3.OpGet(ses.key, clientv3.WithKeysOnly())}})
	})
	var renewal *etcdserverpb.LeaseKeepAliveResponse
	_, err = s.elsewhere(ctx, func(ctx context.Context) (err error) {
		renewal, err = s.pulse.renew(ctx, ses.lease)
		return err
	})
	reading.Wait()
	if err := cmp.Or(err, readErr); err != nil {
		return false, false, err
	}
	stands = renewal.TTL > 0 && len(read.Responses[0].GetResponseRange().Kvs) > 0
	return renewal.Header.RaftTerm == read.Header.RaftTerm, stands, nil
}

// A pulse is the stream over which leases are renewed. It belongs to the goroutine that beats.
type pulse struct {
	open   func(context.Context) (etcdserverpb.Lease_LeaseKeepAliveClient, error)
	life   context.Context
	stream etcdserverpb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

// renew sends one renewal and waits for its answer, whose TTL is 0 if the lease is gone. The stream stays open for the next. If it has ended since the last time, because its login has run out or its server was restarted, that says
// nothing: another one is opened.
func (p *pulse) renew(ctx context.Context, lease clientv3.LeaseID) (*etcdserverpb.LeaseKeepAliveResponse, error) {
	old := p.stream != nil
	answer, err := p.renewOnce(ctx, lease)
	if err != nil && old && ctx.Err() == nil {
		answer, err = p.renewOnce(ctx, lease)
	}
	return answer, err
}

// renewOnce sends one renewal over the stream that there is, or a new one. A stream that did not answer in time is given up,
// so that no answer is taken for another's.
func (p *pulse) renewOnce(ctx context.Context, lease clientv3.LeaseID) (answer *etcdserverpb.LeaseKeepAliveResponse, err error) {
	if p.stream == nil {
		var within context.Context
		within, p.cancel = context.WithCancel(p.life)
		stop := context.AfterFunc(ctx, p.cancel)
		p.stream, err = p.open(within)
		stop()
	}
	if err == nil {
		stop := context.AfterFunc(ctx, p.cancel)
		answer, err = p.exchange(lease)
		stop()
	}
	if err == nil {
		return answer, nil
	}
	p.cancel()
	p.stream = nil
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return nil, err
}

// drop gives the stream up.
func (p *pulse) drop() {
	if p.stream != nil {
		p.cancel()
		p.stream = nil
	}
}

func (p *pulse) exchange(lease clientv3.LeaseID) (*etcdserverpb.LeaseKeepAliveResponse, error) {
	if err := p.stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(lease)}); err != nil {
		if _, reason := p.stream.Recv(); reason != nil { // Send says only that it has ended
			err = reason
		}
		return nil, err
	}
	answer, err := p.stream.Recv()
	switch {
	case err != nil:
		return nil, err
	case answer.ID != int64(lease):
		return nil, errors.New("etcd answered for another lease")
	}
	return answer, nil
}

// live beats for as long as the store lives, a third of the ttl after it last did, and cleans up after what failed.
func (s *Store) live() {
	for s.life.Err() == nil {
		s.mu.Lock()
		ses := s.session
		s.mu.Unlock()
		if ses == nil {
			select {
			case <-s.began:
			case <-s.life.Done():
			}
			continue
		}
		due := time.Until(ses.until.Load().Add(drift(ses.ttl) - ses.ttl*2/3))
		if s.failing {
			due = max(due, ses.ttl/12)
		}
		select {
		case <-time.After(due):
		case <-s.life.Done():
			return
		}
		s.failing = s.beats.ask().await(s.life) != nil
		if s.failing {
			s.client.ActiveConnection().ResetConnectBackoff() // a server that is back is not to be waited for
		} else {
			s.lookout.prod()
			_ = s.payments.ask().await(s.life) // what fails is tried again after the next beat
		}
	}
}

// revoke gives the session back, if the server can be reached.
func (s *Store) revoke() {
	s.mu.Lock()
	ses := s.session
	s.session = nil
	s.mu.Unlock()
	if ses == nil || !s.reachable() {
		return // it runs out
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_, _ = s.elsewhere(ctx, func(ctx context.Context) error { // if it fails, it runs out
		_, err := s.leases.LeaseRevoke(ctx, &etcdserverpb.LeaseRevokeRequest{ID: int64(ses.lease)})
		return err
	})
}

// standing is that of a claim under this session.
func (ses *session) standing(state store.State, ticket uint64, ahead int) store.Standing {
	if state == store.Gone {
		return store.Standing{}
	}
	return store.Standing{State: state, Ticket: ticket, Until: *ses.until.Load(), Ahead: ahead}
}
