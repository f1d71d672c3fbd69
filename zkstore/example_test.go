package zkstore_test

import (
	"context"
	"log"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/zkstore"
)

// A program takes locks in the ensemble that it has, with the tickTime of its servers.
func ExampleOpen() {
	ctx := context.Background()
	s, err := zkstore.Open(ctx, []string{"h1", "h2", "h3"}, zkstore.WithChroot("/shop"), zkstore.WithTick(2*time.Second))
	if err != nil {
		log.Print(err)
		return
	}
	locks := holdfast.New(s)
	defer locks.Close()

	err = locks.Mutex("inventory:42").Do(ctx, func(ctx context.Context) error {
		token, _ := holdfast.TokenFrom(ctx) // for a fence where the data is
		log.Print("only this process sells now, with token ", token)
		return nil
	})
	if err != nil {
		log.Print(err)
	}
}

// A Go service and a Java service exclude each other. The Java service has a Curator client without a namespace, and
// takes new InterProcessMutex(client, "/shop/inventory").
func ExampleOpen_besideCurator() {
	ctx := context.Background()
	locks, err := holdfast.Open(ctx, "zk://h1,h2,h3?layout=curator&tick=2s")
	if err != nil {
		log.Print(err)
		return
	}
	defer locks.Close()

	lease, err := locks.Mutex("shop/inventory").Lock(ctx) // the path, without the first slash
	if err != nil {
		log.Print(err)
		return
	}
	defer lease.Unlock(ctx)
	// Work under lease.Context(), which ends when the lock is lost.
}
