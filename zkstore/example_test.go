package zkstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/zkstore"
)

// Two clients, as two processes would have, lock each other out through one ZooKeeper.
func Example() {
	ctx := context.Background()
	url := os.Getenv("ZOOKEEPER_URL") // such as zk://h1:2181,h2:2181,h3:2181?tick=2s

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

// A program takes locks in the ensemble that it has, with the tickTime of its servers. The password of its user changes
// from time to time.
func ExampleOpen() {
	ctx := context.Background()
	readPassword := func(context.Context) (user, password string, err error) {
		return "shop", "the password that a vault has now", nil
	}
	hosts := strings.Split(os.Getenv("ZOOKEEPER_SERVERS"), ",") // such as h1,h2,h3
	s, err := zkstore.Open(ctx, hosts, zkstore.WithChroot("/shop"), zkstore.WithTick(2*time.Second),
		zkstore.WithCredentials(readPassword))
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

// A Go service and a Java service exclude each other. The Java service has a Curator client without a namespace, and
// takes new InterProcessMutex(client, "/shop/inventory").
func ExampleOpen_besideCurator() {
	ctx := context.Background()
	locks, err := holdfast.Open(ctx, "zk://"+os.Getenv("ZOOKEEPER_SERVERS")+"?layout=curator&tick=2s")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	lease, err := locks.Mutex("shop/inventory").Lock(ctx) // the path, without the first slash
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)
	// Work under lease.Context(), which ends when the lock is lost.
}

// TestExamples runs the examples on a server.
func TestExamples(t *testing.T) {
	server := servers.ZooKeeper(t)
	t.Setenv("ZOOKEEPER_URL", "zk://"+server.Addr()+"?tick=2s")
	t.Setenv("ZOOKEEPER_SERVERS", server.Addr())
	conn := dial(t, server.Addr(), "")
	makeNode(t, conn, "/shop", zk.WorldACL(zk.PermAll))
	Example()
	ExampleOpen()
	ExampleOpen_besideCurator()
	sessions, _, err := conn.Children("/holdfast/session")
	testkit.Must(t, err)
	if len(sessions) > 0 {
		t.Errorf("sessions are left: %v", sessions)
	}
}
