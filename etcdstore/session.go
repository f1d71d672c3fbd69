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
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"github.com/holdfast-go/holdfast/internal/endpoint"
	"github.com/holdfast-go/holdfast/internal/pause"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A lease is a session in etcd. It has its own key, whose mod revision is the session's epoch. A Join is carried out
// only in the epoch in which it was sent, and so are Detach and Attach. So writing the key once more makes all of them
// that are in flight void forever: their names need no tombstones, and no late arrival has to be detected (rule 8 of
// package store).
type lease struct {
	id    clientv3.LeaseID
	name  string // id, as it is written in keys
	key   string
	epoch atomic.Int64
}

type session = frame.Session[*lease]

// raiseEpoch sets the epoch to this revision, unless it is later already.
func (l *lease) raiseEpoch(epoch int64) {
	for old := l.epoch.Load(); epoch > old && !l.epoch.CompareAndSwap(old, epoch); old = l.epoch.Load() {
	}
}

// readKey returns the operation that reads the lease's key, without its value.
func (l *lease) readKey() clientv3.Op { return clientv3.OpGet(l.key, clientv3.WithKeysOnly()) }

// inEpoch returns the comparison that is true in etcd while the session lives and is in this epoch.
func (l *lease) inEpoch(epoch int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(l.key), "=", epoch)
}

// A lessor makes leases. It implements frame.SessionServer.
type lessor struct {
	etcd        *cluster
	renewals    renewals
	keys        keySpace
	ttl         time.Duration // to ask for
	description string        // what a session's key says, for operators
}

func newLessor(life context.Context, etcd *cluster, keys keySpace, ttl time.Duration) *lessor {
	return &lessor{
		etcd: etcd, renewals: renewals{etcd: etcd, life: life}, keys: keys, ttl: ttl, description: endpoint.Process(),
	}
}

// Open implements frame.SessionServer: it grants a lease, and writes its key. If the lease has ended by then, because
// the server paused or lost its data, it grants another, for as long as ctx allows.
func (l *lessor) Open(ctx context.Context) (made *lease, ttl time.Duration, sent time.Time, err error) {
	for {
		made, ttl, sent, err = l.openOnce(ctx)
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			return made, ttl, sent, err
		}
		if !pause.For(ctx, electionPause) {
			return nil, 0, sent, err
		}
	}
}

func (l *lessor) openOnce(ctx context.Context) (_ *lease, ttl time.Duration, sent time.Time, err error) {
	var granted *etcdserverpb.LeaseGrantResponse
	a := l.etcd.attempts(ctx)
	for a.next() {
		sent = time.Now()
		granted, a.err = l.etcd.leases.LeaseGrant(a.ctx, &etcdserverpb.LeaseGrantRequest{TTL: seconds(l.ttl)})
	}
	if a.err != nil {
		return nil, 0, sent, a.err
	}
	name := fmt.Sprintf("%016x", granted.ID)
	made := &lease{id: clientv3.LeaseID(granted.ID), name: name, key: l.keys.sessions + name}
	response, _, err := l.etcd.commit(ctx, transaction{
		then: []clientv3.Op{clientv3.OpPut(made.key, format+l.description, clientv3.WithLease(made.id))},
	})
	if err != nil {
		return nil, 0, sent, err // the lease expires
	}
	made.raiseEpoch(response.Header.Revision)
	ttl = time.Duration(granted.TTL) * time.Second
	l.ttl = max(l.ttl, ttl) // the store has promised the first one's ttl, and later ones are not to be shorter
	return made, ttl, sent, nil
}

// seconds returns a ttl as etcd has it: in whole seconds, rounded up.
func seconds(ttl time.Duration) int64 { return int64((ttl + time.Second - 1) / time.Second) }

// electionPause is the pause of a renewal during an election, and of Open after a lease was lost.
const electionPause = 20 * time.Millisecond

