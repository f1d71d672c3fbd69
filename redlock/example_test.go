package redlock_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redlock"
)

// Masters that know nothing of each other. With five of them a lock is held if three have granted it, and any two may
// fail.
func Example() {
	ctx := context.Background()
	url := os.Getenv("REDLOCK_URL") // such as redlock://h1,h2,h3,h4,h5
	locks, err := holdfast.Open(ctx, url, holdfast.WithTTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = locks.Mutex("nightly report").Do(ctx, func(ctx context.Context) error {
		token, _ := holdfast.TokenFrom(ctx) // for a fence where the data is
		fmt.Println("the token is positive:", token > 0)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Open takes a URL, and options for what is not in the URL.
func ExampleOpen() {
	ctx := context.Background()
	s, err := redlock.Open(ctx, os.Getenv("REDLOCK_URL"), redlock.WithPrefix("lock:"),
		redlock.WithNodeTimeout(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	locks := holdfast.New(s, holdfast.WithTTL(10*time.Second))
	defer locks.Close()
	for _, node := range s.Health(ctx) {
		if node.State != redlock.Voting {
			log.Println(node.Address, node.State, node.Err)
		}
	}
	if err := locks.Mutex("nightly report").Do(ctx, func(context.Context) error { return nil }); err != nil {
		log.Fatal(err)
	}
}

// New uses clients that a program already has, each of which leads to one master. They remain the program's.
func ExampleNew() {
	ctx := context.Background()
	var clients []rueidis.Client
	defer func() {
		for _, client := range clients {
			client.Close()
		}
	}()
	for address := range strings.SplitSeq(os.Getenv("REDIS_ADDRESSES"), ",") { // such as h1:6379,h2:6379,h3:6379
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, ForceSingleClient: true})
		if err != nil {
			log.Fatal(err)
		}
		clients = append(clients, client)
	}
	s, err := redlock.New(ctx, clients, redlock.WithPrefix("lock:"), redlock.WithNodeTimeout(time.Second))
	if err != nil {
		log.Fatal(err)
	}
	locks := holdfast.New(s, holdfast.WithTTL(10*time.Second))
	defer locks.Close() // the clients stay open
	if err := locks.Mutex("nightly report").Do(ctx, func(context.Context) error { return nil }); err != nil {
		log.Fatal(err)
	}
}

// Each new connection to a node logs in with the password that is in the file at that moment. The URL parameter
// password-file does the same.
func ExampleWithCredentials() {
	ctx := context.Background()
	s, err := redlock.Open(ctx, os.Getenv("REDLOCK_URL"),
		redlock.WithCredentials(func(context.Context) (user, password string, err error) {
			text, err := os.ReadFile(os.Getenv("REDIS_PASSWORD_FILE"))
			return "app", strings.TrimSpace(string(text)), err
		}))
	if err != nil {
		log.Fatal(err)
	}
	locks := holdfast.New(s)
	defer locks.Close()
	if err := locks.Mutex("nightly report").Do(ctx, func(context.Context) error { return nil }); err != nil {
		log.Fatal(err)
	}
}

// Init does what `holdfast redlock init` does, for a program that sets up its own servers. It is run once, when all of
// them are new.
func ExampleInit() {
	nodes, err := redlock.Init(context.Background(), os.Getenv("REDLOCK_URL"))
	if err != nil {
		log.Fatal(err)
	}
	for i := range nodes {
		fmt.Println("node", i+1, "is", nodes[i].State)
	}
}

// TestExamples runs the examples on three servers.
func TestExamples(t *testing.T) {
	f := newFreshFleet(t, 3)
	for _, n := range f.nodes {
		_, err := n.Do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
		testkit.Must(t, err)
	}
	file := filepath.Join(t.TempDir(), "password")
	testkit.Must(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	t.Setenv("REDLOCK_URL", "redlock://"+strings.Join(f.addresses(), ",")+"?node-timeout=1s")
	t.Setenv("REDIS_ADDRESSES", strings.Join(f.addresses(), ","))
	t.Setenv("REDIS_PASSWORD_FILE", file)
	for _, example := range []func(){ExampleInit, Example, ExampleOpen, ExampleNew, ExampleWithCredentials} {
		example()
	}
	health, err := redlock.Status(t.Context(), os.Getenv("REDLOCK_URL"))
	if err != nil || !allVote(health) {
		t.Errorf("the nodes after the examples: %+v, %v", health, err)
	}
}

// An even number of nodes is refused: with one node less, as many may fail.
func Example_nodes() {
	_, err := holdfast.Open(context.Background(), "redlock://h1,h2,h3,h4")
	fmt.Println(err)
	// Output: holdfast: open: redlock needs an odd number of nodes, and these are 4: a majority of them is 3, so that no more may fail than of 3; add one or remove one
}
