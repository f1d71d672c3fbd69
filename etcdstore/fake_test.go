package etcdstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// A fake is a server that says what a test wants, for what a real one cannot easily be brought to say. It knows as much
// of etcd as opening a store takes.
type fake struct {
	etcdserverpb.UnimplementedMaintenanceServer
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedLeaseServer
	listener net.Listener
	over     chan struct{} // closed at the end

	mu      sync.Mutex
	version string
	refusal error // the answer to every transaction and to every lease that is wanted; nil: as etcd would
}

// errSilence makes a fake give no answer at all.
var errSilence = errors.New("silence")

// newFake starts a fake of a version. Its end is the end of the test.
func newFake(t *testing.T, version string) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	f := &fake{listener: l, over: make(chan struct{}), version: version}
	server := grpc.NewServer()
	etcdserverpb.RegisterMaintenanceServer(server, f)
	etcdserverpb.RegisterKVServer(server, f)
	etcdserverpb.RegisterLeaseServer(server, f)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) }) // until it is stopped
	t.Cleanup(func() {
		close(f.over)
		server.Stop()
		serving.Wait()
	})
	return f
}

func (f *fake) addr() string { return f.listener.Addr().String() }

// refuses sets the answer to what is asked from now on.
func (f *fake) refuses(with error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusal = with
}

// refused is the answer to a call, if it is to be refused.
func (f *fake) refused() error {
	f.mu.Lock()
	with := f.refusal
	f.mu.Unlock()
	if errors.Is(with, errSilence) {
		<-f.over
	}
	return with
}

// Status says what the test wants, and that there is a leader.
func (f *fake) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return &etcdserverpb.StatusResponse{Header: &etcdserverpb.ResponseHeader{}, Version: f.version, Leader: 1}, nil
}

// Txn has every condition true, and nobody in any queue. Any other key is one that was written by this version.
func (f *fake) Txn(_ context.Context, r *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	if err := f.refused(); err != nil {
		return nil, err
	}
	answer := &etcdserverpb.TxnResponse{Header: &etcdserverpb.ResponseHeader{Revision: 1}, Succeeded: true}
	for _, op := range r.Success {
		var one etcdserverpb.ResponseOp
		if read := op.GetRequestRange(); read != nil {
			found := &etcdserverpb.RangeResponse{}
			if !strings.Contains(string(read.Key), "/line/") {
				found.Kvs = []*mvccpb.KeyValue{
					{Key: read.Key, Value: []byte("1 fake"), CreateRevision: 1, ModRevision: 1},
				}
				found.Count = 1
			}
			one.Response = &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: found}
		} else {
			one.Response = &etcdserverpb.ResponseOp_ResponsePut{ResponsePut: &etcdserverpb.PutResponse{}}
		}
		answer.Responses = append(answer.Responses, &one)
	}
	return answer, nil
}

// LeaseGrant grants what is asked for.
func (f *fake) LeaseGrant(_ context.Context,
	r *etcdserverpb.LeaseGrantRequest) (*etcdserverpb.LeaseGrantResponse, error) {
	if err := f.refused(); err != nil {
		return nil, err
	}
	return &etcdserverpb.LeaseGrantResponse{Header: &etcdserverpb.ResponseHeader{}, ID: 7, TTL: r.TTL}, nil
}

// LeaseRevoke does nothing, and says so at once unless the fake is silent.
func (f *fake) LeaseRevoke(context.Context,
	*etcdserverpb.LeaseRevokeRequest) (*etcdserverpb.LeaseRevokeResponse, error) {
	return &etcdserverpb.LeaseRevokeResponse{Header: &etcdserverpb.ResponseHeader{}}, f.refused()
}

// LeaseKeepAlive renews whatever is named.
func (f *fake) LeaseKeepAlive(stream etcdserverpb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		if f.refused() != nil {
			continue // the transactions say why
		}
		answer := &etcdserverpb.LeaseKeepAliveResponse{Header: &etcdserverpb.ResponseHeader{}, ID: r.ID, TTL: 30}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}
