package redisstore_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// tour does with a store all that can be done with one.
func tour(ctx context.Context, s *redisstore.Store) error {
	pushed := make(chan store.ID, 10)
	s.Notify(func(id store.ID, _ store.Standing) { pushed <- id })
	var err error
	join := func(c *store.Claim, want store.State) {
		standing, e := s.Join(ctx, *c)
		if c.Ticket = standing.Ticket; e == nil && standing.State != want {
			e = fmt.Errorf("it is %v, want %v", standing.State, want)
		}
		err = cmp.Or(err, e)
	}
	keep := func(c store.Claim) {
		standings, e := s.Keep(ctx, []store.Claim{c})
		if e == nil {
			e = standings[0].Err
		}
		err = cmp.Or(err, e)
	}
	alone, holder, waiter, hasty, ghost := claim("alone"), claim("tour"), claim("tour"), claim("tour"), claim("tour")
	hasty.Try = true
	join(&alone, store.Held)
	keep(alone)
	err = cmp.Or(err, s.Leave(ctx, alone))
	join(&holder, store.Held)
	join(&waiter, store.Waiting)
	join(&hasty, store.Gone)
	err = cmp.Or(err, s.Leave(ctx, ghost)) // with a tombstone
	keep(holder)
	l, e := s.Line(ctx, "tour")
	if err = cmp.Or(err, e); err == nil && len(l.Places) != 2 {
		err = fmt.Errorf("the line is %+v", l)
	}
	for name, e := range s.Names(ctx, "t") {
		if err = cmp.Or(err, e); err == nil && name != "tour" {
			err = fmt.Errorf("Names gives %q", name)
		}
	}
	err = cmp.Or(err, s.Break(ctx, "tour", holder.Ticket))
	for range 2 {
		if err == nil {
			select {
			case <-pushed: // of who is gone, and of who holds now
			case <-time.After(patience):
				err = errors.New("nobody was told")
			}
		}
	}
	return cmp.Or(err, s.Leave(ctx, waiter))
}

