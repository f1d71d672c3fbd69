package etcdstore

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/grant"
)

// A leaseServer is an etcd that grants the lease 7 after a while, and renews it as a test says.
type leaseServer struct {
	etcdserverpb.LeaseClient
	grants time.Duration
	renew  func() (*etcdserverpb.LeaseKeepAliveResponse, error)
	opened int // streams of renewals
}

func (l *leaseServer) LeaseGrant(
	_ context.Context, r *etcdserverpb.LeaseGrantRequest, _ ...grpc.CallOption,
) (*etcdserverpb.LeaseGrantResponse, error) {
	time.Sleep(l.grants)
	return &etcdserverpb.LeaseGrantResponse{ID: 7, TTL: r.TTL}, nil
}

func (l *leaseServer) LeaseKeepAlive(
	ctx context.Context, _ ...grpc.CallOption,
) (etcdserverpb.Lease_LeaseKeepAliveClient, error) {
	l.opened++
	return &renewalStream{ctx: ctx, renew: l.renew}, nil
}

type renewalStream struct {
	grpc.ClientStream
	ctx   context.Context
	renew func() (*etcdserverpb.LeaseKeepAliveResponse, error)
}

func (r *renewalStream) Send(*etcdserverpb.LeaseKeepAliveRequest) error { return r.ctx.Err() }

func (r *renewalStream) Recv() (*etcdserverpb.LeaseKeepAliveResponse, error) {
	response, err := r.renew()
	return response, errors.Join(err, r.ctx.Err())
}

// A renewedStore is a store that has a session of ten seconds, in fake time, and no server but for renewals.
type renewedStore struct {
	*Store
	server *leaseServer
}

func renewed(t *testing.T, renew func() (*etcdserverpb.LeaseKeepAliveResponse, error),
	test func(*testing.T, renewedStore)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFrame(nil, "")
		defer f.Wait()
		defer f.End()
		server := &leaseServer{renew: renew}
		s := newStore(f, clientv3.NewCtxClient(t.Context()), false, settings{ttl: 10 * time.Second})
		s.etcd.leases = server
		transacts(s, 0, inTerm(3))
		test(t, renewedStore{s, server})
	})
}

// current is the session, which is begun if there is none.
func (s renewedStore) current(t *testing.T) *session {
	t.Helper()
	ses, err := s.sessions.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return ses
}

// renewNow renews the session.
func (s renewedStore) renewNow() error { return s.sessions.Renew().Await(context.Background()) }

func lives(seconds int64) *etcdserverpb.LeaseKeepAliveResponse {
	return &etcdserverpb.LeaseKeepAliveResponse{ID: 7, TTL: seconds, Header: &etcdserverpb.ResponseHeader{RaftTerm: 3}}
}

// A session is believed for its ttl from when the renewal was sent, less the drift, however late the answer comes.
func TestUntilCountsFromSending(t *testing.T) {
	answer := func() (*etcdserverpb.LeaseKeepAliveResponse, error) {
		time.Sleep(3 * time.Second)
		return lives(10), nil
	}
	renewed(t, answer, func(t *testing.T, s renewedStore) {
		ses := s.current(t)
		time.Sleep(time.Second)
		sent := time.Now()
		if err := s.renewNow(); err != nil {
			t.Fatal(err)
		}
		if got, want := ses.Until().Sub(sent), 10*time.Second-102*time.Millisecond; got != want {
			t.Errorf("it is believed for %v after the renewal was sent; want %v", got, want)
		}
	})
}

// A session that the server has no more is lost with all its claims.
func TestLostSession(t *testing.T) {
	answer := func() (*etcdserverpb.LeaseKeepAliveResponse, error) { return lives(0), nil }
	renewed(t, answer, func(t *testing.T, s renewedStore) {
		var told []store.ID
		s.Notify(func(id store.ID, status store.Status) {
			if status.State == store.Gone {
				told = append(told, id)
			}
		})
		ses := s.current(t)
		s.mu.Lock()
		s.admit(&claim{Position: position{ID: store.ID{1}, Session: ses}, state: store.Held})
		s.mu.Unlock()
		if err := s.renewNow(); err != nil {
			t.Fatal(err)
		}
		if len(s.claims) != 0 || len(told) != 1 || s.current(t) == ses {
			t.Errorf("%d claims, told %v", len(s.claims), told)
		}
	})
}

