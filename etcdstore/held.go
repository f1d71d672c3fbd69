package etcdstore

import (
	"fmt"

	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
)

// A Pinner is a lease that can pin its claim: a *holdfast.Lease.
type Pinner interface {
	Pin() (store.Store, store.Claim, error)
}

// Held returns the comparison that is true in etcd for as long as this lease is held there. In a transaction on the
// same etcd it makes etcd itself refuse a late write:
//
//	held, err := etcdstore.Held(lease)
//	response, err := client.Txn(ctx).If(held).Then(clientv3.OpPut("stock", "41")).Commit()
//	// !response.Succeeded: the lease was lost, and nothing was written.
//
// No token has to be stored beside the data. Held pins the lease: its claim is not handed over inside its process when
// it is released, nor can it be downgraded or detached, since etcd could not tell the next holder from this one.
//
// The client that sends the transaction must use etcd's keys as they are, and not through a namespace.
//
// The error wraps the error of Pin if the lease is over, store.ErrUnsupported if it is not a lease in etcd, and
// store.ErrNotHeld if etcd does not have its claim any more.
func Held(lease Pinner) (clientv3.Cmp, error) {
	in, shown, err := lease.Pin()
	if err != nil {
		return clientv3.Cmp{}, err
	}
	s, ok := in.(*Store)
	if !ok {
		return clientv3.Cmp{}, fmt.Errorf("%w: %s is no etcd", store.ErrUnsupported, in.Abilities().Store)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[shown.ID]
	if c == nil || c.Ticket != shown.Ticket {
		return clientv3.Cmp{}, fmt.Errorf("%w: etcd has it no more", store.ErrNotHeld)
	}
	return stillStands(&c.Position), nil
}
