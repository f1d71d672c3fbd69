package etcdstore

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/store/frame"
)

// A cluster is the members of an etcd, one or several, that a client is connected with.
type cluster struct {
	client *clientv3.Client
	kv     clientv3.KV // over the client's connection, but not through a namespace
	leases etcdserverpb.LeaseClient
}

func newCluster(client *clientv3.Client) *cluster {
	conn := client.ActiveConnection()
	return &cluster{
		client: client,
		kv:     clientv3.NewKVFromKVClient(promptKV{etcdserverpb.NewKVClient(conn)}, client),
		leases: etcdserverpb.NewLeaseClient(conn),
	}
}

// A promptKV fails if there is no connection, so that the caller can decide. The client library waits for one for as
// long as a context allows.
type promptKV struct{ etcdserverpb.KVClient }

// Txn implements etcdserverpb.KVClient.
func (p promptKV) Txn(
	ctx context.Context, r *etcdserverpb.TxnRequest, options ...grpc.CallOption,
) (*etcdserverpb.TxnResponse, error) {
	return p.KVClient.Txn(ctx, r, append(options[:len(options):len(options)], grpc.WaitForReady(false))...)
}

// A transaction is what etcd does as one step.
type transaction struct {
	when   []clientv3.Cmp
	then   []clientv3.Op
	orElse []clientv3.Op
}

// commit has etcd do a transaction, by another member if the first does not respond: every transaction here may be done
// twice. unsure reports whether one that was sent may still be done later.
func (c *cluster) commit(ctx context.Context, t transaction) (response *clientv3.TxnResponse, unsure bool, err error) {
	a := c.attempts(ctx)
	for a.next() {
		response, a.err = c.kv.Txn(a.ctx).If(t.when...).Then(t.then...).Else(t.orElse...).Commit()
	}
	return response, a.unsure, a.err
}

// read does a transaction that only reads. It returns what each operation has found, and as of which revision.
func (c *cluster) read(ctx context.Context, ops ...clientv3.Op) (results, int64, error) {
	response, _, err := c.commit(ctx, transaction{then: ops})
	if err != nil {
		return nil, 0, err
	}
	return response.Responses, response.Header.Revision, nil
}

// results are those of a transaction's operations.
type results []*etcdserverpb.ResponseOp

// kvs returns what the i-th operation has read.
func (r results) kvs(i int) []*mvccpb.KeyValue { return r[i].GetResponseRange().Kvs }

// How long one member may take to respond if there are others: at first, and when all seem to be slow.
const (
	firstPatience = 150 * time.Millisecond
	lastPatience  = 2 * time.Second
)

// maxRefusals is how many members may refuse a call, or not be reached, before it fails.
const maxRefusals = 5

// attempts are those to make one call. It is made again if the member that it was sent to is silent, cannot be reached,
// or has no leader. The client sends each call to the next member, but all calls of the process take turns: so a call
// may well meet a silent member several times, and goes on for as long as its caller's context allows.
//
//	for a.next() {
//		response, a.err = call(a.ctx)
//	}
type attempts struct {
	ctx    context.Context // of this attempt
	err    error           // of this attempt
	unsure bool            // one that failed may nevertheless have been received

	caller   context.Context
	members  int
	refusals int
	patience time.Duration
	cancel   context.CancelFunc
}

func (c *cluster) attempts(ctx context.Context) attempts {
	return attempts{caller: ctx, members: len(c.client.Endpoints()), patience: firstPatience}
}

// next ends an attempt, and reports whether there is to be another, which it begins.
func (a *attempts) next() bool {
	if a.ctx != nil && a.over() {
		return false
	}
	a.ctx, a.cancel = a.caller, func() {}
	if a.members > 1 {
		a.ctx, a.cancel = frame.Bound(a.caller, a.patience)
		a.patience = min(a.patience*5/4, lastPatience)
	}
	return true
}

// over takes the outcome of an attempt, and reports whether it is that of the call.
func (a *attempts) over() bool {
	silent := a.ctx.Err() != nil
	a.cancel()
	if a.err == nil {
		return true
	}
	a.unsure = a.unsure || mayBeDone(a.err)
	if !silent {
		a.refusals++
	}
	switch {
	case a.members <= 1:
		return true
	case a.caller.Err() != nil && silent:
		a.err = a.caller.Err() // and not that this member's time was over, which means nothing to the caller
		return true
	}
	return a.caller.Err() != nil || !silent && !isUnavailable(a.err) || a.refusals == min(a.members, maxRefusals)
}

// mayBeDone reports whether a call that failed so may have been received, and be done. A refusal says that it was not
// done, but for one: the transaction with which a database becomes full is done, and responded to with an error.
func mayBeDone(err error) bool {
	switch code(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition,
		codes.OutOfRange, codes.Unimplemented, codes.DataLoss:
		return false
	default:
		return true
	}
}

// isUnavailable reports whether a call that failed so may succeed at another member.
func isUnavailable(err error) bool {
	c := code(err)
	return c == codes.Unavailable || c == codes.DeadlineExceeded
}

// code returns the gRPC code of an error. The client library wraps some of them in errors of its own.
func code(err error) codes.Code {
	if coded, ok := errors.AsType[interface {
		error
		Code() codes.Code
	}](err); ok {
		return coded.Code()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return codes.DeadlineExceeded
	}
	if errors.Is(err, context.Canceled) {
		return codes.Canceled
	}
	return status.Code(err)
}