// A stream that did not answer in time is not used again: its next answer would be the last question's.
func TestSilentRenewalIsGivenUp(t *testing.T) {
	silent := true
	answer := func() (*etcdserverpb.LeaseKeepAliveResponse, error) {
		if silent {
			time.Sleep(6 * time.Second)
		}
		return lives(10), nil
	}
	renewed(t, answer, func(t *testing.T, s renewedStore) {
		ses := s.current(t)
		until := ses.Until()
		if err := s.renewNow(); err == nil || store.Final(err) {
			t.Fatalf("a renewal without an answer: %v", err)
		}
		if !ses.Until().Equal(until) {
			t.Error("a renewal that was not answered in time has moved Until")
		}
		silent = false
		if err := s.renewNow(); err != nil || s.server.opened != 2 {
			t.Errorf("%v, and %d streams were opened", err, s.server.opened)
		}
		if err := s.renewNow(); err != nil || s.server.opened != 2 {
			t.Errorf("%v, and %d streams were opened in the end", err, s.server.opened)
		}
	})
}

// An answer for another lease renews nothing.
func TestAnswerForAnotherLease(t *testing.T) {
	answer := func() (*etcdserverpb.LeaseKeepAliveResponse, error) {
		return &etcdserverpb.LeaseKeepAliveResponse{ID: 8, TTL: 10}, nil
	}
	renewed(t, answer, func(t *testing.T, s renewedStore) {
		ses := s.current(t)
		until := ses.Until()
		time.Sleep(time.Second)
		if err := s.renewNow(); err == nil || !ses.Until().Equal(until) {
			t.Errorf("%v, and it is believed until %v", err, ses.Until())
		}
	})
}

// Where a claim stands behind others is the rule of package queue. What it waits for is enough to watch: as long as
// that stands as it does, the claim waits, whatever becomes of the others.
func TestEvaluate(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		ahead := make([]entry, random.IntN(5))
		for i := range ahead {
			ask := anAsk(random)
			ahead[i] = entry{
				record: record{Kind: ask.Kind, Units: ask.Units, Limit: ask.Limit},
				kv: &mvccpb.KeyValue{
					Key:            []byte{byte('a' + i)},
					CreateRevision: int64(i + 1),
					ModRevision:    int64(i + 7),
				},
			}
		}
		ask := anAsk(random)
		state, b := evaluate(ahead, ask)
		if want := stateBehind(ahead, ask); state != want {
			t.Fatalf("%+v behind %+v: %v; want %v", ask, ahead, state, want)
		}
		if state == store.Held || b.key == "" {
			continue
		}
		at := ahead[b.key[0]-'a']
		if stateBehind([]entry{at}, ask) != store.Waiting || b != newBlocker(at.kv) {
			t.Fatalf("%+v behind %+v waits for %+v", ask, ahead, b)
		}
		if ask.Units == ask.Limit && at.kv != ahead[len(ahead)-1].kv {
			t.Fatalf("%+v behind %+v waits for %+v, and not for the one before it: all would be told at once", ask,
				ahead, b)
		}
	}
	reader := store.Demand{Kind: store.Lock, Units: 1, Limit: store.MaxReaders}
	writer := entry{
		record: record{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders},
		kv:     &mvccpb.KeyValue{Key: []byte("a")},
	}
	if _, b := evaluate([]entry{writer}, reader); b.key == "" {
		t.Error("a reader behind a writer watches the whole line")
	}
}

func anAsk(random *rand.Rand) store.Demand {
	asks := []store.Demand{
		{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders},
		{Kind: store.Lock, Units: 1, Limit: store.MaxReaders},
		{Kind: store.Semaphore, Units: 1, Limit: 3},
		{Kind: store.Semaphore, Units: 2, Limit: 3},
		{Kind: store.Semaphore, Units: 3, Limit: 3},
	}
	if random.IntN(4) > 0 {
		asks = asks[:2]
	}
	return asks[random.IntN(len(asks))]
}

func stateBehind(ahead []entry, ask store.Demand) store.State {
	held := grant.Held(func(yield func(store.Demand) bool) {
		for i := range ahead {
			if !yield(ahead[i].ask()) {
				return
			}
		}
		yield(ask)
	})
	if held > len(ahead) {
		return store.Held
	}
	return store.Waiting
}

