package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

func ExampleSemaphore_Do() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New())
	defer locks.Close()

	downloads := locks.Semaphore("downloads", 3)
	err := downloads.Do(ctx, 2, func(ctx context.Context) error {
		_, err := downloads.TryAcquire(ctx, 2)
		fmt.Println("two more:", err == nil)
		return nil
	})
	fmt.Println(err)
	// Output:
	// two more: false
	// <nil>
}

func ExampleDoAll() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New())
	defer locks.Close()

	from, to := locks.Mutex("account:7"), locks.Mutex("account:3")
	err := holdfast.DoAll(ctx, func(ctx context.Context, tokens []holdfast.Token) error {
		// ctx ends if either lock is lost. tokens[0] is for writes to account 7, tokens[1] for account 3.
		fmt.Println("tokens:", len(tokens))
		return ctx.Err()
	}, from, to)
	fmt.Println(err)
	// Output:
	// tokens: 2
	// <nil>
}

func ExampleTryLockAll() {
	ctx := context.Background()
	server := memstore.NewServer() // stands for the server that all processes use
	here, elsewhere := holdfast.New(server.Connect()), holdfast.New(server.Connect(), holdfast.WithLabel("nightly"))
	defer here.Close()
	defer elsewhere.Close()

	lease, err := elsewhere.Mutex("account:7").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)

	_, err = holdfast.TryLockAll(ctx, here.Mutex("account:3"), here.Mutex("account:7"))
	var locked *holdfast.LockedError
	if errors.As(err, &locked) {
		fmt.Println(locked.Name, "is locked by", locked.Holder.Label)
	}
	three, err := here.Inspect(ctx, "account:3")
	fmt.Println("holders of account:3:", len(three.Holders()), err)
	// Output:
	// account:7 is locked by nightly
	// holders of account:3: 0 <nil>
}

func ExampleClient_Ping() {
	locks := holdfast.New(memstore.New())
	healthy := func() string {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := locks.Ping(ctx)
		var fault *holdfast.Fault
		switch {
		case err == nil:
			return "healthy"
		case errors.As(err, &fault):
			return "the store fails: " + fault.Error()
		default:
			return err.Error()
		}
	}
	fmt.Println(healthy())
	locks.Close()
	fmt.Println(healthy())
	// Output:
	// healthy
	// holdfast: ping on memory: closed
}
