package stores_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// TestErrorsOfDeadServers: the server of each store is killed while locks are held, waited for and asked for, and
// the client is then closed. Each error has the prefix and the store's name once, says one cause (of each node), and
// nothing in the words of package net.
func TestErrorsOfDeadServers(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (url string, kill func() error){
		"redis": func(t *testing.T) (string, func() error) {
			server := servers.Redis(t)
			return "redis://" + server.Addr() + "?ttl=2s", server.Kill
		},
		"etcd": func(t *testing.T) (string, func() error) {
			server := servers.Etcd(t)
			return "etcd://" + server.Addr() + "?ttl=2s", server.Kill
		},
		"zk": func(t *testing.T) (string, func() error) {
			server := servers.ZooKeeper(t)
			return zooKeeperURL(server, ""), server.Kill
		},
		"consul": func(t *testing.T) (string, func() error) {
			server := servers.Consul(t)
			return "consul://" + server.Addr() + "?ttl=2s", server.Kill
		},
		"postgres": func(t *testing.T) (string, func() error) {
			server := servers.Postgres(t)
			return server.URL("postgres", "", "postgres") + "&ttl=2s", server.Kill
		},
		"mysql": func(t *testing.T) (string, func() error) {
			server, url := mariaDB(t)
			return url + "?ttl=2s", server.Kill
		},
		"redlock": func(t *testing.T) (string, func() error) {
			nodes := []*servers.RedisServer{servers.Redis(t), servers.Redis(t), servers.Redis(t)}
			return redlockURL(t, "", nodes...) + "?ttl=2s", func() error {
				return errors.Join(nodes[0].Kill(), nodes[1].Kill(), nodes[2].Kill())
			}
		},
		"sqlite": func(t *testing.T) (string, func() error) {
			return "sqlite:" + filepath.Join(t.TempDir(), "locks.db") + "?ttl=2s", nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, kill := start(t)
			at, err := store.ParseLocation(url)
			testkit.Must(t, err)
			s, err := store.Open(t.Context(), at)
			testkit.Must(t, err)
			can := s.Abilities()
			d := &dying{T: t, store: can.Store, locks: holdfast.New(s, holdfast.WithTTL(can.SessionTTL+2*time.Second))}
			d.run(kill)
			if kill != nil {
				_, err := holdfast.Open(t.Context(), url)
				d.check(err)
			}
		})
	}
}

// A dying is a client whose server is killed.
type dying struct {
	*testing.T
	store string
	locks *holdfast.Client
}

func (d *dying) run(kill func() error) {
	ctx, cancel := context.WithTimeout(d.Context(), time.Minute)
	defer cancel()
	lease, err := d.locks.Mutex("held").Lock(ctx)
	testkit.Must(d, err)
	_, err = d.locks.Mutex("held").TryLock(ctx)
	d.check(err)
	if kill == nil {
		d.locks.Close()
	} else if err := kill(); err != nil {
		d.Fatal(err)
	}
	var calls sync.WaitGroup
	for range 20 { // some come before the death of the server is noticed, and some after
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			_, err := d.locks.Mutex("other").Lock(ctx)
			d.check(err)
			_, err = d.locks.Inspect(ctx, "other")
			d.check(err)
		})
	}
	<-lease.Context().Done()
	d.check(lease.Err())
	d.check(lease.Unlock(ctx))
	calls.Go(func() {
		_, err := d.locks.Mutex("other").Lock(ctx)
		d.check(err)
	})
	d.locks.Close()
	calls.Wait()
	_, err = d.locks.Mutex("other").Lock(ctx)
	d.check(err)
}

// check checks how an error reads.
func (d *dying) check(err error) {
	d.Helper()
	if err == nil {
		d.Error("no error")
		return
	}
	text := err.Error()
	twice := ""
	for node := range strings.SplitSeq(text, "; ") { // of several nodes each has its own cause
		var clauses []string
		for clause := range strings.SplitSeq(node, ": ") {
			if slices.Contains(clauses, clause) {
				twice = clause
			}
			clauses = append(clauses, clause)
		}
	}
	if strings.Count(text, "holdfast:") != 1 || strings.Count(text, d.store) > 1 || len(text) > 1000 || twice != "" ||
		strings.Contains(text, "closed network") ||
		strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		d.Errorf("it says %q (%q twice)", text, twice)
	}
}
