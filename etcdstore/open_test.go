package etcdstore_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/store"
)

// tour does with a store all that can be done with one.
func tour(ctx context.Context, s *etcdstore.Store) error {
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
		if e == nil && standings[0].State != store.Held {
			e = cmp.Or(standings[0].Err, fmt.Errorf("it is %v", standings[0].State))
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
	err = cmp.Or(err, s.Leave(ctx, ghost)) // its Join may still come
	holder.Turn = 1
	keep(holder) // with news
	l, e := s.Line(ctx, "tour")
	if err = cmp.Or(err, e); err == nil && (len(l.Places) != 2 || l.Places[0].Turn != 1 || l.Places[0].Left <= 0) {
		err = fmt.Errorf("the line is %+v", l)
	}
	for name, e := range s.Names(ctx, "t") {
		if err = cmp.Or(err, e); err == nil && name != "tour" {
			err = fmt.Errorf("Names gives %q", name)
		}
	}
	err = cmp.Or(err, s.Break(ctx, "tour", holder.Ticket))
	for told := 0; err == nil && told < 2; told++ { // who is gone, and who holds now
		select {
		case id := <-pushed:
			if id == store.Everyone { // then everybody asks
				told = 2
			}
		case <-time.After(10 * time.Second):
			err = fmt.Errorf("only %d were told", told)
		}
	}
	if err == nil {
		keep(waiter)
	}
	return cmp.Or(err, s.Leave(ctx, waiter))
}

// works demands that all can be done with a store.
func works(t *testing.T, s *etcdstore.Store) {
	t.Helper()
	if err := tour(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// documentedRange is the range of keys that the package's documentation gives the smallest role.
func documentedRange(t *testing.T, prefix string) (key, end string) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`role grant-permission \w+ --prefix=true readwrite (\S+)`).FindSubmatch(text)
	if found == nil {
		t.Fatal("doc.go does not say what the smallest role is")
	}
	key = strings.Replace(string(found[1]), "P", prefix, 1)
	return key, clientv3.GetPrefixRangeEnd(key)
}

// addUser makes a user with one permission, whose password is secret.
func addUser(t *testing.T, root *clientv3.Client, user, key, end string, may authpb.Permission_Type) {
	t.Helper()
	_, err := root.UserAdd(t.Context(), user, "secret")
	if err == nil {
		_, err = root.RoleAdd(t.Context(), user)
	}
	if err == nil {
		_, err = root.RoleGrantPermission(t.Context(), user, key, end, clientv3.PermissionType(may))
	}
	if err == nil {
		_, err = root.UserGrantRole(t.Context(), user, user)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The role of the documentation is enough for everything, also for giving the session back.
func TestSmallestRole(t *testing.T) {
	server := servers.Etcd(t, servers.Password("open sesame"))
	root := server.Client(t)
	for i, prefix := range []string{"", "tenant"} {
		user := fmt.Sprint("user", i)
		key, end := documentedRange(t, prefix)
		addUser(t, root, user, key, end, clientv3.PermReadWrite)
		at := "etcd://" + user + ":secret@" + server.Addr()
		s := openAt(t, at+"?prefix="+prefix)
		works(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		left, err := root.Get(t.Context(), key, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil || len(left.Kvs) != 1 || string(left.Kvs[0].Key) != key+"id" {
			t.Errorf("after Close there is left %v, %v; want only the identity", left, err)
		}
		// Another tenant's keys are out of reach.
		checkFault(t, openError(t, at+"?prefix=other"), true, "lacks a permission")
	}
}

// It is the smallest: with less of it, something fails, and says why.
func TestSmallestRoleIsSmallest(t *testing.T) {
	server := servers.Etcd(t, servers.Password("open sesame"))
	root := server.Client(t)
	key, end := documentedRange(t, "")
	for user, less := range map[string]struct {
		key, end string
		may      authpb.Permission_Type
	}{
		"reader":      {key, end, clientv3.PermRead},
		"writer":      {key, end, clientv3.PermWrite},
		"noidentity":  {key + "j", end, clientv3.PermReadWrite},
		"nosessions":  {key, key + "session/", clientv3.PermReadWrite},
		"otherprefix": {"holdfast/other/", "holdfast/other0", clientv3.PermReadWrite},
	} {
		addUser(t, root, user, less.key, less.end, less.may)
		s, err := tryOpen(t, "etcd://"+user+":secret@"+server.Addr())
		if err == nil {
			err = tour(t.Context(), s)
			s.Close()
		}
		if err == nil {
			t.Errorf("with less (%s) all works", user)
		} else {
			checkFault(t, err, true, "lacks a permission")
		}
	}
}

// A permission that is taken away is missed by the next call.
func TestPermissionTakenAway(t *testing.T) {
	server := servers.Etcd(t, servers.Password("open sesame"))
	root := server.Client(t)
	key, end := documentedRange(t, "")
	addUser(t, root, "me", key, end, clientv3.PermReadWrite)
	s := openAt(t, "etcd://me:secret@"+server.Addr())
	c := claim("mine")
	join(t, s, &c, store.Held)
	if _, err := root.RoleRevokePermission(t.Context(), "me", key, end); err != nil {
		t.Fatal(err)
	}
	for _, call := range everyCall(s, c) {
		checkFault(t, call(t.Context()), true, "lacks a permission")
	}
	if _, err := root.RoleGrantPermission(t.Context(), "me", key, end, clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
		t.Fatal(err)
	}
	works(t, s)
}

func TestConnections(t *testing.T) {
	certificates := servers.NewCertificates(t)
	encrypted := servers.Etcd(t, servers.TLS(certificates), servers.Password("open sesame"),
		servers.Args("--client-cert-auth", "--trusted-ca-file", certificates.CAFile))
	open := servers.Etcd(t)
	own := fmt.Sprintf("cert=%s&key=%s", certificates.CertFile, certificates.KeyFile)
	authority := "&ca=" + certificates.CAFile
	root := "root:open%20sesame@"
	for name, url := range map[string]string{
		"TLS":                  "etcds://" + root + encrypted.Addr() + "?" + own + authority,
		"TLS by another name":  "etcds://" + root + encrypted.Addr() + "?" + own + authority + "&server-name=localhost",
		"TLS without checking": "etcds://" + root + encrypted.Addr() + "?" + own + "&insecure-skip-verify=true",
		"a needless password":  "etcd://me:secret@" + open.Addr(),
		"one of two members":   "etcd://" + nobodyAt(t) + "," + open.Addr(),
		"an odd prefix":        "etcd://" + open.Addr() + "?prefix=" + url.QueryEscape("{a/b}*\n%"),
		"the longest prefix":   "etcd://" + open.Addr() + "?prefix=" + strings.Repeat("p", store.MaxName),
	} {
		t.Run(name, func(t *testing.T) { works(t, openAt(t, url)) })
	}
}

// A client that was handed in stays its owner's, and serves several stores.
func TestNew(t *testing.T) {
	server := servers.Etcd(t)
	client := server.Client(t)
	var stores []*etcdstore.Store
	for _, prefix := range []string{"handed", "handed", "other"} {
		s, err := etcdstore.New(t.Context(), client, etcdstore.Prefix(prefix))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		works(t, s)
		if got, want := s.Abilities().Store, "etcd at "+server.Addr(); got != want {
			t.Errorf("it is called %q, want %q", got, want)
		}
		stores = append(stores, s)
	}
	a, b, other := stores[0], stores[1], stores[2]
	if a.Abilities().Identity != b.Abilities().Identity || a.Abilities().Identity == other.Abilities().Identity {
		t.Error("identities do not tell which stores see the same names")
	}
	told := make(chan store.ID, 10)
	b.Notify(func(id store.ID, standing store.Standing) {
		if standing.State == store.Held {
			told <- id
		}
	})
	holder, waiter, stranger := claim("same"), claim("same"), claim("same")
	join(t, a, &holder, store.Held)
	join(t, b, &waiter, store.Waiting)
	join(t, other, &stranger, store.Held)
	if err := a.Close(); err != nil { // and what it held goes with it
		t.Error(err)
	}
	select {
	case id := <-told:
		if id != waiter.ID {
			t.Errorf("told of %v, want of %v", id, waiter.ID)
		}
	case <-time.After(10 * time.Second):
		t.Error("the other store on this client was not told")
	}
	keep(t, other, stranger, store.Held)
	if _, err := client.Get(t.Context(), "any"); err != nil {
		t.Errorf("the client was closed with the store: %v", err)
	}
}

// Leases have whole seconds, and not too few of them.
func TestSessionTTL(t *testing.T) {
	server := servers.Etcd(t)
	client := server.Client(t)
	for query, want := range map[string]time.Duration{
		"":            etcdstore.DefaultTTL,
		"?ttl=1ms":    time.Second,
		"?ttl=1s":     time.Second,
		"?ttl=1500ms": 2 * time.Second,
		"?ttl=2s":     2 * time.Second,
		"?ttl=168h":   etcdstore.MaxTTL,
	} {
		s := openAt(t, "etcd://"+server.Addr()+query)
		if a := s.Abilities(); a.SessionTTL != want || a.MinTTL != want {
			t.Errorf("%q: the abilities say %v and %v, want %v", query, a.SessionTTL, a.MinTTL, want)
		}
		leases, err := client.Leases(t.Context())
		if err != nil || len(leases.Leases) != 1 {
			t.Fatalf("%q: %v, %v", query, leases, err)
		}
		if left, err := client.TimeToLive(t.Context(), leases.Leases[0].ID); err != nil || left.GrantedTTL != int64(want.Seconds()) {
			t.Errorf("%q: etcd has granted %v, %v; want %v", query, left, err, want)
		}
		c := claim("one")
		if standing := join(t, s, &c, store.Held); time.Until(standing.Until) > want {
			t.Errorf("%q: it is believed for %v", query, time.Until(standing.Until))
		}
		s.Close()
	}
}

// A lock cannot have a shorter ttl than the session, and one that asks for more has the session's.
func TestTTLOfLock(t *testing.T) {
	_, s := newServer(t, "?ttl=5s")
	locks := holdfast.New(s)
	defer locks.Close()
	_, err := locks.Mutex("short", holdfast.TTL(4*time.Second)).Lock(t.Context())
	if !errors.Is(err, holdfast.ErrBadTTL) || !strings.Contains(err.Error(), "5s") {
		t.Errorf("a lock with less than the session: %v", err)
	}
	lease, err := locks.Mutex("long", holdfast.TTL(time.Minute)).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(lease.Until()); left > 5*time.Second {
		t.Errorf("a lock is believed for %v in a session of 5s", left)
	}
}