// A slowKV does any transaction after a while, in a term, and has one key to show.
type slowKV struct {
	etcdserverpb.KVClient
	takes time.Duration
	term  func() uint64
	fails func() error // nil: none does
}

func (kv slowKV) Txn(context.Context, *etcdserverpb.TxnRequest, ...grpc.CallOption) (*etcdserverpb.TxnResponse, error) {
	time.Sleep(kv.takes)
	if kv.fails != nil {
		if err := kv.fails(); err != nil {
			return nil, err
		}
	}
	return &etcdserverpb.TxnResponse{
		Header: &etcdserverpb.ResponseHeader{Revision: 5, RaftTerm: kv.term()},
		Responses: []*etcdserverpb.ResponseOp{{Response: &etcdserverpb.ResponseOp_ResponseRange{
			ResponseRange: &etcdserverpb.RangeResponse{Kvs: []*mvccpb.KeyValue{{}}},
		}}},
	}, nil
}

// transacts has the store's transactions done so.
func transacts(s *Store, takes time.Duration, term func() uint64) {
	s.etcd.kv = clientv3.NewKVFromKVClient(slowKV{takes: takes, term: term}, s.etcd.client)
}

func inTerm(n uint64) func() uint64 { return func() uint64 { return n } }

// A renewal and a read that were responded to in two terms say nothing: the renewal may be of a leader that is none any
// more.
func TestRenewalInTwoTerms(t *testing.T) {
	answer := func() (*etcdserverpb.LeaseKeepAliveResponse, error) { return lives(10), nil }
	renewed(t, answer, func(t *testing.T, s renewedStore) {
		ses := s.current(t)
		began := time.Now()
		transacts(s.Store, 0, func() uint64 { // the leader of term 3 comes back after a second
			if time.Since(began) < time.Second {
				return 4
			}
			return 3
		})
		if err := s.renewNow(); err != nil {
			t.Fatal(err)
		}
		if got := ses.Until().Sub(began); got < 10*time.Second || got > 11*time.Second {
			t.Errorf("it is believed for %v", got)
		}
		if s.server.opened == 1 {
			t.Error("the same member was asked all the time")
		}
		began = began.Add(time.Hour)
		until := ses.Until()
		if err := s.renewNow(); err == nil || !ses.Until().Equal(until) {
			t.Errorf("after an answer of another leader: %v, and it is believed until %v", err, ses.Until())
		}
	})
}

// A new session is believed from when its lease was asked for.
func TestNewSessionCountsFromSending(t *testing.T) {
	renewed(t, nil, func(t *testing.T, s renewedStore) {
		s.server.grants = 3 * time.Second
		transacts(s.Store, 2*time.Second, inTerm(3))
		sent := time.Now()
		ses := s.current(t)
		if got, want := ses.Until().Sub(sent), 10*time.Second-102*time.Millisecond; got != want {
			t.Errorf("it is believed for %v after it was asked for; want %v", got, want)
		}
		if at := ses.Handle.epoch.Load(); at != 5 {
			t.Errorf("its epoch is %d", at)
		}
	})
}

// A lease that is gone when its key is written, because the server stood still for its ttl or has lost its data, is
// followed by another, for as long as the caller waits.
func TestNewLeaseIsGone(t *testing.T) {
	for _, lost := range []int64{3, math.MaxInt64} {
		renewed(t, nil, func(t *testing.T, s renewedStore) {
			var tries atomic.Int64 // the last ones are made when the caller waits no more
			s.etcd.kv = clientv3.NewKVFromKVClient(slowKV{term: inTerm(3), fails: func() error {
				if tries.Add(1) <= lost {
					return rpctypes.ErrGRPCLeaseNotFound
				}
				return nil
			}}, s.etcd.client)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := s.sessions.Current(ctx)
			switch n := tries.Load(); {
			case lost == 3 && (err != nil || n != 4):
				t.Errorf("%v after %d tries", err, n)
			case lost > 3 && (err == nil || ctx.Err() == nil || n < 10):
				t.Errorf("%v after %d tries, and the caller would still wait", err, n)
			}
		})
	}
}
