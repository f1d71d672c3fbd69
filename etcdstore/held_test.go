package etcdstore_test

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
)

// write puts a value in one transaction with a comparison, as a user would.
func write(t *testing.T, client *clientv3.Client, held clientv3.Cmp, value string) (written bool) {
	t.Helper()
	answer, err := client.Txn(t.Context()).If(held).Then(clientv3.OpPut("stock", value)).Commit()
	testkit.Must(t, err)
	return answer.Succeeded
}

// lockIn takes a lock in a client of its own, which must work.
func lockIn(t *testing.T, client *clientv3.Client, options ...holdfast.Option) (*holdfast.Client, *holdfast.Lease) {
	t.Helper()
	s, err := etcdstore.New(t.Context(), client, etcdstore.WithTTL(longTTL))
	testkit.Must(t, err)
	locks := holdfast.New(s, options...)
	t.Cleanup(func() { locks.Close() })
	lease := testkit.Lock(t, locks, "inventory")
	return locks, lease
}

func heldBy(t *testing.T, lease *holdfast.Lease) clientv3.Cmp {
	t.Helper()
	held, err := etcdstore.Held(lease)
	testkit.Must(t, err)
	return held
}

// A late writer is refused by etcd itself, also when it does not know yet that it has lost the lock.
func TestHeldRefusesLateWriter(t *testing.T) {
	t.Parallel()
	client := servers.Etcd(t).Client(t)
	locks, lease := lockIn(t, client)
	held := heldBy(t, lease)
	if !write(t, client, held, "41") {
		t.Error("the holder's write was refused")
	}
	testkit.Must(t, locks.Break(t.Context(), "inventory", lease.Token()))
	if write(t, client, held, "40") {
		t.Error("a write after the lock was taken away went through")
	}
	_, next := lockIn(t, client)
	if !write(t, client, heldBy(t, next), "39") {
		t.Error("the next holder's write was refused")
	}
	if write(t, client, held, "38") {
		t.Error("a write of the one before went through")
	}
	if stock, err := client.Get(t.Context(), "stock"); err != nil || string(stock.Kvs[0].Value) != "39" {
		t.Errorf("the stock is %v, %v", stock, err)
	}
}

// A renewal that writes news into the claim's key does not make the comparison false.
func TestHeldThroughNews(t *testing.T) {
	t.Parallel()
	client := servers.Etcd(t).Client(t)
	locks, lease := lockIn(t, client, holdfast.WithOwner("keeper"))
	held := heldBy(t, lease)
	other, err := locks.Mutex("other").Lock(lease.Context())
	testkit.Must(t, err)
	defer other.Unlock(context.Background())
	if !write(t, client, held, "1") {
		t.Error("the holder's write was refused")
	}
}

func TestHeldOfAnotherStore(t *testing.T) {
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	lease := testkit.Lock(t, locks, "x")
	if _, err := etcdstore.Held(lease); !errors.Is(err, holdfast.ErrUnsupported) {
		t.Errorf("Held of a lock in memory: %v", err)
	}
	testkit.Must(t, lease.Unlock(t.Context()))
	if _, err := etcdstore.Held(lease); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("Held of a lease that was given back: %v", err)
	}
}
