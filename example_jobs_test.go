package holdfast_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// A job that is scheduled on two machines runs on one of them, although it takes no time, and although the clock of the
// second one says later that it is time.
func ExampleClient_Once() {
	ctx := context.Background()
	server := memstore.NewServer() // in production a server that all machines reach
	first, second := holdfast.New(server.Connect()), holdfast.New(server.Connect())
	defer first.Close()
	defer second.Close()

	for _, locks := range []*holdfast.Client{first, second} {
		called, err := locks.Once(ctx, "report", "2026-11-18", 24*time.Hour, func(context.Context) error {
			fmt.Println("the report is sent")
			return nil
		})
		fmt.Println(called, err)
	}
	// Output:
	// the report is sent
	// true <nil>
	// false <nil>
}

// One process acquires a lock and passes it on as a text, such as in a message of a queue. Another one continues with
// the same token. At no time do both hold it.
func ExampleLease_Detach() {
	ctx := context.Background()
	server := memstore.NewServer()
	api, worker := holdfast.New(server.Connect()), holdfast.New(server.Connect())
	defer api.Close()
	defer worker.Close()

	lease, err := api.Mutex("invoice:42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	detached, err := lease.Detach(ctx, time.Minute) // how long the lock stays taken until it is attached
	if err != nil {
		log.Fatal(err)
	}
	message := detached.String()

	received, err := holdfast.ParseDetached(message)
	if err != nil {
		log.Fatal(err)
	}
	continued, err := worker.Attach(ctx, received)
	if err != nil {
		log.Fatal(err) // ErrLost: it has expired, or another process has attached it
	}
	defer continued.Unlock(ctx)
	fmt.Println("the token is the same:", continued.Token() == lease.Token())
	fmt.Println("the first lease is over:", lease.Err() != nil)
	// Output:
	// the token is the same: true
	// the first lease is over: true
}
