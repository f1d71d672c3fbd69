package redisstore_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
)

// smallestACL is the one of the package's documentation.
func smallestACL(prefix string) string {
	return strings.NewReplacer("{P", "{"+prefix).
		Replace("user me on >secret resetkeys ~holdfast:{P|* ~holdfast:{P}:* resetchannels &holdfast:{P}:push:* " +
			"-@all " +
			"+ping +info +time +select +subscribe +publish +eval +evalsha +scan +get +getrange +set +incr +del " +
			"+exists +pexpire " +
			"+pexpireat +pttl +hget +hset +hdel +zadd +zrem +zrank +zrange +zrangebyscore +zscore +zcard")
}

func TestSmallestACL(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "tenant"} {
		server := servers.Redis(t, servers.ACL("user default off", smallestACL(prefix)))
		testkit.CheckWorks(t, openAt(t, "redis://me:secret@"+server.Addr()+"/1?prefix="+prefix))
		if got := do(t, server, "ACL", "LOG"); got != "[]" {
			t.Errorf("the server refused: %s", got)
		}
		// Another tenant's keys are out of reach.
		checkFault(t, openError(t, "redis://me:secret@"+server.Addr()+"?prefix=other"), true, "lacks a permission")
	}
}

// It is the smallest: without any one of its commands, something fails.
func TestSmallestACLIsSmallest(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	all := strings.Fields(smallestACL(""))[2:]
	for i, command := range all {
		if !strings.HasPrefix(command, "+") || command == "+ping" { // rueidis pings when it is idle
			continue
		}
		do(
			t,
			server,
			append([]string{"ACL", "SETUSER", "me", "reset", "on"}, slices.Delete(slices.Clone(all), i, i+1)...)...)
		s, err := tryOpen(t, "redis://me:secret@"+server.Addr()+"/1")
		if err == nil {
			err = testkit.Tour(t.Context(), s)
			s.Close()
		}
		if err == nil {
			t.Errorf("without %s all works", command)
		} else if !strings.Contains(err.Error(), "lacks a permission") {
			t.Errorf("without %s: %v", command, err)
		}
		do(t, server, "FLUSHALL")
		do(t, server, "SCRIPT", "FLUSH")
	}
}

func TestConnections(t *testing.T) {
	t.Parallel()
	certificates := servers.NewCertificates(t)
	encrypted := servers.Redis(t, servers.TLS(certificates), servers.Password("open sesame"),
		servers.Args("--tls-auth-clients", "yes"))
	plain := servers.Redis(t)
	own := fmt.Sprintf("cert=%s&key=%s", certificates.CertFile, certificates.KeyFile)
	authority := "&ca=" + certificates.CAFile
	for name, url := range map[string]string{
		"TLS": "rediss://:open%20sesame@" + encrypted.Addr() + "?" + own + authority,
		"TLS by another name": "rediss://default:open%20sesame@" + encrypted.Addr() + "?" + own + authority +
			"&server-name=localhost",
		"TLS without checking": "rediss://:open%20sesame@" + encrypted.Addr() + "?" + own +
			"&insecure-skip-verify=true",
		"a database":    "redis://" + plain.Addr() + "/3",
		"a socket":      "redis+unix://" + plain.Socket() + "?db=3&prefix=socket",
		"an odd prefix": "redis://" + plain.Addr() + "?prefix=" + url.QueryEscape("{a|b}*\n%"),
	} {
		t.Run(name, func(t *testing.T) { testkit.CheckWorks(t, openAt(t, url)) })
	}
	if got := do(t, plain, "KEYS", "*"); !strings.Contains(got, "holdfast:{%7Ba%7Cb%7D%2A%0A%25}:mark") ||
		strings.Contains(got, "socket") {
		t.Errorf("database 0 has the keys %s, want those of the odd prefix", got)
	}
}

// Databases are apart, and so are their identities.
func TestDatabasesAreApart(t *testing.T) {
	server := servers.Redis(t)
	a, b := openAt(t, "redis://"+server.Addr()), openAt(t, "redis://"+server.Addr()+"/1")
	testkit.Held(t, a, claim("same"))
	testkit.Held(t, b, claim("same"))
	if a.Abilities().Identity == b.Abilities().Identity {
		t.Error("two databases have one identity")
	}
}

// A client that the caller provided stays its owner's.
func TestNew(t *testing.T) {
	server := servers.Redis(t)
	client := handIn(t, server.Addr())
	s := newOf(t, client, redisstore.WithPrefix("handed"), redisstore.WithStartupDelay(0))
	testkit.CheckWorks(t, s)
	if got, want := s.Abilities().Store, "redis at "+server.Addr(); got != want {
		t.Errorf("it is called %q, want %q", got, want)
	}
	if v := s.Server(); v.Version == "" || v.Role != "master" || v.Ahead.Abs() > time.Minute {
		t.Errorf("the server says of itself %+v", v)
	}
	testkit.Check(t, s.Close())
	if err := client.Do(t.Context(), client.B().Ping().Build()).Error(); err != nil {
		t.Errorf("the client was closed with the store: %v", err)
	}
	testkit.Await(t, "the store's connections are closed", func() bool {
		return !strings.Contains(do(t, server, "CLIENT", "LIST"), "sub=1")
	})
}

func TestWarnings(t *testing.T) {
	clock := servers.NewClock(t)
	server := servers.Redis(t, servers.Env(clock.Env()...),
		servers.Args("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"))
	clock.Step(-time.Hour)
	client := handIn(t, server.Addr())
	var said testkit.Log
	logger := redisstore.WithLogger(said.Logger())
	newOf(t, client, logger).Close()
	for _, word := range []string{"locks may be lost", "policy=allkeys-lru", "clock differs", "ahead=-1h0m0s"} {
		if said.Count(word) == 0 {
			t.Errorf("the log does not say %q", word)
		}
	}
	if _, err := redisstore.New(t.Context(), client, logger, redisstore.WithEvictionRefused()); err == nil {
		t.Error("a server that evicts was not refused")
	}
}
