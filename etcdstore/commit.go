package etcdstore

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A transaction is what etcd does as one step.
type transaction struct {
	when   []clientv3.Cmp
	then   []clientv3.Op
	orElse []clientv3.Op
}

// A prompt client does not wait for a connection that cannot be had: that is an error, and the caller decides. The client
// library waits for as long as a context allows.
type prompt struct{ etcdserverpb.KVClient }

// Txn implements etcdserverpb.KVClient.
func (p prompt) Txn(ctx context.Context, r *etcdserverpb.TxnRequest, options ...grpc.CallOption) (*etcdserverpb.TxnResponse, error) {
	return p.KVClient.Txn(ctx, r, append(options[:len(options):len(options)], grpc.WaitForReady(false))...)
}

// commit has etcd do a transaction. With several members it is sent to another one if the first does not answer: every
// transaction here may be done twice. Unsure says that one which was sent may still be done later.
func (s *Store) commit(ctx context.Context, t transaction) (answer *clientv3.TxnResponse, unsure bool, err error) {
	unsure, err = s.elsewhere(ctx, func(ctx context.Context) error {
		var err error
		answer, err = s.kv.Txn(ctx).If(t.when...).Then(t.then...).Else(t.orElse...).Commit()
		return err
	})
	return answer, unsure, err
}

// How long one member may take to answer if there are others: at first, and when all seem to be slow.
const (
	firstTry = 150 * time.Millisecond
	lastTry  = 2 * time.Second
)

// maxRefusals is how many members may refuse a call, or not be reached, before it fails.
const maxRefusals = 5

// elsewhere makes a call, and makes it again if the member that it was sent to is silent, cannot be reached, or has no
// leader. The client sends each call to the next member, but all calls of the process take turns: so a call may well meet
// a silent one several times, and goes on for as long as ctx allows. Unsure says that one that failed may nevertheless
// have been heard.
func (s *Store) elsewhere(ctx context.Context, call func(context.Context) error) (unsure bool, err error) {
	members := len(s.client.Endpoints())
	if members <= 1 {
		err = call(ctx)
		return err != nil && heard(err), err
	}
	refusals := 0
	for patience := firstTry; ; patience = min(patience*5/4, lastTry) {
		within, cancel := limited(ctx, patience)
		err = call(within)
		silent := within.Err() != nil
		cancel()
		if err == nil {
			return unsure, nil
		}
		unsure = unsure || heard(err)
		if !silent {
			refusals++
		}
		switch {
		case ctx.Err() != nil && silent:
			return unsure, ctx.Err() // and not that this member's time was over, which says nothing to the caller
		case ctx.Err() != nil, !silent && !anotherMayDo(err), refusals == min(members, maxRefusals):
			return unsure, err
		}
	}
}

// heard says whether a call that failed so may have been heard, and be done. A refusal says that it was not done, but for one:
// the transaction with which a database becomes full is done, and answered with an error.
func heard(err error) bool {
	switch code(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.OutOfRange,
		codes.Unimplemented, codes.DataLoss:
		return false
	default:
		return true
	}
}

// anotherMayDo says whether it is worth to ask another member.
func anotherMayDo(err error) bool {
	switch code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		return true
	default:
		return false
	}
}

// code is the kind of an error in gRPC's words. The client library wraps some of them in errors of its own.
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
