package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// What most tests of this package do with a store, and what they look at behind its back.

// Longer than any of these tests should take, also where servers fail over on a busy machine.
const ttl = 2 * time.Minute

// claim makes a claim of an exclusive lock.
func claim(name string) store.Claim { return testkit.Claim(name, ttl) }

func reader(name string) store.Claim {
	c := claim(name)
	c.Units = 1
	return c
}

// newServer starts a server and opens a store on it, with these parameters.
func newServer(t testing.TB, query string, options ...servers.Option) (*servers.RedisServer, *redisstore.Store) {
	t.Helper()
	server := servers.Redis(t, options...)
	return server, openAt(t, "redis://"+server.Addr()+query)
}

// tryOpen opens the store at a URL as holdfast.Open does.
func tryOpen(t testing.TB, raw string) (*redisstore.Store, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	s, err := store.Open(ctx, testkit.Locate(t, raw))
	if err != nil {
		return nil, err
	}
	return s.(*redisstore.Store), nil
}

// openAt opens the store at a URL, which must work.
func openAt(t testing.TB, raw string) *redisstore.Store {
	t.Helper()
	return mustOpen(t, func() (*redisstore.Store, error) { return tryOpen(t, raw) })
}

// slow is how long a sentinel may take to answer, and less than any other server may.
const slow = time.Second

// mustOpen opens a store. Where a server has taken too long to answer, on a machine that is busy, it is asked again.
func mustOpen(t testing.TB, open func() (*redisstore.Store, error)) *redisstore.Store {
	t.Helper()
	for end := time.Now().Add(testkit.Patience); ; {
		began := time.Now()
		s, err := open()
		if err == nil {
			t.Cleanup(func() { s.Close() })
			return s
		}
		if !testkit.Passes(err) || time.Since(began) < slow || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// openDetour opens a store whose connections go where detour says.
func openDetour(t testing.TB, raw string, detour func(address string) string) *redisstore.Store {
	t.Helper()
	s, err := redisstore.OpenDetour(t.Context(), testkit.Locate(t, raw), detour)
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// openError returns why the store at a URL cannot be opened.
func openError(t *testing.T, raw string) error {
	t.Helper()
	s, err := tryOpen(t, raw)
	if err == nil {
		s.Close()
		t.Errorf("%s: it could be opened", raw)
	}
	return err
}

// refusal returns why the store at a URL cannot be opened for good. While one of several servers has not answered, that
// is not known.
func refusal(t *testing.T, raw string) (err error) {
	t.Helper()
	for end := time.Now().Add(testkit.Patience); ; {
		began := time.Now()
		if err = openError(t, raw); store.Final(err) || time.Since(began) < slow || time.Now().After(end) {
			return err
		}
	}
}

// refuseQueries is testkit.RefuseURLs for one URL with several queries.
func refuseQueries(t *testing.T, url string, queries map[string]string) {
	t.Helper()
	urls := map[string]string{}
	for query, words := range queries {
		urls[url+"?"+query] = words
	}
	testkit.RefuseURLs(t, urls)
}

// checkFault is testkit.CheckFault for a fault that names the store.
func checkFault(t *testing.T, err error, final bool, words ...string) {
	t.Helper()
	testkit.CheckFault(t, err, final, append(words, "redis at ")...)
}

// newClient makes a client of the program's own.
func newClient(t testing.TB, options rueidis.ClientOption) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(options)
	testkit.Must(t, err)
	t.Cleanup(client.Close)
	return client
}

// handIn makes a client of the program's own that knows these servers.
func handIn(t testing.TB, addresses ...string) rueidis.Client {
	t.Helper()
	return newClient(t, rueidis.ClientOption{InitAddress: addresses})
}

// newOf makes a store of a client that the caller provided.
func newOf(t testing.TB, client rueidis.Client, options ...redisstore.Option) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(t.Context(), client, options...)
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// do sends the server a command that must work.
func do(t testing.TB, server *servers.RedisServer, args ...string) string {
	t.Helper()
	answer, err := server.Do(args...)
	if err != nil {
		t.Fatalf("%s: %v", args[0], err)
	}
	return fmt.Sprint(answer)
}

// calls is how often the server has run a command so far, also from inside scripts; "" is for all commands but INFO.
func calls(t testing.TB, server *servers.RedisServer, command string) (n int) {
	t.Helper()
	for line := range strings.Lines(do(t, server, "INFO", "commandstats")) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok || name == "info" || command != "" && name != command {
			continue
		}
		count, _, _ := strings.Cut(rest, ",")
		c, err := strconv.Atoi(count)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		n += c
	}
	return n
}

// reach waits until the store reaches its server again.
func reach(t testing.TB, s store.Store) {
	t.Helper()
	testkit.Await(t, "the server is reached", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Queue(ctx, "reach")
		return err == nil
	})
}
