package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// A function that acquires a lock can be called by one that holds the lock already, with the context of its lease.
func ExampleWithReentrance() {
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	account := locks.Mutex("account:7", holdfast.WithReentrance())

	withdraw := func(ctx context.Context) error {
		return account.Do(ctx, func(ctx context.Context) error {
			fmt.Println("withdraw")
			return nil
		})
	}
	err := account.Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("check the balance")
		return withdraw(ctx) // the context carries the lease
	})
	fmt.Println(err)
	// Output:
	// check the balance
	// withdraw
	// <nil>
}

// Without WithReentrance, a second request for a lock under its own lease is an error at once. It would wait for
// itself.
func ExampleWithReentrance_without() {
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	account := locks.Mutex("account:7")

	err := account.Do(context.Background(), func(ctx context.Context) error {
		_, err := account.Lock(ctx)
		return err
	})
	fmt.Println(errors.Is(err, holdfast.ErrReentered))
	fmt.Println(err)
	// Output:
	// true
	// holdfast: lock "account:7" on memory: requested again under its own lease
}

// A transfer needs both accounts. A caller that names them in another order acquires them in the same order.
func ExampleLockAll() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New())
	defer locks.Close()

	both, err := holdfast.LockAll(ctx,
		locks.Mutex("account:7"),
		locks.Mutex("account:3"),
		locks.RWMutex("rates").Reader(),
		locks.Semaphore("transfers", 10).Units(1))
	if err != nil {
		log.Fatal(err)
	}
	defer both.Unlock(ctx)

	// both.Context() ends when any of the locks is lost.
	tokens := both.Tokens() // one for each, in the order of the arguments
	fmt.Println("held:", both.Err() == nil)
	fmt.Println("for the writes to account 7:", !tokens[0].Shared())
	fmt.Println("rates are only read:", tokens[2].Shared())
	// Output:
	// held: true
	// for the writes to account 7: true
	// rates are only read: true
}

// One of the nodes leads. The others can find out which.
func ExampleElection() {
	ctx := context.Background()
	server := memstore.NewServer() // stands for the server that all nodes use
	here, elsewhere := holdfast.New(server.Connect()), holdfast.New(server.Connect())
	defer here.Close()
	defer elsewhere.Close()

	leadership, err := here.Election("scheduler", holdfast.WithLabel("10.0.0.7:8080")).Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	leader, err := elsewhere.Election("scheduler").Leader(ctx)
	fmt.Println("leader:", leader.Info, err)

	leadership.Unlock(ctx) // steps down
	_, err = elsewhere.Election("scheduler").Leader(ctx)
	fmt.Println("no leader:", errors.Is(err, holdfast.ErrNotHeld))
	// Output:
	// leader: 10.0.0.7:8080 <nil>
	// no leader: true
}

// Run campaigns again after a loss, and calls its function only while it leads.
func ExampleElection_Run() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New())
	defer locks.Close()

	term := 0
	err := locks.Election("scheduler").Run(ctx, func(ctx context.Context) error {
		term++
		fmt.Println("term", term)
		if term == 2 {
			return nil // done: it steps down, and Run returns
		}
		// An operator breaks the leadership.
		token, _ := holdfast.TokenFrom(ctx)
		if err := locks.Break(ctx, "scheduler", token); err != nil {
			return err
		}
		<-ctx.Done()
		fmt.Println("lost it:", errors.Is(context.Cause(ctx), holdfast.ErrLost))
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// term 1
	// lost it: true
	// term 2
	// <nil>
}

// The owner is shown in the queue, and identifies the owners of a deadlock.
func ExampleOwner() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New())
	defer locks.Close()

	order, err := locks.Mutex("order:1", holdfast.WithOwner("request 4711")).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer order.Unlock(ctx)
	stock, err := locks.Mutex("stock:9").Lock(order.Context()) // for the same request
	if err != nil {
		log.Fatal(err)
	}
	defer stock.Unlock(ctx)

	for _, name := range []string{"order:1", "stock:9"} {
		queue, err := locks.Inspect(ctx, name)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(name, "is held by", queue.Holders()[0].Owner.ID)
	}
	// Output:
	// order:1 is held by request 4711
	// stock:9 is held by request 4711
}

// With 0 turns every lock goes through the store's queue, and has a ticket of its own.
func ExampleWithHandOver() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New(), holdfast.WithHandOver(0, 0))
	defer locks.Close()

	var mu sync.Mutex
	tickets := map[uint64]bool{}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			err := locks.Mutex("job").Do(ctx, func(ctx context.Context) error {
				token, _ := holdfast.TokenFrom(ctx)
				mu.Lock()
				defer mu.Unlock()
				tickets[token.Ticket()] = true
				return nil
			})
			if err != nil {
				log.Fatal(err)
			}
		})
	}
	wg.Wait()
	fmt.Println(len(tickets), "tickets")
	// Output: 10 tickets
}

// Two owners that each wait for what the other holds would wait for ever. One of them gets an error and releases its
// lock.
func ExampleDeadlockError() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New())
	defer locks.Close()

	var ready, wg sync.WaitGroup
	ready.Add(2)
	work := func(first, second string) {
		err := locks.Mutex(first).Do(ctx, func(ctx context.Context) error {
			ready.Done()
			ready.Wait() // both hold one now
			return locks.Mutex(second).Do(ctx, func(context.Context) error { return nil })
		})
		var deadlock *holdfast.DeadlockError
		if errors.As(err, &deadlock) {
			fmt.Println("a deadlock of", len(deadlock.Cycle))
		} else {
			fmt.Println("went on:", err)
		}
	}
	wg.Go(func() { work("a", "b") })
	wg.Go(func() { work("b", "a") })
	wg.Wait()
	// Unordered output:
	// a deadlock of 2
	// went on: <nil>
}

// A slowLog reports locks that were waited for too long.
type slowLog struct {
	holdfast.NopObserver
	limit time.Duration
}

func (s slowLog) Waiting(ctx context.Context, r holdfast.Request) (context.Context, func(error)) {
	began := time.Now()
	return ctx, func(err error) {
		if time.Since(began) >= s.limit {
			fmt.Printf("%s %q took too long, acquired: %v\n", r.Op, r.Name, err == nil)
		}
	}
}

func ExampleObserver() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New(), holdfast.WithObserver(slowLog{limit: time.Second}))
	defer locks.Close()

	lease, err := locks.Mutex("report").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)
	_, err = locks.Mutex("report", holdfast.WithWait(1500*time.Millisecond)).Lock(ctx)
	fmt.Println(errors.Is(err, holdfast.ErrLocked))
	// Output:
	// lock "report" took too long, acquired: false
	// true
}
