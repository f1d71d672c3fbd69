package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// Two clients, as two processes would have, lock each other out through one etcd.
func Example() {
	ctx := context.Background()
	url := os.Getenv("ETCD_URL") // such as etcd://h1:2379,h2:2379,h3:2379

	mine, err := holdfast.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer mine.Close()
	yours, err := holdfast.Open(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer yours.Close()

	err = mine.Mutex("nightly report").Do(ctx, func(context.Context) error {
		_, err := yours.Mutex("nightly report").TryLock(ctx)
		fmt.Println("you, meanwhile, are locked out:", errors.Is(err, holdfast.ErrLocked))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// The password of the program's user changes from time to time. Each login uses the one of the moment.
func ExampleOpen() {
	ctx := context.Background()
	readPassword := func(context.Context) (user, password string, err error) {
		return "shop", "the password that a vault has now", nil
	}
	endpoints := strings.Split(os.Getenv("ETCDCTL_ENDPOINTS"), ",")
	s, err := etcdstore.Open(ctx, endpoints, etcdstore.WithPrefix("shop"), etcdstore.WithCredentials(readPassword))
	if err != nil {
		log.Fatal(err)
	}
	locks := holdfast.New(s)
	defer locks.Close()

	err = locks.Mutex("inventory:42").Do(ctx, func(ctx context.Context) error {
		token, _ := holdfast.TokenFrom(ctx) // for a fence where the data is
		fmt.Println("only this process sells now, with a token:", token > 0)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// The program has a client already, which stays its own.
func ExampleNew() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(os.Getenv("ETCDCTL_ENDPOINTS"), ",")})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	s, err := etcdstore.New(ctx, client)
	if err != nil {
		log.Fatal(err)
	}
	locks := holdfast.New(s)
	defer locks.Close() // it leaves the client open

	err = locks.Mutex("inventory:42").Do(ctx, func(ctx context.Context) error {
		token, _ := holdfast.TokenFrom(ctx) // for a fence where the data is
		fmt.Println("only this process sells now, with a token:", token > 0)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// The data is in the same etcd as the lock. A holder that was paused for longer than its lease, and resumes in the
// middle of its work, writes nothing: etcd compares and writes in one step. TestHeldRefusesLateWriter plays it.
func ExampleHeld() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(os.Getenv("ETCDCTL_ENDPOINTS"), ",")})
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
		response, err := client.Txn(ctx).If(held).Then(clientv3.OpPut("stock", "41")).Commit()
		if err == nil && !response.Succeeded {
			err = errors.New("the lock was lost, and nothing was written")
		}
		return err
	}
	if err := sell(); err != nil {
		log.Fatal(err)
	}
}

// TestExamples runs the examples on a server.
func TestExamples(t *testing.T) {
	server := servers.Etcd(t)
	t.Setenv("ETCD_URL", "etcd://"+server.Addr())
	t.Setenv("ETCDCTL_ENDPOINTS", server.Addr())
	Example()
	ExampleOpen()
	ExampleNew()
	ExampleHeld()
	client := server.Client(t)
	stock, err := client.Get(t.Context(), "stock")
	testkit.Must(t, err)
	if len(stock.Kvs) != 1 || string(stock.Kvs[0].Value) != "41" {
		t.Errorf("the stock is %v", stock.Kvs)
	}
	nothingIsLeft(t, client, etcdstore.DefaultTTL, "stock", "holdfast/shop/id")
}