// works demands that all can be done with a store.
func works(t *testing.T, s *redisstore.Store) {
	t.Helper()
	if err := tour(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// smallestACL is the one of the package's documentation.
func smallestACL(prefix string) string {
	return strings.NewReplacer("{P", "{"+prefix).Replace("user me on >secret resetkeys ~holdfast:{P|* ~holdfast:{P}:* resetchannels &holdfast:{P}:push:* -@all " +
		"+ping +info +time +select +subscribe +publish +eval +evalsha +scan +get +getrange +set +incr +del +exists +pexpire " +
		"+pexpireat +pttl +hget +hset +hdel +zadd +zrem +zrank +zrange +zrangebyscore +zscore +zcard")
}

func TestSmallestACL(t *testing.T) {
	for _, prefix := range []string{"", "tenant"} {
		server := servers.Redis(t, servers.ACL("user default off", smallestACL(prefix)))
		works(t, openAt(t, "redis://me:secret@"+server.Addr()+"/1?prefix="+prefix))
		if got := do(t, server, "ACL", "LOG"); got != "[]" {
			t.Errorf("the server refused: %s", got)
		}
		// Another tenant's keys are out of reach.
		checkFault(t, openError(t, "redis://me:secret@"+server.Addr()+"?prefix=other"), true, "lacks a permission")
	}
}

// It is the smallest: without any one of its commands, something fails.
func TestSmallestACLIsSmallest(t *testing.T) {
	server := servers.Redis(t)
	all := strings.Fields(smallestACL(""))[2:]
	for i, command := range all {
		if !strings.HasPrefix(command, "+") || command == "+ping" { // rueidis pings when it is idle
			continue
		}
		do(t, server, append([]string{"ACL", "SETUSER", "me", "reset", "on"}, slices.Delete(slices.Clone(all), i, i+1)...)...)
		s, err := tryOpen(t, "redis://me:secret@"+server.Addr()+"/1")
		if err == nil {
			err = tour(t.Context(), s)
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

// openError is why a store cannot be opened.
func openError(t *testing.T, raw string) error {
	t.Helper()
	s, err := tryOpen(t, raw)
	if err == nil {
		s.Close()
		t.Errorf("%s: it could be opened", raw)
	}
	return err
}

// refusal is why a store cannot be opened for good. While one of several servers has not answered, that is not known.
func refusal(t *testing.T, raw string) (err error) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		began := time.Now()
		if err = openError(t, raw); store.Final(err) || time.Since(began) < slow || time.Now().After(end) {
			return err
		}
	}
}

func TestConnections(t *testing.T) {
	certificates := servers.NewCertificates(t)
	encrypted := servers.Redis(t, servers.TLS(certificates), servers.Password("open sesame"), servers.Args("--tls-auth-clients", "yes"))
	plain := servers.Redis(t)
	own := fmt.Sprintf("cert=%s&key=%s", certificates.CertFile, certificates.KeyFile)
	authority := "&ca=" + certificates.CAFile
	for name, url := range map[string]string{
		"TLS":                  "rediss://:open%20sesame@" + encrypted.Addr() + "?" + own + authority,
		"TLS by another name":  "rediss://default:open%20sesame@" + encrypted.Addr() + "?" + own + authority + "&server-name=localhost",
		"TLS without checking": "rediss://:open%20sesame@" + encrypted.Addr() + "?" + own + "&insecure-skip-verify=true",
		"a database":           "redis://" + plain.Addr() + "/3",
		"a socket":             "redis+unix://" + plain.Socket() + "?db=3&prefix=socket",
		"an odd prefix":        "redis://" + plain.Addr() + "?prefix=" + url.QueryEscape("{a|b}*\n%"),
	} {
		t.Run(name, func(t *testing.T) { works(t, openAt(t, url)) })
	}
	if got := do(t, plain, "KEYS", "*"); !strings.Contains(got, "holdfast:{%7Ba%7Cb%7D%2A%0A%25}:mark") || strings.Contains(got, "socket") {
		t.Errorf("database 0 has the keys %s, want those of the odd prefix", got)
	}
}

// Databases are apart, and so are their identities.
func TestDatabasesAreApart(t *testing.T) {
	server := servers.Redis(t)
	a, b := openAt(t, "redis://"+server.Addr()), openAt(t, "redis://"+server.Addr()+"/1")
	one, two := claim("same"), claim("same")
	join(t, a, &one, store.Held)
	join(t, b, &two, store.Held)
	if a.Abilities().Identity == b.Abilities().Identity {
		t.Error("two databases have one identity")
	}
}

// A client that was handed in stays its owner's.
func TestNew(t *testing.T) {
	server := servers.Redis(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s, err := redisstore.New(t.Context(), client, redisstore.Prefix("handed"), redisstore.Guard(0))
	if err != nil {
		t.Fatal(err)
	}
	works(t, s)
	if got, want := s.Abilities().Store, "redis at "+server.Addr(); got != want {
		t.Errorf("it is called %q, want %q", got, want)
	}
	if v := s.Server(); v.Version == "" || v.Role != "master" || v.Ahead.Abs() > time.Minute {
		t.Errorf("the server says of itself %+v", v)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := client.Do(t.Context(), client.B().Ping().Build()).Error(); err != nil {
		t.Errorf("the client was closed with the store: %v", err)
	}
	await(t, "the store's connections are closed", func() bool {
		return !strings.Contains(do(t, server, "CLIENT", "LIST"), "sub=1")
	})
}

func TestWarnings(t *testing.T) {
	clock := servers.NewClock(t)
	server := servers.Redis(t, servers.Env(clock.Env()...), servers.Args("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"))
	clock.Step(-time.Hour)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var said bytes.Buffer
	logger := redisstore.Logger(slog.New(slog.NewTextHandler(&said, nil)))
	s, err := redisstore.New(t.Context(), client, logger)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for _, word := range []string{"locks may be lost", "policy=allkeys-lru", "clock differs", "ahead=-1h0m0s"} {
		if !strings.Contains(said.String(), word) {
			t.Errorf("the log does not say %q:\n%s", word, &said)
		}
	}
	if _, err := redisstore.New(t.Context(), client, logger, redisstore.RefuseEviction()); err == nil {
		t.Error("a server that evicts was not refused")
	}
}
