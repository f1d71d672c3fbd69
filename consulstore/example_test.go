package consulstore_test

import (
	"context"
	"log"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/consulstore"
)

// A program takes locks in the Consul that it has, through the agent of its machine.
func ExampleOpen() {
	ctx := context.Background()
	s, err := consulstore.Open(ctx, []string{"127.0.0.1:8500"},
		consulstore.WithPrefix("shop"), consulstore.WithTTL(20*time.Second))
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

// A program whose token is replaced from time to time asks for it whenever Consul refuses the last one.
func ExampleWithCredentials() {
	readToken := func(context.Context) (string, error) {
		return "the token that a vault has made", nil
	}
	ctx := context.Background()
	s, err := consulstore.Open(ctx, []string{"h1", "h2", "h3"}, consulstore.WithCredentials(readToken))
	if err != nil {
		log.Print(err)
		return
	}
	locks := holdfast.New(s)
	defer locks.Close()

	if _, err := locks.Mutex("report").TryLock(ctx); err != nil {
		log.Print(err)
	}
}
