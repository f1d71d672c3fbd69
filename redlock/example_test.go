package redlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/redlock"
)

// Five masters that know nothing of each other. A lock is held where three of them have granted it, and any two may fail.
func Example() {
	ctx := context.Background()
	locks, err := holdfast.Open(ctx, "redlock://h1,h2,h3,h4,h5", holdfast.WithTTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = locks.Mutex("nightly report").Do(ctx, func(ctx context.Context) error {
		token, _ := holdfast.TokenFrom(ctx) // for the fence where the data is
		return write(ctx, token)
	})
	if err != nil {
		log.Print(err)
	}
}

// write stands for what the lock protects.
func write(context.Context, holdfast.Token) error { return nil }

// A store made of clients that the program has already, each of which leads to one master. They stay the program's.
func ExampleNew() {
	ctx := context.Background()
	var clients []rueidis.Client
	for _, address := range []string{"h1:6379", "h2:6379", "h3:6379", "h4:6379", "h5:6379"} {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, ForceSingleClient: true})
		if err != nil {
			log.Fatal(err)
		}
		clients = append(clients, client)
	}
	s, err := redlock.New(ctx, clients, redlock.WithPrefix("lock:"), redlock.WithMaxTTL(30*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	locks := holdfast.New(s, holdfast.WithTTL(10*time.Second))
	if err := locks.Mutex("nightly report").Do(ctx, func(context.Context) error { return nil }); err != nil {
		log.Print(err)
	}
	locks.Close() // and not the clients
}

// What `holdfast redlock init` does, for a program that sets up its own servers. It is run once, when all of them are new.
func ExampleInit() {
	nodes, err := redlock.Init(context.Background(), "redlock://h1,h2,h3,h4,h5")
	for i := range nodes {
		log.Println(nodes[i].Address, nodes[i].State)
	}
	if err != nil {
		log.Print(err)
	}
}

// An even number of nodes is refused: one node less bears as many failures.
func Example_nodes() {
	_, err := holdfast.Open(context.Background(), "redlock://h1,h2,h3,h4")
	fmt.Println(err)
	// Output: holdfast: open: redlock needs an odd number of nodes, and these are 4: a majority of them is 3, so that no more may fail than of 3; add one or remove one
}
