package etcdstore_test

import (
	"context"
	"errors"
	"log"

	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/etcdstore"
)

// The data lies in the same etcd as the lock. A holder that was paused for longer than its lease, and comes back in the
// middle of its work, writes nothing: etcd compares and writes in one step. TestHeldRefusesLateWriter plays it.
func ExampleHeld() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	s, err := etcdstore.New(ctx, client)
	if err != nil {
		log.Fatal(err)
	}
	locks := holdfast.New(s)
	defer locks.Close()

	sell := func() error {
		lease, err := locks.Mutex("inventory").Lock(ctx)
		if err != nil {
			return err
		}
		defer lease.Unlock(ctx)
		held, err := etcdstore.Held(lease)
		if err != nil {
			return err
		}
		answer, err := client.Txn(ctx).If(held).Then(clientv3.OpPut("stock", "41")).Commit()
		if err == nil && !answer.Succeeded {
			err = errors.New("the lock was lost, and nothing was written")
		}
		return err
	}
	if err := sell(); err != nil {
		log.Print(err)
	}
}
