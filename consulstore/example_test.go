package consulstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/consulstore"
)

// Two clients, as two processes would have, lock each other out through one Consul.
func Example() {
	ctx := context.Background()
	url := os.Getenv("CONSUL_URL") // such as consul://127.0.0.1:8500

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

// A program takes locks in the Consul that it has, through the agent of its machine.
func ExampleOpen() {
	ctx := context.Background()
	agent := os.Getenv("CONSUL_HTTP_ADDR") // such as 127.0.0.1:8500
	s, err := consulstore.Open(ctx, []string{agent}, consulstore.WithPrefix("shop"),
		consulstore.WithTTL(20*time.Second))
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

// A program whose token is replaced from time to time reads it again whenever Consul refuses the last one.
func ExampleWithCredentials() {
	ctx := context.Background()
	readToken := func(context.Context) (string, error) {
		token, err := os.ReadFile(os.Getenv("CONSUL_HTTP_TOKEN_FILE"))
		return string(token), err
	}
	agent := os.Getenv("CONSUL_HTTP_ADDR")
	s, err := consulstore.Open(ctx, []string{agent}, consulstore.WithCredentials(readToken))
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

// TestExamples runs the examples on a server.
func TestExamples(t *testing.T) {
	c := newCluster(t, 1) // at the end it has nothing left but the identities of stores
	server := c.Nodes[0]
	t.Setenv("CONSUL_URL", "consul://"+server.Addr())
	t.Setenv("CONSUL_HTTP_ADDR", server.Addr())
	t.Setenv("CONSUL_HTTP_TOKEN_FILE", os.DevNull)
	Example()
	ExampleOpen()
	ExampleWithCredentials()
}
