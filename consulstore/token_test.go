package consulstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/consulstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// unknownToken is one that no server knows.
const unknownToken = "00000000-0000-4000-8000-000000000000"

// enough are rules that allow everything.
var enough = []string{
	`key_prefix "" { policy = "write" }`, `session_prefix "" { policy = "write" }`,
	`node_prefix "" { policy = "write" }`,
}

// writeToken puts a token into a file as a whole, with the queue's end that editors leave.
func writeToken(t testing.TB, file, token string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(file+".new", []byte(token+"\n"), 0o600))
	testkit.Must(t, os.Rename(file+".new", file))
}

// The token in a file is replaced while a lock is held, and Consul forgets the old one. The lock stays held, for longer
// than its ttl, and the session is the same.
func TestTokenFileReplaced(t *testing.T) {
	t.Parallel()
	server := guarded(t)
	first, second := tokenFor(t, server, enough...), tokenFor(t, server, enough...)
	file := filepath.Join(t.TempDir(), "token")
	writeToken(t, file, first)
	s := testkit.Open(t, "consul://"+server.Addr()+shortTTL+"&token-file="+file)
	held := testkit.Held(t, s, claimOf("mine"))
	writeToken(t, file, second)
	deleteToken(t, server, first)
	for over := time.Now().Add(3 * sessionTTL); time.Now().Before(over); {
		testkit.Keep(t, s, held, store.Held)
	}
	testkit.CheckWorks(t, s)
	deleteToken(t, server, second)
	_, err := s.Join(t.Context(), claimOf("another"))
	checkFault(t, err, true, "does not know the token")
	if strings.Contains(err.Error(), first) || strings.Contains(err.Error(), second) {
		t.Errorf("%v, which has a token", err)
	}
	testkit.Must(t, os.Remove(file))
	_, err = s.Join(t.Context(), claimOf("another"))
	checkFault(t, err, true, "does not know the token")
}

// A token in a file gets more permissions by being replaced, while Consul still knows the old one.
func TestTokenFileWithMorePermissions(t *testing.T) {
	t.Parallel()
	server := guarded(t)
	line := consulstore.LineOf("closed")
	less := append([]string{`key_prefix "` + line + `" { policy = "read" }`}, enough...)
	file := filepath.Join(t.TempDir(), "token")
	writeToken(t, file, tokenFor(t, server, less...))
	s := testkit.Open(t, "consul://"+server.Addr()+shortTTL+"&token-file="+file)
	_, err := s.Join(t.Context(), claimOf("closed"))
	checkFault(t, err, true, "lacks permission 'key:write'")
	writeToken(t, file, tokenFor(t, server, enough...))
	testkit.Held(t, s, claimOf("closed"))
}

// Credentials are asked for once, and again only when Consul refuses what they have said.
func TestCredentials(t *testing.T) {
	t.Parallel()
	server := guarded(t)
	first, second := tokenFor(t, server, enough...), tokenFor(t, server, enough...)
	var current atomic.Pointer[string]
	current.Store(&first)
	var asked atomic.Int32
	s, err := consulstore.Open(t.Context(), []string{server.Addr()}, consulstore.WithTTL(sessionTTL),
		consulstore.WithCredentials(func(context.Context) (string, error) {
			asked.Add(1)
			return *current.Load(), nil
		}))
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	testkit.CheckWorks(t, s)
	if n := asked.Load(); n > 3 { // renewals and blocking queries have their own
		t.Errorf("credentials were asked for %d times", n)
	}
	current.Store(&second)
	deleteToken(t, server, first)
	testkit.CheckWorks(t, s)
}

// Credentials that give another token each time are asked for twice by a call that Consul refuses, and no more.
func TestUselessCredentials(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	_, err := consulstore.Open(t.Context(), []string{guarded(t).Addr()}, consulstore.WithTTL(sessionTTL),
		consulstore.WithCredentials(func(context.Context) (string, error) {
			return fmt.Sprintf("00000000-0000-4000-8000-%012d", asked.Add(1)), nil
		}))
	checkFault(t, err, true, "does not know the token")
	if n := asked.Load(); n != 2 {
		t.Errorf("credentials were asked for %d times", n)
	}
}

// Without a token in the URL it is that of the environment. One in the URL goes before it.
func TestTokenOfEnvironment(t *testing.T) {
	server := guarded(t)
	t.Setenv("CONSUL_HTTP_TOKEN", management)
	testkit.CheckWorks(t, testkit.Open(t, "consul://"+server.Addr()+shortTTL))
	checkFault(t, testkit.OpenError(t, urlAs(server, unknownToken)), true, "does not know the token")
	t.Setenv("CONSUL_HTTP_TOKEN", unknownToken)
	checkFault(t, testkit.OpenError(t, "consul://"+server.Addr()+shortTTL), true, "does not know the token")
	testkit.CheckWorks(t, testkit.Open(t, urlAs(server, management)))
}

// A file that has no token is refused: requests without one would have somebody else's permissions.
func TestEmptyTokenFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	writeToken(t, file, "")
	testkit.RefuseURLs(t, map[string]string{
		"consul://" + servers.Consul(t).Addr() + shortTTL + "&token-file=" + file: "token-file: the file is empty",
		"consul://127.0.0.1?token-file=":                                          "token-file: ",
	})
}

// An agent repeats the token in its response. The error does not.
func TestTokenRepeatedByAgent(t *testing.T) {
	t.Parallel()
	agent := refusingAgent(t, "the token secret-of-mine is not for this datacenter")
	err := testkit.OpenError(t, "consul://:secret-of-mine@"+agent+shortTTL)
	checkFault(t, err, true, "is not for this datacenter")
}
