package memstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// nightly is the code under test of the examples: a job that only one process runs at a time. It stops when it
// loses the lock.
func nightly(ctx context.Context, locks *holdfast.Client, report func(string)) error {
	return locks.Mutex("nightly").Do(ctx, func(ctx context.Context) error {
		select {
		case <-time.After(time.Hour): // the work
			report("done")
			return nil
		case <-ctx.Done():
			report("stopped")
			return context.Cause(ctx)
		}
	})
}

// Time in a synctest bubble is fast-forwarded: this test of an hour's work takes no time.
func Example_fastForward() {
	test := func(t *testing.T) {
		server := memstore.NewServer()
		one, two := holdfast.New(server.Connect()), holdfast.New(server.Connect())
		defer one.Close()
		defer two.Close()

		began := time.Now()
		report := func(what string) { fmt.Println(what, "after", time.Since(began)) }
		go nightly(t.Context(), one, report) //nolint:errcheck // the report tells
		synctest.Wait()
		if err := nightly(t.Context(), two, report); err != nil { // waits for the other first
			t.Error(err)
		}
	}
	runExample(test)
	// Output:
	// done after 1h0m0s
	// done after 2h0m0s
}

// A lock is taken away from its holder when the test says so.
func ExampleServer_Revoke() {
	test := func(t *testing.T) {
		server := memstore.NewServer()
		locks := holdfast.New(server.Connect())
		defer locks.Close()

		time.AfterFunc(10*time.Minute, func() { server.Revoke("nightly") })
		began := time.Now()
		err := nightly(t.Context(), locks, func(what string) { fmt.Println(what, "after", time.Since(began)) })
		fmt.Println("lost:", errors.Is(err, holdfast.ErrLost))
	}
	runExample(test)
	// Output:
	// stopped after 10m0s
	// lost: true
}

// A process that is cut off from the store loses the lock when its ttl has passed, and another one acquires it.
func ExampleStore_Disconnect() {
	test := func(t *testing.T) {
		server := memstore.NewServer()
		connection := server.Connect()
		one := holdfast.New(connection, holdfast.WithTTL(time.Minute))
		two := holdfast.New(server.Connect(), holdfast.WithTTL(time.Minute))
		defer one.Close()
		defer two.Close()

		began := time.Now()
		report := func(what string) { fmt.Println(what, "after", time.Since(began).Round(time.Minute)) }
		go nightly(t.Context(), one, report) //nolint:errcheck // the report tells
		synctest.Wait()
		connection.Disconnect()
		if err := nightly(t.Context(), two, report); err != nil {
			t.Error(err)
		}
	}
	runExample(test)
	// Output:
	// stopped after 1m0s
	// done after 1h1m0s
}

// A server that restarts without its data has lost every lease.
func ExampleServer_Restart() {
	test := func(t *testing.T) {
		server := memstore.NewServer()
		locks := holdfast.New(server.Connect())
		defer locks.Close()

		time.AfterFunc(10*time.Minute, func() { server.Restart(false) })
		err := nightly(t.Context(), locks, func(what string) { fmt.Println(what) })
		fmt.Println("lost:", errors.Is(err, holdfast.ErrLost))
	}
	runExample(test)
	// Output:
	// stopped
	// lost: true
}

// runExample runs a test function the way `go test` would: an Example has no *testing.T of its own. The flags of the
// outer run (which tests, how often, how verbose) do not apply to it.
func runExample(test func(t *testing.T)) {
	for name, plain := range map[string]string{"test.run": "", "test.skip": "", "test.v": "false"} {
		given := flag.Lookup(name).Value.String()
		flag.Set(name, plain)       //nolint:errcheck // it exists, and takes this value
		defer flag.Set(name, given) //nolint:gocritic,revive // restored when the example is over, not before
	}
	var once sync.Once // also with -count and -cpu
	testing.RunTests(func(_, _ string) (bool, error) { return true, nil }, []testing.InternalTest{
		{Name: "example", F: func(t *testing.T) { once.Do(func() { synctest.Test(t, test) }) }},
	})
}