// Renew implements frame.SessionServer.
//
// A leader that was suspended and deposed renews leases until it learns of its successor, which counts from its own
// election and may be about to revoke them. So each renewal is accompanied by a read that only the real leader can
// serve. If both responses are of one term, there was no election before they were requested; and every leader that is
// elected later gives each lease its whole ttl again.
func (l *lessor) Renew(ctx context.Context, of *lease) (stands bool, sent time.Time, err error) {
	for {
		sent = time.Now()
		oneTerm, stands, err := l.renewOnce(ctx, of)
		if err != nil || !stands || oneTerm {
			return stands, sent, err
		}
		l.renewals.drop()             // other members may have heard of it sooner
		pause.For(ctx, electionPause) // there is a new leader, or about to be one
	}
}

// renewOnce renews a lease and reads its key at the same time. It reports whether both responses are of one term, and
// whether etcd still has the session.
func (l *lessor) renewOnce(ctx context.Context, of *lease) (oneTerm, stands bool, err error) {
	var read *clientv3.TxnResponse
	var readErr error
	var reading sync.WaitGroup
	reading.Go(func() { read, _, readErr = l.etcd.commit(ctx, transaction{then: []clientv3.Op{of.readKey()}}) })
	var renewal *etcdserverpb.LeaseKeepAliveResponse
	a := l.etcd.attempts(ctx)
	for a.next() {
		renewal, a.err = l.renewals.renew(a.ctx, of.id)
	}
	reading.Wait()
	if err := cmp.Or(a.err, readErr); err != nil {
		return false, false, err
	}
	stands = renewal.TTL > 0 && len(results(read.Responses).kvs(0)) > 0
	return renewal.Header.RaftTerm == read.Header.RaftTerm, stands, nil
}

// End revokes a lease.
func (l *lessor) End(ctx context.Context, of *lease) {
	if l.etcd.client.ActiveConnection().GetState() != connectivity.Ready {
		return
	}
	l.etcd.revokeLease(ctx, of.id)
}

// renewals is the stream over which leases are renewed, one renewal at a time. The client library's KeepAliveOnce would
// open one for each renewal: where etcd has users, that is a login each time, which is slow on purpose.
type renewals struct {
	etcd   *cluster
	life   context.Context
	stream etcdserverpb.Lease_LeaseKeepAliveClient // nil: none is open
	ctx    context.Context                         // the stream's
	cancel context.CancelFunc
}

// renew sends one renewal and returns its response, whose TTL is 0 if the lease has ended. The stream stays open for
// the next renewal. If it has ended since the last one, because its login has expired or its server was restarted,
// another stream is opened.
func (r *renewals) renew(ctx context.Context, id clientv3.LeaseID) (*etcdserverpb.LeaseKeepAliveResponse, error) {
	old := r.stream != nil
	response, err := r.renewOnce(ctx, id)
	if err != nil && old && ctx.Err() == nil {
		response, err = r.renewOnce(ctx, id)
	}
	return response, err
}

// renewOnce sends one renewal over the stream, which it opens if there is none. A stream that did not respond in time
// is dropped, so that no response is taken for another's.
func (r *renewals) renewOnce(
	ctx context.Context, id clientv3.LeaseID,
) (response *etcdserverpb.LeaseKeepAliveResponse, err error) {
	if r.stream == nil {
		r.ctx, r.cancel = context.WithCancel(r.life)
	}
	stop := context.AfterFunc(ctx, r.cancel)
	defer stop()
	if r.stream == nil {
		r.stream, err = r.etcd.leases.LeaseKeepAlive(clientv3.WithRequireLeader(r.ctx))
	}
	if err == nil {
		_ = r.stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(id)}) // if it fails, Recv says why
		response, err = r.stream.Recv()
	}
	if err == nil && response.ID != int64(id) {
		err = errors.New("etcd answered for another lease")
	}
	if err != nil {
		r.drop()
		return nil, cmp.Or(ctx.Err(), err)
	}
	return response, nil
}

// drop closes the stream.
func (r *renewals) drop() {
	if r.cancel != nil {
		r.cancel()
	}
	r.stream = nil
}
