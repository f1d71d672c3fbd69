package etcdstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// A ferry takes transactions to etcd, and can be told to strand some of them: their caller is told that the member
// cannot be reached, and they land when the test says so, or have landed already.
type ferry struct {
	mu     sync.Mutex
	strand func(*etcdserverpb.TxnRequest) fate
	late   []func() (done bool, err error)
	gate   chan struct{} // what is detained waits until it is closed
	back   int64         // by how many revisions answers are older than they should be
}

type fate uint8

const (
	delivered  fate = iota
	stranded        // it lands when land is called
	unanswered      // it lands at once, and the answer is lost
	repeated        // it lands at once, and once more when land is called
	denied          // it is refused
	detained        // it is kept until free is called, and its caller waits
	delayed         // it lands when land is called, and its caller waits in vain
)

var errUnreached = status.Error(codes.Unavailable, "the ferry is late")

// intercept is for grpc.WithChainUnaryInterceptor.
func (f *ferry) intercept(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	txn, ok := request.(*etcdserverpb.TxnRequest)
	if !ok {
		return invoke(ctx, method, request, reply, conn, options...)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	to := delivered
	if f.strand != nil {
		to = f.strand(txn)
	}
	sail := func() (done bool, err error) {
		ctx, cancel := patience()
		defer cancel()
		var answer etcdserverpb.TxnResponse
		err = invoke(ctx, method, txn, &answer, conn)
		return answer.Succeeded, err
	}
	switch to {
	case stranded:
		f.late = append(f.late, sail)
		return errUnreached
	case unanswered:
		_, err := sail()
		return errors.Join(err, errUnreached)
	case denied:
		return rpctypes.ErrGRPCPermissionDenied
	case repeated:
		f.late = append(f.late, sail)
	case delayed:
		f.late = append(f.late, sail)
	case delivered, detained:
	}
	gate, back := f.gate, f.back
	f.mu.Unlock()
	defer f.mu.Lock()
	if to == delayed {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	if to == detained {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := invoke(ctx, method, request, reply, conn, options...)
	if answer, ok := reply.(*etcdserverpb.TxnResponse); ok && err == nil {
		answer.Header.Revision -= back
	}
	return err
}

// decide sets what becomes of transactions.
func (f *ferry) decide(strand func(*etcdserverpb.TxnRequest) fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.strand, f.gate = strand, make(chan struct{})
}

// free lets go on what is detained, and what is yet to come.
func (f *ferry) free() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.gate)
	f.strand = nil
}

// next strands the next transactions that put a claim, each as said.
func (f *ferry) next(fates ...fate) {
	f.set(func(nth int) fate {
		if nth > len(fates) {
			return delivered
		}
		return fates[nth-1]
	})
}

// set decides by their number over transactions that put a claim.
func (f *ferry) set(decide func(nth int) fate) {
	nth := 0
	f.decide(func(r *etcdserverpb.TxnRequest) fate {
		if !joins(r) {
			return delivered
		}
		nth++
		return decide(nth)
	})
}

// land lets come what was stranded or delayed, and says how much of it was done.
func (f *ferry) land(t *testing.T) (landed int) {
	t.Helper()
	f.mu.Lock()
	late := f.late
	f.late, f.strand = nil, nil
	f.mu.Unlock()
	if len(late) == 0 {
		t.Fatal("nothing was stranded")
	}
	for _, sail := range late {
		done, err := sail()
		testkit.Must(t, err)
		if done {
			landed++
		}
	}
	return landed
}

// joins says whether a transaction puts a claim that is not there yet.
func joins(r *etcdserverpb.TxnRequest) bool {
	for _, op := range r.Success {
		if put := op.GetRequestPut(); put != nil && put.Lease != 0 && strings.Contains(string(put.Key), "/line/") {
			return true
		}
	}
	return false
}

// deletes says whether a transaction takes a claim out.
func deletes(r *etcdserverpb.TxnRequest) bool {
	return len(r.Success) == 1 && r.Success[0].GetRequestDeleteRange() != nil
}

// voids says whether a transaction makes void what may still land.
func voids(r *etcdserverpb.TxnRequest) bool {
	return len(r.Success) > 0 && r.Success[0].GetRequestTxn() != nil
}

// newFerry starts a server with a store whose transactions go by ferry.
func newFerry(t *testing.T, ttl time.Duration) (*servers.EtcdServer, *ferry, *etcdstore.Store) {
	t.Helper()
	server, f := servers.Etcd(t), &ferry{}
	return server, f, aboard(t, server, f, ttl)
}

// aboard opens a store that believes to have two members to turn to.
func aboard(t *testing.T, server *servers.EtcdServer, f *ferry, ttl time.Duration) *etcdstore.Store {
	t.Helper()
	twice := []string{server.Addr(), server.Addr()}
	s, err := etcdstore.OpenThrough(t.Context(), twice, twice, "", ttl, grpc.WithChainUnaryInterceptor(f.intercept))
	testkit.Must(t, err)
	s.Notify(func(store.ID, store.Status) {})
	t.Cleanup(func() { s.Close() })
	return s
}
