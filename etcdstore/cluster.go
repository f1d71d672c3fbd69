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

// A cluster is the members of an etcd, one or several, that a client is connected to.
type cluster struct {
	client *clientv3.Client
	kv     clientv3.KV // over the client's connection, but not through a namespace
	leases etcdserverpb.LeaseClient
}

// newCluster returns the cluster that a client is connected to.
func newCluster(client *clientv3.Client) *cluster {
	conn := client.ActiveConnection()
	return &cluster{
		client: client,
		kv:     clientv3.NewKVFromKVClient(promptKV{etcdserverpb.NewKVClient(conn)}, client),
		leases: etcdserverpb.NewLeaseClient(conn),
	}
}

// A promptKV fails at once if there is no connection, so that the caller can decide. The client library would wait for
// one for as long as the context allows.
type promptKV struct{ etcdserverpb.KVClient }

// Txn implements etcdserverpb.KVClient.
func (p promptKV) Txn(
	ctx context.Context, r *etcdserverpb.TxnRequest, options ...grpc.CallOption,
) (*etcdserverpb.TxnResponse, error) {
	return p.KVClient.Txn(ctx, r, append(options[:len(options):len(options)], grpc.WaitForReady(false))...)
}

// A transaction has operations that etcd carries out as one step.
type transaction struct {
	when   []clientv3.Cmp
	then   []clientv3.Op
	orElse []clientv3.Op
}

// commit sends a transaction, and sends it to another member if the first does not respond: every transaction here may
// be carried out twice. unsure reports whether one that was sent may still be carried out later.
func (c *cluster) commit(ctx context.Context, t transaction) (response *clientv3.TxnResponse, unsure bool, err error) {
	a := c.attempts(ctx)
	for a.next() {
		response, a.err = c.kv.Txn(a.ctx).If(t.when...).Then(t.then...).Else(t.orElse...).Commit()
	}
	return response, a.unsure, a.err
}

// read sends a transaction that only reads. It returns the result of each operation, and their revision.
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

// The time that one member has to respond if there are others: for the first attempt, and the longest.
const (
	firstPatience = 150 * time.Millisecond
	lastPatience  = 2 * time.Second
)

// maxRefusals is how many members may refuse a call, or be unreachable, before it fails.
const maxRefusals = 5

// attempts sends one call until it succeeds. It is sent again if the member does not respond, cannot be reached, or has
// no leader. The client sends each call to the next member, but in turn for all calls of the process. So one call may
// meet a silent member several times, and continues for as long as its caller's context allows.
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

// attempts returns the attempts of a call. None has begun yet.
func (c *cluster) attempts(ctx context.Context) attempts {
	return attempts{caller: ctx, members: len(c.client.Endpoints()), patience: firstPatience}
}

// next ends an attempt. It begins another and reports true, unless the call is over.
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

// over evaluates an attempt, and reports whether its outcome is that of the call.
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

// mayBeDone reports whether a call that failed with err may have been carried out. A refusal means that it was not,
// with one exception: the transaction that fills a database is carried out, and its response is an error.
func mayBeDone(err error) bool {
	switch code(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition,
		codes.OutOfRange, codes.Unimplemented, codes.DataLoss:
		return false
	default:
		return true
	}
}

// isUnavailable reports whether a call that failed with err may succeed at another member.
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
	if of := status.FromContextError(err).Code(); of != codes.Unknown {
		return of
	}
	return status.Code(err)
}
