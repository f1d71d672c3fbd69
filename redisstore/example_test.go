package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
)

// Two clients, as two processes would have, exclude each other through one server.
func Example() {
	ctx := context.Background()
	url := os.Getenv("REDIS_URL") // such as redis://cache.example.com:6379

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
		fmt.Println("the other client is locked out:", errors.Is(err, holdfast.ErrLocked))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Open takes a URL, and options for what is not in the URL.
func ExampleOpen() {
	ctx := context.Background()
	s, err := redisstore.Open(ctx, os.Getenv("REDIS_URL"), redisstore.WithPrefix("shop"),
		redisstore.WithEvictionRefused())
	if err != nil {
		log.Fatal(err)
	}
	locks := holdfast.New(s, holdfast.WithTTL(10*time.Second))
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

// New uses the client that a program already has. The client remains the program's.
func ExampleNew() {
	ctx := context.Background()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{os.Getenv("REDIS_ADDRESS")}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	s, err := redisstore.New(ctx, client)
	if err != nil {
		log.Fatal(err)
	}
	locks := holdfast.New(s)
	defer locks.Close() // the client stays open
	if err := locks.Mutex("nightly report").Do(ctx, func(context.Context) error { return nil }); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the client is still open:", client.Do(ctx, client.B().Ping().Build()).Error() == nil)
}

// OpenConfig is for a program with a dialer of its own, such as one through a tunnel.
func ExampleOpenConfig() {
	ctx := context.Background()
	s, err := redisstore.OpenConfig(ctx, redisstore.Config{
		Addresses: []string{os.Getenv("REDIS_ADDRESS")},
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			var tunnel net.Dialer
			return tunnel.DialContext(ctx, "tcp", address)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	locks := holdfast.New(s)
	defer locks.Close()
	lease, err := locks.Mutex("nightly report").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("unlocked:", lease.Unlock(ctx) == nil)
}

// Each new connection logs in with the password that is in the file at that moment. The URL parameter password-file
// does the same.
func ExampleWithCredentials() {
	ctx := context.Background()
	s, err := redisstore.Open(ctx, os.Getenv("REDIS_URL"),
		redisstore.WithCredentials(func(context.Context) (user, password string, err error) {
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

// TestExamples runs the examples on a server, and then no name is left there.
func TestExamples(t *testing.T) {
	server := servers.Redis(t)
	_, err := server.Do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
	testkit.Must(t, err)
	file := filepath.Join(t.TempDir(), "password")
	testkit.Must(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	t.Setenv("REDIS_URL", "redis://"+server.Addr())
	t.Setenv("REDIS_ADDRESS", server.Addr())
	t.Setenv("REDIS_PASSWORD_FILE", file)
	for _, example := range []func(){Example, ExampleOpen, ExampleNew, ExampleOpenConfig, ExampleWithCredentials} {
		example()
	}
	for _, prefix := range []string{"", "shop"} {
		s, err := redisstore.Open(t.Context(), "redis://"+server.Addr(), redisstore.WithPrefix(prefix))
		testkit.Must(t, err)
		t.Cleanup(func() { s.Close() })
		for name, err := range s.Names(t.Context(), "") {
			t.Errorf("prefix %q: the name %q is left, %v", prefix, name, err)
		}
	}
}
