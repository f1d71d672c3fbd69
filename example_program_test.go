package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// A program that uses every primitive needs two imports: holdfast and its store.
func Example_program() {
	ctx := context.Background()
	server := memstore.NewServer() // stands for the server that all processes use
	locks := holdfast.New(server.Connect(), holdfast.WithLabel("shop"))
	other := holdfast.New(server.Connect(), holdfast.WithLabel("nightly"))
	defer locks.Close()
	defer other.Close()

	err := locks.Ping(ctx)
	var fault *holdfast.Fault
	fmt.Println("healthy:", err == nil, "fault:", errors.As(err, &fault), "fair:", locks.Abilities().Queue)

	stock, prices := locks.Mutex("stock"), locks.RWMutex("prices")
	pool, leader := locks.Semaphore("pool", 3), locks.Election("leader")
	held, err := holdfast.LockAll(ctx, stock, prices.Reader(), pool.Units(2))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := leader.Campaign(held.Context()); err != nil {
		log.Fatal(err)
	}
	printHolders(ctx, other)

	_, err = holdfast.TryLockAll(ctx, other.Mutex("cash"), other.Mutex("stock"))
	var locked *holdfast.LockedError
	if errors.As(err, &locked) {
		fmt.Println(locked.Name, "is locked by", label(locked.Holder))
	}
	if err := other.Break(ctx, "stock", held.Tokens()[0]); err != nil {
		log.Fatal(err)
	}
	<-held.Context().Done()
	fmt.Println("lost:", errors.Is(held.Unlock(ctx), holdfast.ErrLost))

	err = holdfast.DoAll(ctx, func(ctx context.Context, tokens []holdfast.Token) error {
		_, ok := holdfast.TokenFrom(ctx)
		fmt.Println("tokens:", len(tokens), "one for all:", ok)
		return nil
	}, stock, prices)
	fmt.Println(err)
	// Output:
	// healthy: true fault: false fair: true
	// leader: held by shop, a lock
	// pool: held by shop, 2 of 3
	// prices: held by shop, a lock
	// stock: held by shop, a lock
	// stock is locked by shop
	// lost: true
	// tokens: 2 one for all: false
	// <nil>
}

// printHolders prints the holders of all locks.
func printHolders(ctx context.Context, locks *holdfast.Client) {
	for queues, err := range locks.Watch(ctx, "") {
		if err != nil {
			log.Fatal(err)
		}
		byName := map[string]holdfast.Queue{}
		for _, q := range queues {
			byName[q.Name] = q
		}
		for _, name := range []string{"leader", "pool", "prices", "stock"} {
			for _, holder := range byName[name].Holders() {
				fmt.Printf("%s: held by %s, %s\n", name, label(holder.Owner), size(holder))
			}
		}
		break
	}
	for name, err := range locks.Names(ctx, "none:") {
		fmt.Println(name, err)
	}
	if q, err := locks.Inspect(ctx, "none"); err != nil || len(q.Waiters()) > 0 {
		fmt.Println(q, err)
	}
}

func label(o holdfast.Owner) string { return o.Label }

func size(e holdfast.Entry) string {
	if e.Kind == holdfast.KindSemaphore {
		return fmt.Sprintf("%d of %d", e.Units, e.Limit)
	}
	return "a " + e.Kind.String()
}
