package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/leaks"
)

// The tests start workers as the program does: they are this test binary. It has contestants more.
func TestMain(m *testing.M) {
	contestants = append(contestants,
		contestant{name: "test-open-door", role: peer, on: folderSite, open: openDoor, renews: true},
		contestant{name: "test-refused", role: peer, on: folderSite, open: openRefused},
		contestant{name: "test-fails", role: peer, on: folderSite, open: openFailing},
		contestant{name: "test-hangs", role: peer, on: folderSite, open: openHanging},
		contestant{name: "test-dies", role: peer, on: folderSite, open: openDying},
		contestant{name: "test-greedy", role: peer, on: folderSite, open: openGreedy},
	)
	if len(os.Args) == 2 && os.Args[1] == workerArg {
		if err := workerMain(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaks.Main(m)
}

// A fakeLocker does what its function says.
type fakeLocker func(ctx context.Context, name string) (lease, error)

func (f fakeLocker) Acquire(ctx context.Context, name string) (lease, error) { return f(ctx, name) }

func (fakeLocker) Close() error { return nil }

// isWarmUp says whether a name is that of a worker before it begins.
func isWarmUp(name string) bool { return strings.HasPrefix(name, "warm-") }

// An openLease is of a door that nobody closes.
type openLease struct{ leaseFunc }

func (openLease) Err() error { return nil }

func nothing() error { return nil }

// openDoor lets everybody in.
func openDoor(context.Context, string, time.Duration) (locker, error) {
	return fakeLocker(func(context.Context, string) (lease, error) { return openLease{nothing}, nil }), nil
}

func openRefused(context.Context, string, time.Duration) (locker, error) {
	return nil, errors.New("test: refused")
}

// openFailing fails at every second turn.
func openFailing(context.Context, string, time.Duration) (locker, error) {
	n := 0
	return fakeLocker(func(_ context.Context, name string) (lease, error) {
		if n++; n%2 == 0 && !isWarmUp(name) {
			return nil, errors.New("test: failed")
		}
		return leaseFunc(nothing), nil
	}), nil
}

// openHanging never comes back, whatever its context says.
func openHanging(context.Context, string, time.Duration) (locker, error) {
	return fakeLocker(func(_ context.Context, name string) (lease, error) {
		if !isWarmUp(name) {
			select {}
		}
		return leaseFunc(nothing), nil
	}), nil
}

func openDying(context.Context, string, time.Duration) (locker, error) {
	return fakeLocker(func(_ context.Context, name string) (lease, error) {
		if !isWarmUp(name) {
			fmt.Fprintln(os.Stderr, "test: last words")
			os.Exit(3)
		}
		return leaseFunc(nothing), nil
	}), nil
}

// openGreedy serves the first name at once. The others wait in vain.
func openGreedy(context.Context, string, time.Duration) (locker, error) {
	return fakeLocker(func(ctx context.Context, name string) (lease, error) {
		if !isWarmUp(name) && name != "bench-0" {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return leaseFunc(nothing), nil
	}), nil
}

func TestCommandLine(t *testing.T) {
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"--rounds", "-1"}, "negative"},
		{[]string{"--rounds", "many"}, "rounds"},
		{[]string{"--cases", "("}, "--cases"},
		{[]string{"--contestants", "["}, "--contestants"},
		{[]string{"--cases", "no such case"}, "no case"},
		{[]string{"--cases", "leases", "--contestants", "^raw$"}, "no case"},
		{[]string{"--contestants", "^concurrency$"}, "--store"},
		{[]string{"--store", "mongodb"}, `no store "mongodb"`},
		{[]string{"--store", "redis,"}, `no store ""`},
		{[]string{"--store", "etcd", "--nodes", "0"}, "--nodes 0"},
		{[]string{"--nodes", "3"}, "about etcd"},
		{[]string{"--store", "redis", "--no-fsync"}, "about etcd"},
		{[]string{"--store", "consul", "--no-fsync"}, "about etcd"},
		{[]string{"--from", "run.json"}, "--charts"},
		{[]string{"quick"}, "only flags"},
		{[]string{"--no-such-flag"}, "no-such-flag"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			var out, progress bytes.Buffer
			err := command(t.Context(), test.args, &out, &progress)
			var usage *usageError
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want a usage error that says %q", err, test.says)
			}
			if out.Len()+progress.Len() > 0 {
				t.Errorf("it began: %s%s", out.String(), progress.String())
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	must(t, command(t.Context(), []string{"--help"}, &out, &out))
	words := []string{
		"--quick",
		"--rounds N",
		"--cases regexp",
		"--contestants regexp",
		"--store list",
		"--nodes N",
		"--no-fsync",
		"--json file",
		"--charts folder",
		"--from file",
	}
	for _, kind := range siteKinds {
		words = append(words, kind.name)
	}
	for _, w := range workloads(false) {
		words = append(words, w.Name)
	}
	for _, c := range contestants {
		words = append(words, c.name)
	}
	for _, word := range words {
		if !strings.Contains(out.String(), word) {
			t.Errorf("the help does not say %q", word)
		}
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
